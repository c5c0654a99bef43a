"""A set on its way through the log: its version, and whether the router may still get the set.

A set is announced in the log first. So `published` rises strictly from one publisher to the next, and a server that is
cut off from the farm publishes nothing (docs/design/publishing.md).
"""

from dataclasses import dataclass

from gf_i2p.farm.choice.publisher import Branch, Choice, SetEntry, listed_entries
from gf_i2p.farm.publishing.lease import PublisherLease, lease_seconds
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.farm.set_versions import MAX_TAKEN_AHEAD_MS, next_version


@dataclass(frozen=True, slots=True)
class LeafSet:
    """The leaves that the published set lists."""

    entries: tuple[SetEntry, ...] = ()
    """Entries of the first set, without the entries for branches."""
    branches: tuple[Branch, ...] = ()

    @classmethod
    def of(cls, choice: Choice) -> "LeafSet":
        """Return the leaf set that a choice of the farm asks for."""
        return cls(choice.entries, choice.branches)

    @property
    def hashes(self) -> set[bytes]:
        """The hashes of all leaves."""
        return {entry.hash for entry in self.leaves}

    @property
    def leaves(self) -> tuple[SetEntry, ...]:
        """The entries that list leaves, in the first set and in all branches."""
        return listed_entries(self.entries, self.branches)

    @property
    def numbers(self) -> set[int]:
        """The numbers of the branches."""
        return {branch.number for branch in self.branches}

    def differs(self, other: "LeafSet") -> bool:
        """Whether clients would see a different set."""
        return self.content != other.content

    @property
    def content(self) -> object:
        """All that clients see of the sets."""
        return (
            frozenset((entry.hash, entry.type, entry.cost) for entry in self.entries),
            frozenset(
                (branch.number, entry.hash, entry.type, entry.cost)
                for branch in self.branches
                for entry in branch.entries
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Announcement:
    """One set, with its branches, from its announcement until the router has the set."""

    published: int
    """The set's version, in seconds since the epoch."""
    posted_at: float
    """When the announcement was posted, by the clock of `Situation.now`."""
    leaf_set: LeafSet = LeafSet()
    keys: object = None
    """The keys that sign the set."""
    applied: int = 0
    """Index up to which this server had applied the log when the set was chosen."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the router does not get a set."""

    reason: str
    is_fault: bool = False
    """Whether the operator must mend the cause. Otherwise the farm's log has gone on, and the machine tries again."""


def version_for(situation: Situation) -> int:
    """Return the version of a new set, in seconds since the epoch: see `next_version`."""
    return next_version(situation.state, situation.wall_ms)


def untimely(published: int, situation: Situation) -> str | None:
    """Return why routers would refuse a set of this version now, as a clause; None: routers would accept the set.

    `published`: the set's version, seconds since the epoch.
    """
    ahead_ms = published * 1000 - situation.wall_ms
    if ahead_ms <= MAX_TAKEN_AHEAD_MS:
        return None
    return (
        f"routers would refuse the set: its date would be {ahead_ms / 1000:.0f} s in the future, later than another "
        "server's set: check the clocks"
    )


def covers(lease: PublisherLease, announcement: Announcement, situation: Situation) -> bool:
    """Whether the lease still covers the announcement; otherwise the machine gives the announcement up."""
    return lease.covers(announcement.posted_at, situation.now, lease_seconds(situation.state.parameters))


def objection(announcement: Announcement, situation: Situation) -> Objection | None:
    """Return why the router must not get the set of this announcement; None: the router may get the set.

    Call this for an announcement that is committed, and that this server has applied.
    """
    announced_ms, last_ms = announcement.published * 1000, situation.state.last_published_ms
    if last_ms > announced_ms:
        return Objection("a newer set was announced after this one")
    if last_ms < announced_ms:
        # The next publisher would not know this set's version, and could choose a version that is not greater.
        return Objection("the farm takes our set for a set of the future: check this machine's clock", is_fault=True)
    if announcement.leaf_set.hashes - LeafSet.of(situation.choice).hashes:
        return Objection("a leaf of the set was taken out after the announcement")
    return None
