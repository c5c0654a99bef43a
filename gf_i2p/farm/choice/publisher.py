"""Choice of the publisher: the same answer on every server that has applied the same log.

The module `candidates` finds the servers that can publish. Among these servers, the first difference decides: not
drained, then moved to by an administrator, then publishConfig "on", then the better score, then the lower id. The
publisher stays until another server is clearly better for a while. A publisher that can no longer publish is replaced
at once. `docs/explanation/publisher-choice.md` has the whole rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from gf_i2p.farm.choice.score import Score
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.strict_json import MAX_DATE_MS, integer, integer_or_none


@dataclass(frozen=True, slots=True)
class SetEntry:
    """One entry of a set."""

    hash: bytes
    """Hash of the destination that the entry leads to, 32 bytes."""
    type: int
    """3 for a leaf, 7 for the master of another farm."""
    cost: int
    """0 to 255; clients prefer a lower cost."""
    owner: int
    """Id of the server or member that reports the leaf."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A set below the first set. The publisher decides the branch's destination."""

    number: int
    """0 to 15; the number stays while the branch has entries."""
    entries: tuple[SetEntry, ...]
    """1 to 16 entries."""

    @property
    def cost(self) -> int:
        """Cost of the branch's entry in the first set: the least cost in the branch."""
        return min(entry.cost for entry in self.entries)


def listed_entries(entries: tuple[SetEntry, ...], branches: tuple[Branch, ...]) -> tuple[SetEntry, ...]:
    """Return the entries that list leaves, in the first set and in all branches."""
    return entries + tuple(entry for branch in branches for entry in branch.entries)


@dataclass(frozen=True, slots=True)
class Choice:
    """The farm's decisions that follow from its log: publisher, mode, listed leaves and branches."""

    publisher: int | None
    why_not: Mapping[int, str]
    """Why each server but the publisher does not publish: a clause for the operator, by server id."""
    mode: str = "off"
    """The publisher's mode: "dry-run", "meta" or "failover"; "off" without a publisher."""
    entries: tuple[SetEntry, ...] = ()
    """Entries of the first set, by owner and hash. With branches the first set also has an entry for each branch."""
    branches: tuple[Branch, ...] = ()
    left_out: Mapping[bytes, str] = field(default_factory=dict)
    """Why each leaf that a poster names is not listed: a clause for the operator, by the leaf's hash."""
    scores: Mapping[int, Score] = field(default_factory=dict)
    """Scores of the servers that have posted, by server id."""

    @property
    def listed(self) -> tuple[SetEntry, ...]:
        """The entries that list leaves, in the first set and in all branches."""
        return listed_entries(self.entries, self.branches)

    @property
    def leaves(self) -> tuple[bytes, ...]:
        """The hashes of the listed entries."""
        return tuple(entry.hash for entry in self.listed)


class Merit(NamedTuple):
    """The merit of a server that can publish: an administrator's decisions, then the server's setting and score."""

    drained: bool
    """Whether an administrator wants other servers to publish, if any can."""
    moved_here: bool
    """Whether an administrator has moved publishing to this server."""
    is_on: bool
    """Whether the server's publishConfig is "on", and not "auto"."""
    score: int
    """0 to 1000; more is better."""

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """The criteria that come before the score. The smaller tuple is better."""
        return self.drained, not self.moved_here, not self.is_on


