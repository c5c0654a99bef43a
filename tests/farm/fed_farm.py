"""A farm's state, fed in the way of a log."""

from collections.abc import Callable, Iterable
from typing import Any

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, StatusRecord
from gf_i2p.farm.state import FarmState
from tests.farm.strategies import NOW, leaf, record

INTERVAL = 30_000
"""Milliseconds between two records of a server."""


class Farm:
    """Servers that post in turns; the clocks are right, but for `skew` (ms by server). `now` is the real time."""

    def __init__(self, *servers: int) -> None:
        self.state = FarmState("farm")
        self.servers = servers or (1, 2, 3)
        self.state.configure(self.servers)
        self.index = 0
        self.now = NOW
        self.dead: set[int] = set()
        self.skew: dict[int, int] = {}
        self.reports: dict[int, dict[str, Any]] = {server: {} for server in self.servers}
        """Each server's own part of the records, `leaves` among others."""
        self.members: list[Leaf] = []
        """Leaves of members that only serve, one leaf each."""

    def apply(self, value: bytes) -> None:
        self.index += 1
        self.state.apply(value, self.index)

    def post(self, posted: StatusRecord) -> None:
        self.apply(posted.encode())

    def admin(self, action: str, **changes: Any) -> None:
        self.apply(AdminEntry("farm", self.now, "admin-ann", action, **changes).encode())

    def says(self, server: int) -> None:
        """Post a status record of one server."""
        fields = dict(self.reports.get(server, {}))
        leaves: Iterable[Leaf] = fields.pop("leaves", (leaf(server),))
        self.post(record(server, *leaves, date=self.now + self.skew.get(server, 0), **fields))

    def turn(self, each: Callable[[], None] = lambda: None) -> None:
        """Let every living server and every member post once in one interval; call `each` after the servers."""
        for number, served in enumerate(self.members):
            self.post(record(FIRST_LEAF_MEMBER_ID + number, served, date=self.now, publish=None))
        for server in self.servers:
            if server not in self.dead:
                self.says(server)
                each()
            self.now += INTERVAL // len(self.servers)

    def lasts(self, ms: int, each: Callable[[], None] = lambda: None) -> None:
        """Let `ms` milliseconds pass, with the posts of all living servers."""
        end = self.now + ms
        while self.now < end:
            self.turn(each)

    @property
    def publisher(self) -> int | None:
        return self.state.choice.publisher

    @property
    def listed(self) -> set[int]:
        """The numbers of the leaves in the sets."""
        return {int.from_bytes(each) for each in self.state.choice.leaves}

    def copy(self) -> FarmState:
        """Give the knowledge of a server that has the state from a snapshot."""
        return FarmState.decode("farm", self.state.encode())
