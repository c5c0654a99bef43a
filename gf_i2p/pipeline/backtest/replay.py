"""Replays a farm's log: the decisions that the farm took, and the decisions under other parameters.

The node's own `FarmState` decides. This module finds out which rows of a history are the farm's log, and where the
replay has to begin anew. This module does not need Spark.

A history keeps the meaning of a value's JSON, and not the bytes. So the replay takes in a member's record that exceeds
4 KiB only because of spaces, although the farm refused that record.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.farm.admin_entries import AdminEntry, Administration
from gf_i2p.farm.choice.publisher import Branch, SetEntry
from gf_i2p.farm.parameters import NAMES, Parameters
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, StatusRecord
from gf_i2p.farm.state import FarmState, read_entry
from gf_i2p.netdb.encoding import to_base64

if TYPE_CHECKING:
    from gf_i2p.pipeline.backtest.replay_measures import ReplayMeter

SERVERS: Final = "servers"
"""The kind of a Configuration entry; the kinds of Application entries make no difference here."""


@dataclass(slots=True)  # not frozen: to make a frozen row takes as long as to read the row
class ReplayedEntry:
    """A row of the table `entries`."""

    index: int
    term: int
    received_ms: int
    kind: str
    value: bytes | None = None
    """Value of an Application entry. A row of kind "servers" with a value is not an entry: see `is_gap`."""
    servers: tuple[int, ...] = ()
    """Servers of a Configuration entry, or the servers after a gap."""

    @property
    def is_gap(self) -> bool:
        """Whether the row names the servers after a gap that ends at `index`.

        The row of the entry with the same index, if there is one, comes before this row.
        """
        return self.kind == SERVERS and self.value is not None


class SetState(FarmState):
    """The state of a farm with fixed values for some parameters, whatever administrators set in the log."""

    def __init__(self, cluster: str, fixed: Mapping[str, Any]) -> None:
        """`fixed`: values by the names in the log, checked as in `grid`."""
        self._fixed = {NAMES[name]: value for name, value in fixed.items()}
        self._farm_parameters: Parameters | None = None
        self._in_force = Parameters()
        super().__init__(cluster)

    @property
    def parameters(self) -> Parameters:
        """The farm's parameters, with the fixed values in place of the farm's values."""
        farm_parameters = self.administration.parameters
        if farm_parameters is not self._farm_parameters:
            self._farm_parameters, self._in_force = farm_parameters, replace(farm_parameters, **self._fixed)
        return self._in_force


class ParameterRun:
    """The replay of one parameter set."""

    def __init__(self, cluster: str, fixed: Mapping[str, Any]) -> None:
        self.fixed = dict(fixed)
        """The fixed values; empty: the run has the live parameters."""
        self.publisher: int | None = None
        self.mode = "off"
        self.entries: tuple[SetEntry, ...] = ()
        self.branches: tuple[Branch, ...] = ()
        self._cluster = cluster
        self._listed: object = None
        self.state = self._new()

    def _new(self) -> FarmState:
        return SetState(self._cluster, self.fixed) if self.fixed else FarmState(self._cluster)

    def begin(self, administration: Administration, servers: Iterable[int]) -> None:
        """Begin anew after a gap, with only the administrators' settings and the servers."""
        self.state = self._new()
        self.state.administration = administration
        self.state.configure(servers)
        self._listed = None

    def look(self) -> tuple[bool, bool]:
        """Return whether publisher or mode have changed since the last call, and whether the published set has."""
        state = self.state
        publisher, mode = state.publisher, state.mode
        publisher_changed = publisher != self.publisher or mode != self.mode
        if publisher_changed:
            self.publisher, self.mode = publisher, mode
        # The listing gets a new dict whenever leaves are chosen, also after a change of a parameter for branches.
        if state.listing.listed is self._listed:
            return publisher_changed, False
        self._listed = state.listing.listed
        entries, branches = state.entries()
        listing = entries != self.entries or branches != self.branches
        if listing:
            self.entries, self.branches = entries, branches
        return publisher_changed, listing


