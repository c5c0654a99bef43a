"""Administrators' entries in the farm's log, as JSON: exclusions, costs, the publisher, parameters, sensing, keys.

Proposal 150, "Application Data Contents": configuration information posted by an administrator client. An entry names
its poster and its date. The leader checks the poster's name before the entry enters the log.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from gf_i2p.farm.admission import Admission, Admitted
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.sensed_floodfills import ClosestFloodfills, Sensed, SensedPost
from gf_i2p.farm.strict_json import (
    MAX_DATE_MS,
    RecordError,
    a_hash,
    an_object,
    check_limits,
    decode_object,
    integer,
    text,
    text_or_none,
    without_none,
)
from gf_i2p.netdb.encoding import to_b32_address, to_base64

ACTIONS: Final = (
    "exclude",
    "include",
    "cost",
    "move",
    "release",
    "drain",
    "undrain",
    "publishNow",
    "set",
    "sensed",
    "serverKey",
    "admit",
)
MAX_ENTRY_BYTES: Final = 8 << 10
MAX_REASON: Final = 200
"""Most characters of an administrator's reason."""
MAX_NAME: Final = 100
MAX_EXCLUDED: Final = 1024
MAX_DRAINED: Final = 64
MAX_SERVER_KEYS: Final = 1024
"""Most servers with a key in the log."""
MAX_ADMITTED: Final = 256
"""Most admissions that the farm keeps. An admission is kept while its server is a member, and before."""
MAX_LOG: Final = 64
"""Most changes that are kept for the explanation of the choice."""
_MAX_OPENINGS: Final = 32
"""Most lists and objects in one entry. Eight floodfills with profiles have 18; later versions may need more."""
_NAME: Final = "an admin entry"
_OF_HASHES: Final = frozenset({"exclude", "include", "cost", "sensed"})
_OF_SERVERS: Final = frozenset({"move", "drain", "undrain", "serverKey"})


