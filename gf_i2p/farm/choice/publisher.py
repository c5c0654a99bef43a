"""Who publishes, and what: the same answer on every server that has applied the same log.

Among those that can (`candidates`): first whom an administrator has moved publishing to, then those with publishConfig
"on", then the better score, then the lower id. The publisher stays unless another one is clearly better for a
while; who can no longer publish loses it at once. `docs/publisher-choice.md` tells it in whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from gf_i2p.farm.choice.score import Score
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.record.remote_sensing import MAX_SERVER_ID
from gf_i2p.farm.strict_json import MAX_DATE_MS, whole, whole_or_none

MAX_LEAVES: Final = 16
"""Entries in one Meta lease set that both routers take."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a set."""

    hash: bytes
    """32 bytes."""
    type: int
    """3 for a leaf, 7 for the master of another farm."""
    cost: int
    """0 to 255; clients prefer less."""
    owner: int
    """The server or member whose leaf it is."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A set below the first one. What destination it has is the publisher's matter."""

    number: int
    """0 to 15; kept while the branch has entries."""
    entries: tuple[Entry, ...]
    """16 at most."""

    @property
    def cost(self) -> int:
        """What its entry in the first set costs: as much as the best that it leads to."""
        return min(entry.cost for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Choice:
    """What follows from the log."""

    publisher: int | None
    why_not: Mapping[int, str]
    """By server id, why each other server does not publish, for people."""
    mode: str = "off"
    """What the publisher is to do: "dry-run", "meta" or "failover"; "off" without one."""
    entries: tuple[Entry, ...] = ()
    """Of the first set, by owner and hash. Where there are branches, it has an entry for each of those as well."""
    branches: tuple[Branch, ...] = ()
    left_out: Mapping[bytes, str] = field(default_factory=dict)
    """By hash, why each leaf that somebody names is not listed, for people."""
    scores: Mapping[int, Score] = field(default_factory=dict)
    """Of the servers that have posted."""

    @property
    def listed(self) -> tuple[Entry, ...]:
        """The entries of all sets but those of branches."""
        return self.entries + tuple(entry for branch in self.branches for entry in branch.entries)

    @property
    def leaves(self) -> tuple[bytes, ...]:
        """The hashes of those entries."""
        return tuple(entry.hash for entry in self.listed)


class Standing(NamedTuple):
    """What a server that can publish has to say for itself. The order is that of ranks: less is better."""

    drained: bool
    not_moved: bool
    """Whether publishing was not moved to it."""
    not_on: bool
    """Whether its publishConfig is "auto"."""
    score: int

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """What comes before any score."""
        return self.drained, self.not_moved, self.not_on


@dataclass(slots=True)
class Election:
    """Who publishes. Times are of the farm's stopwatch (`clock.Clock.passed_ms`), in ms."""

    publisher: int | None = None
    since_ms: int = 0
    """When it was chosen."""
    beaten_ms: int | None = None
    """Since when, without a break, another one has been better by more than the margin; None: none is."""
    able: dict[int, int] = field(default_factory=dict)
    """The servers that can publish, and since when without a break."""

    def hold(
        self, standings: Mapping[int, Standing], now_ms: int, parameters: Parameters, *, told: bool = False
    ) -> None:
        """Choose anew. `standings`: of all servers that can publish. `told`: whether an administrator has just spoken.

        Then a better rank counts at once. Otherwise a better rank counts after some time: a server that comes and goes
        does not become the publisher each time.
        """
        if self.able.keys() != standings.keys():
            self.able = {server: self.able.get(server, now_ms) for server in sorted(standings)}
        if self.publisher is None or self.publisher not in standings:
            best = min(standings, key=lambda server: _order(server, standings[server]), default=None)
            self._give(best, now_ms)
            return
        present, most = standings[self.publisher], standings[self.publisher].score
        rank, first = present.rank, self.publisher
        rivals: list[int] = []
        for server, each in standings.items():
            if server == self.publisher:
                continue
            other = each.rank
            if other < rank:
                if told or now_ms - self.able[server] >= parameters.fresh_ms:
                    rivals.append(server)
            elif other == rank and (each.score > most or (each.score == most and server < first)):
                first, most = server, each.score
        if rivals:
            self._give(min(rivals, key=lambda server: _order(server, standings[server])), now_ms)
            return
        if most - present.score <= parameters.margin:
            self.beaten_ms = None
            return
        if self.beaten_ms is None:
            self.beaten_ms = now_ms
        if now_ms - self.since_ms >= parameters.hold_ms and now_ms - self.beaten_ms >= parameters.fresh_ms:
            self._give(first, now_ms)

    def encode(self) -> dict[str, Any]:
        """Give it for a snapshot."""
        return {
            "publisher": self.publisher,
            "since": self.since_ms,
            "beaten": self.beaten_ms,
            "able": [[server, since] for server, since in self.able.items()],
        }

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Read that of a snapshot. Raises `RecordError`, or what a wrong shape leads to."""
        return cls(
            whole_or_none(found, "publisher", MAX_SERVER_ID),
            whole(found, "since", MAX_DATE_MS),
            whole_or_none(found, "beaten"),
            {int(server): int(since) for server, since in found["able"]},
        )

    def _give(self, server: int | None, now_ms: int) -> None:
        self.publisher, self.since_ms, self.beaten_ms = server, now_ms, None


def _order(server: int, standing: Standing) -> tuple[bool, bool, bool, int, int]:
    return *standing.rank, -standing.score, server


def why_not(server: int, standing: Standing, publisher: int, present: Standing) -> str:
    """Say why a server that can publish does not, as another one does."""
    if standing.drained and not present.drained:
        return "it is drained: it publishes only when no other server can"
    if not present.not_moved and standing.not_moved:
        return f"publishing was moved to server {publisher}"
    if standing.not_on and not present.not_on:
        return f"server {publisher} is to publish (on), and it only may (auto)"
    if standing.rank < present.rank:
        return f"it can publish only for a short time yet; server {publisher} keeps the office until that has shown"
    if standing.score > present.score:
        return f"its score is {standing.score}; server {publisher} with {present.score} is in office"
    if standing.score < present.score:
        return f"its score is {standing.score}, and that of server {publisher} is {present.score}"
    if server > publisher:
        return f"server {publisher} is as good, and its id is lower"
    return f"server {publisher} is as good, and in office"