@dataclass(slots=True)
class Election:
    """The elected publisher. Times are of the farm's stopwatch (`farm_time.FarmClock.passed_ms`), in ms."""

    publisher: int | None = None
    since_ms: int = 0
    """Time when the publisher was chosen, by the farm's stopwatch in ms."""
    beaten_ms: int | None = None
    """Time since which, without a break, some server of equal rank has a score higher by more than `margin`; None: no
    such server."""
    able: dict[int, int] = field(default_factory=dict)
    """The servers that can publish: by id, the time since which the server can publish without a break."""

    def elect(
        self, merits: Mapping[int, Merit], now_ms: int, parameters: Parameters, *, by_administrator: bool = False
    ) -> None:
        """Elect the publisher anew, or keep the present publisher.

        - A publisher that cannot publish any more is replaced at once.
        - A server of a better rank takes over when it has been able to publish for `fresh_ms` without a break. So a
          server that goes up and down does not become the publisher each time. With `by_administrator` the server takes
          over at once.
        - A server of the same rank takes over when some such server has been better by more than `margin` points for
          `fresh_ms` without a break, and the publisher has published for `hold_ms`.

        Args:
            merits: the merit of each server that can publish, by id.
            now_ms: the farm's stopwatch.
            parameters: the farm's parameters.
            by_administrator: whether an administrator's entry may just have changed a rank.
        """
        if self.able.keys() != merits.keys():
            self.able = {server: self.able.get(server, now_ms) for server in sorted(merits)}
        if self.publisher is None or self.publisher not in merits:
            best = min(merits, key=lambda server: _preference(server, merits[server]), default=None)
            self._appoint(best, now_ms)
            return
        incumbent, top_score = merits[self.publisher], merits[self.publisher].score
        rank, strongest = incumbent.rank, self.publisher
        rivals: list[int] = []
        for server, merit in merits.items():
            if server == self.publisher:
                continue
            server_rank = merit.rank
            if server_rank < rank:
                if by_administrator or now_ms - self.able[server] >= parameters.fresh_ms:
                    rivals.append(server)
            elif server_rank == rank and (merit.score > top_score or (merit.score == top_score and server < strongest)):
                strongest, top_score = server, merit.score
        if rivals:
            self._appoint(min(rivals, key=lambda server: _preference(server, merits[server])), now_ms)
            return
        if top_score - incumbent.score <= parameters.margin:
            self.beaten_ms = None
            return
        if self.beaten_ms is None:
            self.beaten_ms = now_ms
        if now_ms - self.since_ms >= parameters.hold_ms and now_ms - self.beaten_ms >= parameters.fresh_ms:
            self._appoint(strongest, now_ms)

    def encode(self) -> dict[str, Any]:
        """Return the election for a snapshot."""
        return {
            "publisher": self.publisher,
            "since": self.since_ms,
            "beaten": self.beaten_ms,
            "able": [[server, since] for server, since in self.able.items()],
        }

    @classmethod
    def parse(cls, snapshot: Mapping[str, Any]) -> Self:
        """Read the election of a snapshot. Wrong data raise `RecordError` or another exception."""
        return cls(
            integer_or_none(snapshot, "publisher", MAX_SERVER_ID),
            integer(snapshot, "since", MAX_DATE_MS),
            integer_or_none(snapshot, "beaten"),
            {
                integer({"server": server}, "server", MAX_SERVER_ID): integer({"since": since}, "since", MAX_DATE_MS)
                for server, since in snapshot["able"]
            },
        )

    def _appoint(self, server: int | None, now_ms: int) -> None:
        self.publisher, self.since_ms, self.beaten_ms = server, now_ms, None


def _preference(server: int, merit: Merit) -> tuple[bool, bool, bool, int, int]:
    return *merit.rank, -merit.score, server


def why_not(server: int, merit: Merit, publisher: int, publisher_merit: Merit) -> str:
    """Return why a server that can publish does not publish, as a clause. `merit`: the server's own merit."""
    if merit.drained and not publisher_merit.drained:
        return "it is drained: it publishes only when no other server can"
    if publisher_merit.moved_here and not merit.moved_here:
        return f"publishing was moved to server {publisher}"
    if publisher_merit.is_on and not merit.is_on:
        return f"server {publisher} is to publish (on), and this server only may (auto)"
    if merit.rank < publisher_merit.rank:
        return f"it has been able to publish only for a short time; server {publisher} stays the publisher for now"
    if merit.score > publisher_merit.score:
        return f"its score is {merit.score}; server {publisher} with {publisher_merit.score} publishes already"
    if merit.score < publisher_merit.score:
        return f"its score is {merit.score}, and that of server {publisher} is {publisher_merit.score}"
    if server > publisher:
        return f"server {publisher} is as good, and its id is lower"
    return f"server {publisher} is as good, and publishes already"