@dataclass(frozen=True, slots=True)
class AdminEntry:
    """One change or report by an administrator."""

    cluster: str
    date_ms: int
    by: str
    """The poster's user name: "admin-NAME", or "server-ID" for that server's own operator."""
    action: str
    """One of `ACTIONS`."""
    hash: bytes | None = None
    """32 bytes: a leaf's hash, for exclude, include and cost; a leaf's or a master's, for sensed."""
    cost: int | None = None
    """0 to 255; None: the farm computes the cost."""
    server: int | None = None
    """The server's id, for move, drain, undrain and serverKey."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """New values for set, by the names in the log; None stands for the default."""
    sensed: Sensed | None = None
    """For sensed. No choice of the farm may depend on this field, because older nodes ignore the action."""
    reason: str | None = None
    key: bytes | None = None
    """For serverKey: the public half of the key (Ed25519, 32 bytes) by which the server logs in from now on. No choice
    of the farm may depend on this field, either."""
    admission: Admission | None = None
    """For admit: the new server, with its ticket. No choice of the farm may depend on this field, either."""

    @property
    def changes_no_choice(self) -> bool:
        """Whether no choice of the farm may depend on the entry."""
        reports = self.sensed is not None or self.key is not None or self.admission is not None
        return reports or self.action == "publishNow"

    def encode(self) -> bytes:
        """Return the JSON text of the log entry."""
        entry: dict[str, Any] = {"cluster": self.cluster, "date": self.date_ms, "by": self.by, "action": self.action}
        entry |= without_none({"server": self.server, "reason": self.reason})
        if self.hash is not None:
            entry["hash"] = to_base64(self.hash)
        if self.key is not None:
            entry["key"] = to_base64(self.key)
        if self.action == "cost":
            entry["cost"] = self.cost
        if self.action == "set":
            entry["parameters"] = dict(self.parameters)
        if self.sensed is not None:
            entry |= self.sensed.encode()
        if self.admission is not None:
            entry["admission"] = self.admission.encode()
        return json.dumps(entry, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a log entry's value. Raises `RecordError` for anything that is no admin entry."""
        entry = decode_object(data, _NAME, max_bytes=MAX_ENTRY_BYTES, max_openings=_MAX_OPENINGS)
        return cls._of_fields(entry)

    @classmethod
    def of_decoded(cls, entry: Mapping[str, Any], data: bytes) -> Self:
        """Read an admin entry from its decoded JSON object; `data` is the JSON text. Raises `RecordError`."""
        check_limits(data, _NAME, max_bytes=MAX_ENTRY_BYTES, max_openings=_MAX_OPENINGS)
        return cls._of_fields(entry)

    @classmethod
    def _of_fields(cls, entry: Mapping[str, Any]) -> Self:
        action = text(entry, "action")
        if action not in ACTIONS:
            raise RecordError(f"action is one of {', '.join(ACTIONS)}")
        by, reason = text(entry, "by"), text_or_none(entry, "reason")
        if not by or len(by) > MAX_NAME or (reason is not None and len(reason) > MAX_REASON):
            raise RecordError(f"by has up to {MAX_NAME} characters, reason up to {MAX_REASON}")
        cost = entry.get("cost")
        if cost is not None and (type(cost) is not int or not 0 <= cost <= 255):
            raise RecordError("cost is a whole number from 0 to 255, or null")
        parameters = an_object(entry.get("parameters", {}), "parameters")
        Parameters().changed(parameters)
        if action == "set" and not parameters:
            raise RecordError("set names at least one parameter")
        return cls(
            cluster=text(entry, "cluster"),
            date_ms=integer(entry, "date", MAX_DATE_MS),
            by=by,
            action=action,
            hash=a_hash(entry.get("hash"), "the hash") if action in _OF_HASHES else None,
            cost=cost if action == "cost" else None,
            server=integer(entry, "server", MAX_SERVER_ID) if action in _OF_SERVERS else None,
            parameters=parameters if action == "set" else {},
            sensed=Sensed.parse(entry) if action == "sensed" else None,
            reason=reason,
            key=a_hash(entry.get("key"), "the key") if action == "serverKey" else None,
            admission=Admission.parse(entry.get("admission")) if action == "admit" else None,
        )

    @property
    def what(self) -> str:
        """The request in words. Snapshots keep these words, so every version must choose the same words.

        Each request has whole words here, because `gf_i2p.cli.page.sentences` knows sentences by their forms.
        """
        leaf = None if self.hash is None else to_b32_address(self.hash)
        if self.sensed is not None:
            return f"sensed {leaf}: {self.sensed.what}"
        if self.action == "exclude":
            return f"exclude {leaf}"
        if self.action == "include":
            return f"include {leaf}"
        if self.action == "cost":
            return f"cost {leaf} as reckoned" if self.cost is None else f"cost {leaf} {self.cost}"
        if self.action == "move":
            return f"move {self.server}"
        if self.action == "drain":
            return f"drain {self.server}"
        if self.action == "undrain":
            return f"undrain {self.server}"
        if self.action == "serverKey":
            return f"serverKey {self.server}"
        if self.admission is not None:
            ticket = self.admission.ticket
            return f"admit server {ticket.server} at {self.admission.endpoint}, invited by {ticket.by}"
        if self.action == "publishNow":
            return "publish a new set now"
        if self.action == "set":
            values = ", ".join(
                f"{name} = {'default' if value is None else value}" for name, value in self.parameters.items()
            )
            return f"set {values}"
        return self.action


