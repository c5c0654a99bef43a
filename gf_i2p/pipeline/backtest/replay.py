"""Replays a farm's log: the decisions that the farm took, and those that it would have taken with other parameters.

It is the node's own `FarmState` that decides. What is here finds out what to give it: which rows of a history are the
farm's log, and where that begins anew. No Spark.

What a history does not keep: the bytes of a value, but for what its JSON means. A member's record of more than 4 KiB
only because of spaces would count here, and has not counted in the farm.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from gf_i2p.farm.admin_entries import AdminEntry, Administration
from gf_i2p.farm.choice.publisher import Branch, Entry
from gf_i2p.farm.parameters import NAMES, Parameters
from gf_i2p.farm.record.status_record import FIRST_MEMBER_ID, StatusRecord
from gf_i2p.farm.state import FarmState, read_entry

SERVERS: Final = "servers"
"""The kind of a Configuration entry; those of Application entries make no difference here."""


@dataclass(slots=True)  # not frozen, which would take as long as to read it
class Row:
    """A row of the table `entries`."""

    index: int
    term: int
    received_ms: int
    kind: str
    value: bytes | None = None
    """Of an Application entry; a row with `servers` and a value is no entry, but says who they are behind a gap."""
    servers: tuple[int, ...] = ()
    """Of a Configuration entry, or behind a gap."""

    @property
    def is_gap(self) -> bool:
        """Whether it says what is behind a gap; such rows follow an entry with the same index."""
        return self.kind == SERVERS and self.value is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from the log up to an entry, where that is not what followed before."""

    index: int
    received_ms: int
    now_ms: int | None
    """Farm time."""
    publisher: int | None
    mode: str
    """"dry-run", "meta" or "failover"; "off" without a publisher."""
    entries: tuple[Entry, ...]
    branches: tuple[Branch, ...]
    exact: bool
    """False: the log before was not whole, and the farm may have decided otherwise."""

    @property
    def listed(self) -> Iterator[tuple[int | None, Entry]]:
        """Give the entries of all sets, each with the number of its branch; None: it is in the first set."""
        yield from ((None, entry) for entry in self.entries)
        for branch in self.branches:
            yield from ((branch.number, entry) for entry in branch.entries)


class SetState(FarmState):
    """A farm with some parameters of ours, whatever its administrators set; the others are theirs."""

    def __init__(self, cluster: str, fixed: Mapping[str, Any]) -> None:
        """`fixed`: by their names in the log; checked, see `grid`."""
        self._fixed = {NAMES[name]: value for name, value in fixed.items()}
        self._said: Parameters | None = None
        self._in_force = Parameters()
        super().__init__(cluster)

    @property
    def parameters(self) -> Parameters:
        """What counts."""
        said = self.administration.parameters
        if said is not self._said:
            self._said, self._in_force = said, replace(said, **self._fixed)
        return self._in_force


class Run:
    """One parameter set."""

    def __init__(self, cluster: str, fixed: Mapping[str, Any]) -> None:
        self.fixed = dict(fixed)
        """Empty: the live parameters."""
        self.publisher: int | None = None
        self.mode = "off"
        self.entries: tuple[Entry, ...] = ()
        self.branches: tuple[Branch, ...] = ()
        self._cluster = cluster
        self._listed: object = None
        self._most = 0
        self.state = self._new()

    def _new(self) -> FarmState:
        return SetState(self._cluster, self.fixed) if self.fixed else FarmState(self._cluster)

    def begin(self, administration: Administration, servers: Iterable[int]) -> None:
        """Begin anew, for what was before is not known; but for what others have said for good."""
        self.state = self._new()
        self.state.administration = administration
        self.state.configure(servers)
        self._listed = None

    def look(self) -> tuple[bool, bool]:
        """Say whether there is another publisher or mode than at the last look, and whether there is another set."""
        state = self.state
        publisher, mode = state.publisher, state.mode
        office = publisher != self.publisher or mode != self.mode
        if office:
            self.publisher, self.mode = publisher, mode
        # A listing makes a new one whenever it looks, also when the parameters change on which branches depend.
        if state.listing.listed is self._listed:
            return office, False
        self._listed = state.listing.listed
        entries, branches = state.entries()
        listing = entries != self.entries or branches != self.branches
        if listing:
            self.entries, self.branches = entries, branches
        return office, listing


class Watcher(Protocol):
    """Who measures."""

    def begins(self, servers: Sequence[int]) -> None:
        """All that was is not known to go on: the log lacks entries."""

    def configured(self, servers: Sequence[int]) -> None:
        """The farm has these servers from now on. Called before any run has taken that in."""

    def heard(self, record: StatusRecord) -> None:
        """A server or member of the farm has posted. Called before any run has taken that in."""

    def decided(self, run: int, *, office: bool, listing: bool, told: bool) -> None:
        """A run has another publisher (or mode), or another set. `told`: because an administrator has spoken."""


