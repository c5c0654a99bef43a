"""Invariants about what a core tells of itself: durable entries, entries in memory, voters heard, and contacts.

A mistake here costs memory or time, or makes another part of the node act on a wrong figure.
"""

from collections.abc import Mapping, Sequence

from gf_i2p.raft.effects import Effects
from gf_i2p.raft.inputs import Input, Stored, Tick
from gf_i2p.simulator.cluster.invariants.invariant import Invariant, bytes_of
from gf_i2p.simulator.facts import Facts, ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.entries import Entry


class MemoryFreed(Invariant):
    """After a write, no durable entry is in memory while the entries in memory exceed their limit (`raft/log.py`).

    Entries that the same step appends count from the next write on.
    """

    def takes(self, server: ServerFacts, event: Input, effects: Effects, clock: float) -> None:
        first, log = server.in_memory, server.memory
        if not isinstance(event, Stored) or first > server.stored or effects.write is not None:
            return
        size = bytes_of(log.slice(first, log.last_index))
        if size > self.facts.cache_bytes:
            raise self.violated(
                f"server {server.id} keeps the durable entries {first} to {server.stored} in memory, and {size} bytes "
                f"of entries in all; the limit is {self.facts.cache_bytes}"
            )


class DurableKnown(Invariant):
    """A core that knows entries as durable goes on to know them so, until other entries replace them."""

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
        kept = before if write is None or not write.entries else min(before, write.first_index - 1)
        if server.stored < kept:
            raise self.violated(
                f"server {server.id} knew the entries up to {before} as durable, and now only those up to "
                f"{server.stored}"
            )


class ContactsMarked(Invariant):
    """A core's mark of its contacts changes whenever the contacts change: the node looks at the mark only.

    The contacts are the other voters. A leader also has contacts that join or leave, and sends to contacts only.
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