@dataclass(frozen=True, slots=True)
class AdminChange:
    """A change by an administrator, with its poster, its date and its index in the log."""

    index: int
    """Index of the entry in the log."""
    date_ms: int
    """Date in ms since the epoch, by the poster's clock."""
    by: str
    what: str
    reason: str | None = None

    def encode(self) -> dict[str, Any]:
        """Return the change as a JSON object."""
        change = {"index": self.index, "date": self.date_ms, "by": self.by, "what": self.what, "reason": self.reason}
        return without_none(change)

    @classmethod
    def parse(cls, change: Mapping[str, Any]) -> Self:
        """Read a change from a snapshot. Raises `RecordError`."""
        return cls(
            integer(change, "index", MAX_DATE_MS),
            integer(change, "date", MAX_DATE_MS),
            text(change, "by"),
            text(change, "what"),
            text_or_none(change, "reason"),
        )


@dataclass(frozen=True, slots=True)
class ServerKey:
    """The public half of a server's login key, and the index of the log entry that has set it."""

    key: bytes
    """32 bytes."""
    index: int

    def encode(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"key": to_base64(self.key), "index": self.index}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read the JSON object. Raises `RecordError`."""
        return cls(a_hash(fields.get("key"), "the key"), integer(fields, "index", MAX_DATE_MS))


class Administration:
    """The administrators' settings that are in force, and their last changes."""

    def __init__(self) -> None:
        self.excluded: dict[bytes, AdminChange] = {}
        """Leaves that are not listed, whatever their servers report: by hash, the change that excluded the leaf."""
        self.costs: dict[bytes, int] = {}
        """Costs that replace the computed costs, 0 to 255, by the leaf's hash."""
        self.moved_to: int | None = None
        """Id of the server that an administrator moved publishing to. That server publishes as long as it can. None:
        publishing was not moved."""
        self.publish_now: AdminChange | None = None
        """The last order to publish a new set at once; None: no order was given."""
        self.drained: dict[int, AdminChange] = {}
        """Servers that publish only when no other server can, by id, each with the change that drained the server."""
        self.parameters = Parameters()
        self.changed: dict[str, AdminChange] = {}
        """The last change of each parameter, by the parameter's name."""
        self.server_keys: dict[int, ServerKey] = {}
        """By server id, the key that replaces the key in the servers' files."""
        self.admitted: dict[int, Admitted] = {}
        """By server id, servers that were admitted by the log. Whether its signatures are right, each server checks."""
        self.sensing = ClosestFloodfills()
        """The newest posts of sensed floodfills; no choice depends on these."""
        self.log: list[AdminChange] = []
        """The last changes, the newest at the end."""

    def apply(self, entry: AdminEntry, index: int) -> None:
        """Apply the entry at `index` of the log. A change beyond a limit, or to impossible parameters, does nothing."""
        if entry.hash is not None and entry.sensed is not None:  # sensing is no change, so the log of changes omits it
            self.sensing.take(SensedPost(entry.hash, entry.sensed, index, entry.date_ms, entry.by))
            return
        change = AdminChange(index, entry.date_ms, entry.by, entry.what, entry.reason)
        match entry.action, entry.hash, entry.server:
            case "exclude", bytes(leaf), _:
                if leaf not in self.excluded and len(self.excluded) >= MAX_EXCLUDED:
                    return
                self.excluded[leaf] = change
            case "include", bytes(leaf), _:
                self.excluded.pop(leaf, None)
            case "cost", bytes(leaf), _:
                if entry.cost is None:
                    self.costs.pop(leaf, None)
                elif leaf in self.costs or len(self.costs) < MAX_EXCLUDED:
                    self.costs[leaf] = entry.cost
                else:
                    return
            case "move", _, int(server):
                self.moved_to = server
            case "release", _, _:
                self.moved_to = None
            case "publishNow", _, _:
                self.publish_now = change
            case "drain", _, int(server):
                if server not in self.drained and len(self.drained) >= MAX_DRAINED:
                    return
                self.drained[server] = change
            case "undrain", _, int(server):
                self.drained.pop(server, None)
            case "serverKey", _, int(server):
                if entry.key is None or (server not in self.server_keys and len(self.server_keys) >= MAX_SERVER_KEYS):
                    return
                self.server_keys[server] = ServerKey(entry.key, index)
            case "admit", _, _:
                admission = entry.admission
                if admission is None or len(self.admitted) >= MAX_ADMITTED:
                    return
                if admission.ticket.server in self.admitted:  # the first counts
                    return
                self.admitted[admission.ticket.server] = Admitted(admission, index, entry.date_ms)
            case "set", _, _:
                try:
                    self.parameters = self.parameters.changed(entry.parameters)
                except RecordError:  # each value is in its range, but the values contradict earlier ones
                    return
                self.changed.update(dict.fromkeys(entry.parameters, change))
        self.log.append(change)
        del self.log[:-MAX_LOG]

    def forget(self, servers: set[int], left: Collection[int] = ()) -> None:
        """Forget the settings about servers that are not in `servers`: a later server may get the same id.

        `left`: the servers that were members until now. A server that is admitted, and no member yet, stays admitted.
        """
        self.admitted = {server: each for server, each in self.admitted.items() if server not in left}
        self.server_keys = {server: key for server, key in self.server_keys.items() if server in servers}
        self.drained = {server: drain for server, drain in self.drained.items() if server in servers}
        if self.moved_to not in servers:
            self.moved_to = None

    def encode(self) -> dict[str, Any]:
        """Return the settings for a snapshot."""
        snapshot: dict[str, Any] = {
            "excluded": {to_base64(leaf): change.encode() for leaf, change in sorted(self.excluded.items())},
            "costs": {to_base64(leaf): cost for leaf, cost in sorted(self.costs.items())},
            "movedTo": self.moved_to,
            "drained": {str(server): change.encode() for server, change in sorted(self.drained.items())},
            "parameters": self.parameters.encode(),
            "log": [change.encode() for change in self.log],
        }
        if self.publish_now is not None:
            snapshot["publishNow"] = self.publish_now.encode()
        if self.changed:
            snapshot["changed"] = {name: change.encode() for name, change in sorted(self.changed.items())}
        if self.server_keys:
            snapshot["serverKeys"] = {str(server): key.encode() for server, key in sorted(self.server_keys.items())}
        if self.admitted:
            snapshot["admitted"] = [each.encode() for _, each in sorted(self.admitted.items())]
        if self.sensing:
            snapshot["sensed"] = self.sensing.encode()
        return snapshot

    @classmethod
    def parse(cls, snapshot: Mapping[str, Any]) -> Self:
        """Read the settings of a snapshot. Wrong data raise `RecordError` or another exception."""
        administration = cls()
        administration.excluded = {
            a_hash(leaf, "an excluded leaf"): AdminChange.parse(each) for leaf, each in snapshot["excluded"].items()
        }
        administration.costs = {
            a_hash(leaf, "a leaf"): integer(snapshot["costs"], leaf, 255) for leaf in snapshot["costs"]
        }
        administration.moved_to = None if snapshot["movedTo"] is None else integer(snapshot, "movedTo", MAX_SERVER_ID)
        order = snapshot.get("publishNow")
        administration.publish_now = None if order is None else AdminChange.parse(order)
        administration.drained = {
            integer({"server": int(server)}, "server", MAX_SERVER_ID): AdminChange.parse(each)
            for server, each in snapshot["drained"].items()
        }
        administration.parameters = Parameters().changed(snapshot["parameters"])
        administration.changed = {name: AdminChange.parse(each) for name, each in snapshot.get("changed", {}).items()}
        administration.server_keys = {
            integer({"server": int(server)}, "server", MAX_SERVER_ID): ServerKey.parse(each)
            for server, each in snapshot.get("serverKeys", {}).items()
        }
        admitted = [Admitted.parse(each) for each in snapshot.get("admitted", ())]
        administration.admitted = {each.admission.ticket.server: each for each in admitted[:MAX_ADMITTED]}
        administration.sensing = ClosestFloodfills.parse(snapshot.get("sensed", []))
        administration.log = [AdminChange.parse(each) for each in snapshot["log"]][-MAX_LOG:]
        return administration