class Replay:
    """One farm's log, by several parameter sets at once: an entry is read once for all of them."""

    def __init__(self, farm: str, sets: Sequence[Mapping[str, Any]] = ({},), watcher: Watcher | None = None) -> None:
        """`sets`: fixed values by their names in the log, checked; {}: the live parameters."""
        self.farm = farm
        self.runs = [Run(farm, fixed) for fixed in sets]
        self.entries = 0
        """That were taken in."""
        self.superseded = 0
        """Rows that are not, or no more, of the log."""
        self.gaps = 0
        self.defects = 0
        """Entries that no state can take in: the nodes leave them out, too."""
        self._watcher = watcher
        self._index = 0
        self._term = 0
        self._servers_seen = False
        self._exact = False

    @property
    def exact(self) -> bool:
        """Whether the decisions now are the farm's: the log is whole so far, or every server has been heard since."""
        if not self._exact and self._servers_seen:
            state = self.runs[0].state
            self._exact = all(server in state.records for server in state.servers)
        return self._exact

    def feed(self, row: Row) -> list[int]:
        """Take in the next row: by index, the highest term first, gaps last. Return the runs that have decided anew."""
        if row.kind == SERVERS and row.is_gap:
            return self._feed_gap(row)
        if row.term < self._term or row.index <= self._index:
            self.superseded += 1
            return []
        if row.index != self._index + 1:
            self._begin()
        self._index, self._term = row.index, row.term
        self.entries += 1
        if row.kind == SERVERS:
            self._configure(row.servers)
            return self._look(told=False)
        value = row.value or b""
        found = read_entry(value)
        if isinstance(found, StatusRecord) and found.cluster == self.farm:
            self._hear(found)
        for run in self.runs:
            try:
                run.state.take(found, value, row.index)
            except Exception:  # noqa: BLE001 -- as in the node, which stays alive: see node.view.take_in
                self.defects += 1
        return self._look(told=isinstance(found, AdminEntry))

    def decision(self, run: int, row: Row) -> Decision:
        """Give what a run has decided at this row."""
        now = self.runs[run]
        return Decision(
            row.index,
            row.received_ms,
            now.state.now_ms,
            now.publisher,
            now.mode,
            now.entries,
            now.branches,
            self.exact,
        )

    def _feed_gap(self, row: Row) -> list[int]:
        """Take in who the servers are behind a gap of one history; where others had its entries, that is known."""
        began_anew = row.term > self._term  # from a snapshot: what has lower terms is forgotten from here on
        if row.index < self._index or 0 < row.term < self._term:
            return []
        if row.index > self._index:
            self._begin()
        elif self._servers_seen and not began_anew:
            return []
        self._index, self._term = row.index, max(row.term, self._term)
        self._servers_seen = True
        if set(row.servers) == set(self.runs[0].state.servers):
            return []  # the farm has not looked at its leaves here, and a look more may list others
        self._tell(row.servers)
        return self._look(told=False)

    def _look(self, *, told: bool) -> list[int]:
        decided: list[int] = []
        for number, run in enumerate(self.runs):
            office, listing = run.look()
            if office or listing:
                decided.append(number)
                if self._watcher is not None:
                    self._watcher.decided(number, office=office, listing=listing, told=told)
        return decided

    def _hear(self, record: StatusRecord) -> None:
        servers = self.runs[0].state.servers
        if record.id < FIRST_MEMBER_ID and record.id not in servers:
            if self._exact or self._servers_seen:
                return
            self._configure((*servers, record.id), guessed=True)
        if self._watcher is not None:
            self._watcher.heard(record)

    def _configure(self, servers: Sequence[int], *, guessed: bool = False) -> None:
        """`guessed`: who posts is a server, as long as nobody says who they are."""
        self._servers_seen = self._servers_seen or not guessed
        if self._index == 1 and not guessed:
            self._exact = True
        self._tell(servers)

    def _tell(self, servers: Sequence[int]) -> None:
        if self._watcher is not None:
            self._watcher.configured(servers)
        for run in self.runs:
            run.state.configure(servers)

    def _begin(self) -> None:
        self._exact = self._servers_seen = False
        self.gaps += 1
        servers = self.runs[0].state.servers
        if self._watcher is not None:
            self._watcher.begins(servers)
        for run in self.runs:
            run.begin(run.state.administration, servers)


def decisions(farm: str, rows: Iterable[Row]) -> Iterator[Decision]:
    """Give what a farm has decided, with its own parameters."""
    replay = Replay(farm)
    for row in rows:
        if replay.feed(row):
            yield replay.decision(0, row)
