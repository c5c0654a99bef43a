"""What a farm's log says: the newest record of each server. The same on every server that has applied the same log."""

import contextlib
from typing import Final

from gf_i2p.farm.record import RecordError, StatusRecord

MAX_SERVERS: Final = 1024
"""Of whom records are kept."""


class FarmState:
    """Fed with every committed Application entry, in order."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self.records: dict[int, StatusRecord] = {}
        """By server id, each server's newest."""
        self.last_published_ms = 0
        """The greatest that any server has announced: a set must be newer to replace what is in the netDb."""

    def apply(self, value: bytes) -> None:
        """Take in an entry; what is no record of this farm changes nothing."""
        with contextlib.suppress(RecordError):
            record = StatusRecord.parse(value)
            known = record.id in self.records or len(self.records) < MAX_SERVERS
            if record.cluster == self._cluster and known:
                self.records[record.id] = record
                if record.meta is not None:
                    self.last_published_ms = max(self.last_published_ms, record.meta.last_published_ms)
