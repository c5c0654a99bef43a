"""What a farm's log says: its servers, and the newest record of each. The same for all who have applied the same."""

from collections.abc import Iterable
from typing import Final

from gf_i2p.farm.publisher import farm_time_ms
from gf_i2p.farm.record import RecordError, StatusRecord

MAX_AHEAD_MS: Final = 30_000
"""How far ahead of farm time an announced set counts. Half of what a publisher may be ahead of its own clock: so nobody
can, by announcing sets of the future, keep the others from publishing."""


class FarmState:
    """Fed with every committed Configuration and Application entry, in order."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
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

    def apply(self, value: bytes) -> None:
        """Take in an Application entry; what is no record of a server of this farm changes nothing."""
        try:
            record = StatusRecord.parse(value)
        except RecordError:
            return
        if record.cluster == self._cluster and record.id in self.servers:
            self.records[record.id] = record
            self._count_announcements()

    def _count_announcements(self) -> None:
        """What is ahead of its time counts when its time has come, if its server still says it then."""
        now = farm_time_ms(self.records, self.servers)
        assert now is not None
        announced = [record.meta.last_published_ms for record in self.records.values() if record.meta is not None]
        self.last_published_ms = max(
            [self.last_published_ms, *(each for each in announced if each <= now + MAX_AHEAD_MS)]
        )
