"""Invariants about what a core tells of itself: durable entries, entries in memory, voters heard, and contacts.

A mistake here costs memory or time, or makes another part of the node act on a wrong figure.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter

from gf_i2p.raft.effects import Effects
from gf_i2p.raft.inputs import Input, Stored, Tick
from gf_i2p.simulator.cluster.invariants.invariant import Invariant, bytes_of
from gf_i2p.simulator.facts import Facts, ServerFacts, Voters
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry


class MemoryFreed(Invariant):
    """After a write, no durable entry is in memory while the entries in memory exceed their limit (`raft/log.py`).

    Entries that the same step appends count from the next write on. No more entries leave the memory than needed to
    have half of it free: a follower that lags a little would else be served from the disk.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._first: dict[int, int] = {}  # by server: `in_memory` after the last step

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._first.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        first, log = server.in_memory, server.memory
        before, self._first[server.id] = self._first.get(server.id, first), first
        if not isinstance(event, Stored) or effects.write is not None:
            return
        if first > before and bytes_of(log.slice(first - 1, log.last_index)) <= self.facts.cache_bytes // 2:
            raise self.violated(
                f"server {server.id} takes the entries {before} to {first - 1} out of its memory, and half of the "
                f"memory, {self.facts.cache_bytes // 2} bytes, was free without the last of them"
            )
        if first > server.stored:
            return
        size = bytes_of(log.slice(first, log.last_index))
        if size > self.facts.cache_bytes:
            raise self.violated(
                f"server {server.id} keeps the durable entries {first} to {server.stored} in memory, and {size} bytes "
                f"of entries in all; the limit is {self.facts.cache_bytes}"
            )


class DurableKnown(Invariant):
    """A core that knows entries as durable goes on to know them so, until other entries replace them.

    Such entries are on the disk: an answer or a vote may rest on them.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._stored: dict[int, int] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._stored.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        before, self._stored[server.id] = self._stored.get(server.id, 0), server.stored
        write = effects.write
        if write is not None and write.install:
            return
        known = server.stored if write is None or not write.entries else min(server.stored, write.first_index - 1)
        is_durable = known <= server.durable.last_index and server.durable.term(known) == server.memory.term(known)
        if known > server.memory.base and not is_durable:  # what a snapshot covers is committed
            raise self.violated(
                f"server {server.id} knows the entries up to {known} as durable, and its disk has other entries, up to "
                f"{server.durable.last_index}"
            )
        kept = before if write is None or not write.entries else min(before, write.first_index - 1)
        if server.stored < kept:
            raise self.violated(
                f"server {server.id} knew the entries up to {before} as durable, and now only those up to "
                f"{server.stored}"
            )


class MembershipKnown(Invariant):
    """A core knows whether its log or its snapshot has a Configuration with this server, and forgets dropped ones.

    Membership decides whether a stranger's term is believed (`raft/state.py`, `is_newcomer`). A server whose snapshot
    is damaged has lost that knowledge. A server that has restarted no longer knows the Configuration before its log,
    unless the snapshot ends there.
    """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        base, snapshot = server.memory.base, server.memory.snapshot
        if base and snapshot is None:
            return
        before = self._in_force(server, base)
        kept = [voters for index, voters in server.configurations if index > base]
        of_snapshot = before if snapshot is None else self._in_force(server, snapshot.index)
        surely = any(server.id in voters for voters in (of_snapshot, *kept))
        if server.was_voter is surely or (server.was_voter and server.id in before):
            return
        raise self.violated(
            f"server {server.id} says that it {'was' if server.was_voter else 'was never'} a voter; its log has the "
            f"servers {kept}, after {before}"
        )

    @staticmethod
    def _in_force(server: ServerFacts, index: int) -> Voters:
        at = bisect_right(server.configurations, index, key=itemgetter(0))
        return server.configurations[at - 1][1] if at else server.bootstrap


class ContactsMarked(Invariant):
    """A core's mark of its contacts changes whenever the contacts change: the node looks at the mark only.

    The contacts are the other voters. A leader also has contacts that join or leave, and sends to contacts only. A
    contact keeps its endpoint.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[int, tuple[object, Mapping[int, str]]] = {}

    def boots(self, server: ServerFacts, loaded: Loaded, entries: Sequence[Entry]) -> None:
        self._last.pop(server.id, None)

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        mark, contacts = self._last.get(server.id, (None, {}))
        self._last[server.id] = server.contacts_mark, server.contacts
        if mark == server.contacts_mark and contacts != server.contacts:
            raise self.violated(f"server {server.id} changes its contacts from {contacts} to {server.contacts} unseen")
        if any(contacts.get(peer, endpoint) != endpoint for peer, endpoint in server.contacts.items()):
            raise self.violated(f"server {server.id} had the contacts {contacts}, and now has {server.contacts}")
        reached = {send.peer for send in effects.sends} if server.leads else set()
        if not reached <= server.contacts.keys():
            raise self.violated(f"leader {server.id} sends to {reached}, and has the contacts {server.contacts}")
        others = set(server.voters) - {server.id}
        if not others <= server.contacts.keys() or (others != server.contacts.keys() and not server.leads):
            raise self.violated(f"server {server.id} has the contacts {server.contacts}, and the voters {others}")


class VotersHeard(Invariant):
    """A leader tells when it heard each other voter: of no other server, and of no voter later than now."""

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        if not isinstance(event, Tick) or effects.write is not None:
            return
        others = set(server.voters) - {server.id} if server.leads else set()
        if server.heard.keys() != others or any(at > clock for at in server.heard.values()):
            raise self.violated(
                f"server {server.id} tells that it has heard {dict(server.heard)} at {clock:.3f}; the other voters "
                f"are {sorted(others)}"
            )