class Replay:
    """The replay of one farm's log with several parameter sets at once: each entry is parsed once for all sets."""

    def __init__(
        self, farm: str, sets: Sequence[Mapping[str, Any]] = ({},), watcher: "ReplayMeter | None" = None
    ) -> None:
        """`sets`: parameter sets that `grid.checked` has checked. {} stands for the live parameters.

        A set has the fixed value of each parameter, by the parameter's name in the log. `watcher`: measures the runs.
        """
        self.farm = farm
        self.runs = [ParameterRun(farm, fixed) for fixed in sets]
        self.entries = 0
        """Number of entries that the replay has taken in."""
        self.superseded = 0
        """Rows that the final log does not have, because a later term replaced their entries."""
        self.gaps = 0
        self._watcher = watcher
        self._index = 0
        self._term = 0
        self._servers_seen = False
        self._exact = False

    @property
    def exact(self) -> bool:
        """Whether decisions surely agree with the farm's: there is no gap, or every server has posted since the gap."""
        if not self._exact and self._servers_seen:
            state = self.runs[0].state
            self._exact = all(server in state.records for server in state.servers)
        return self._exact

    def feed(self, row: ReplayedEntry) -> list[int]:
        """Take in the next row; return the numbers of the runs whose decision has changed.

        Feed the rows by index. At the same index, entries come before gap rows, and higher terms first.
        """
        if row.kind == SERVERS and row.is_gap:
            return self._feed_gap(row)
        if row.term < self._term or row.index <= self._index:
            self.superseded += 1
            return []
        if row.index != self._index + 1:
            self._begin_anew()
        self._index, self._term = row.index, row.term
        self.entries += 1
        if row.kind == SERVERS:
            self._configure(row.servers)
            return self._report_changes(by_admin=False)
        value = row.value or b""
        entry = read_entry(value)
        if isinstance(entry, StatusRecord) and entry.cluster == self.farm:
            self._hear(entry)
        for run in self.runs:
            with suppress(Exception):  # as in the node, which stays alive: see node.view.take_in
                run.state.apply_entry(entry, value, row.index)
        return self._report_changes(by_admin=isinstance(entry, AdminEntry))

    def decision(self, row: ReplayedEntry) -> dict[str, Any]:
        """Return the present decision of the first run, as a row of the table `decisions`. `row`: fed last.

        The farm time `now_ms` is in milliseconds since the epoch; None: not yet known. The mode is "dry-run", "meta" or
        "failover", and "off" without a publisher. The entries of the top set have the branch None.
        """
        run = self.runs[0]
        branches = [(None, run.entries), *((branch.number, branch.entries) for branch in run.branches)]
        return {
            "farm": self.farm,
            "index": row.index,
            "received_ms": row.received_ms,
            "now_ms": run.state.now_ms,
            "publisher": run.publisher,
            "mode": run.mode,
            "listed": [
                {name: getattr(entry, name) for name in ("type", "cost", "owner")}
                | {"hash": to_base64(entry.hash), "branch": branch}
                for branch, entries in branches
                for entry in entries
            ],
            "exact": self.exact,
        }

    def _feed_gap(self, row: ReplayedEntry) -> list[int]:
        """Take in the servers after a gap, unless other histories have the missing entries. Returns as `feed` does."""
        began_anew = row.term > self._term  # from a snapshot: entries of lower terms no longer count
        if row.index < self._index or 0 < row.term < self._term:
            return []
        if row.index > self._index:
            self._begin_anew()
        elif self._servers_seen and not began_anew:
            return []
        self._index, self._term = row.index, max(row.term, self._term)
        self._servers_seen = True
        if set(row.servers) == set(self.runs[0].state.servers):
            return []  # the farm chose no leaves here, and `configure` would choose leaves
        self._set_servers(row.servers)
        return self._report_changes(by_admin=False)

    def _report_changes(self, *, by_admin: bool) -> list[int]:
        changed_runs: list[int] = []
        for number, run in enumerate(self.runs):
            publisher_changed, listing = run.look()
            if publisher_changed or listing:
                changed_runs.append(number)
                if self._watcher is not None:
                    self._watcher.decided(
                        number, publisher_changed=publisher_changed, listing=listing, by_admin=by_admin
                    )
        return changed_runs

    def _hear(self, record: StatusRecord) -> None:
        servers = self.runs[0].state.servers
        if record.id < FIRST_LEAF_MEMBER_ID and record.id not in servers:
            if self._exact or self._servers_seen:
                return
            self._configure((*servers, record.id), guessed=True)
        if self._watcher is not None:
            self._watcher.heard(record)

    def _configure(self, servers: Sequence[int], *, guessed: bool = False) -> None:
        """Set the servers. `guessed`: no Configuration is known yet, so every poster with a server's id is a server."""
        self._servers_seen = self._servers_seen or not guessed
        if self._index == 1 and not guessed:
            self._exact = True
        self._set_servers(servers)

    def _set_servers(self, servers: Sequence[int]) -> None:
        if self._watcher is not None:
            self._watcher.configured(servers)
        for run in self.runs:
            run.state.configure(servers)

    def _begin_anew(self) -> None:
        self._exact = self._servers_seen = False
        self.gaps += 1
        servers = self.runs[0].state.servers
        if self._watcher is not None:
            self._watcher.begins(servers)
        for run in self.runs:
            run.begin(run.state.administration, servers)
