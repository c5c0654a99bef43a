"""What a farm's log says: its servers, and the newest record of each. The same for all who have applied the same."""

import json
from collections.abc import Iterable
from typing import Final, Self

from gf_i2p.farm.publisher import farm_time_ms
from gf_i2p.farm.record import StatusRecord
from gf_i2p.farm.remote import MAX_SERVER_ID
from gf_i2p.farm.strict import MAX_DATE_MS, RecordError

MAX_AHEAD_MS: Final = 30_000
"""How far ahead of farm time an announced set counts. Half of what a publisher may be ahead of its own clock: so nobody
can, by announcing sets of the future, keep the others from publishing."""


_FORMAT: Final = 1


class SnapshotError(ValueError):
    """The bytes are no state that this version knows; `str()` says why."""


class FarmState:
    """Fed with every committed Configuration and Application entry, in order."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._values: dict[int, bytes] = {}
        """The records as they stand in the log: a newer version may read more in them."""
        self.servers: tuple[int, ...] = ()
        """Ids of those that the newest committed Configuration names."""
        self.records: dict[int, StatusRecord] = {}
        """By server id, each server's newest."""
        self.last_published_ms = 0
        """The greatest that any server has announced: a set must be newer to replace what is in the netDb."""

    def configure(self, servers: Iterable[int]) -> None:
        """Take in a Configuration. Records count from servers only: anybody who may post could make up others."""
        self.servers = tuple(servers)
        self.records = {server: self.records[server] for server in self.servers if server in self.records}
        self._values = {server: self._values[server] for server in self.records}

    def apply(self, value: bytes) -> None:
        """Take in an Application entry; what is no record of a server of this farm changes nothing."""
        try:
            record = StatusRecord.parse(value)
        except RecordError:
            return
        if record.cluster == self._cluster and record.id in self.servers:
            self.records[record.id] = record
            self._values[record.id] = value
            self._count_announcements()

    def encode(self) -> bytes:
        """Give all of it, for a snapshot: the same bytes on every server that has applied the same."""
        state = {
            "format": _FORMAT,
            "servers": list(self.servers),
            "lastPublishedTime": self.last_published_ms,
            "records": {str(server): self._values[server].decode() for server in sorted(self._values)},
        }
        return json.dumps(state, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, cluster: str, data: bytes) -> Self:
        """Read a snapshot's data. Raises `SnapshotError`."""
        try:
            found = json.loads(data)
            known = found["format"] == _FORMAT
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SnapshotError(f"it is no state of a farm ({type(error).__name__}: {error})") from error
        if not known:
            raise SnapshotError(f"it has the format {str(found['format'])[:80]!r}; this version knows {_FORMAT}")
        state = cls(cluster)
        try:
            state.configure(_whole(server, MAX_SERVER_ID) for server in found["servers"])
            for server, text in found["records"].items():
                record = StatusRecord.parse(text.encode())
                state._check(record, server)
                state.records[record.id], state._values[record.id] = record, text.encode()
            state.last_published_ms = _whole(found["lastPublishedTime"], MAX_DATE_MS)
        except SnapshotError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"it is no state of a farm ({type(error).__name__}: {error})") from error
        return state

    def _check(self, record: StatusRecord, server: str) -> None:
        if str(record.id) != server or record.id not in self.servers or record.cluster != self._cluster:
            raise SnapshotError(f"it has a record of server {record.id} of {record.cluster!r} for another")

    def _count_announcements(self) -> None:
        """What is ahead of its time counts when its time has come, if its server still says it then."""
        now = farm_time_ms(self.records, self.servers)
        assert now is not None
        announced = [record.meta.last_published_ms for record in self.records.values() if record.meta is not None]
        self.last_published_ms = max(
            [self.last_published_ms, *(each for each in announced if each <= now + MAX_AHEAD_MS)]
        )


def _whole(value: object, high: int) -> int:
    if type(value) is not int or not 0 <= value <= high:
        raise SnapshotError(f"it has a number that is none from 0 to {high}")
    return value
