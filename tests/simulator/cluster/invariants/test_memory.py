"""Each invariant about what a core tells of itself notices a violation made by hand, and is silent otherwise."""

from gf_i2p.raft.effects import Effects, Send, Snapshot, Write
from gf_i2p.raft.inputs import Stored, Tick
from gf_i2p.raft.log import size_of
from gf_i2p.simulator.cluster.invariants.memory import (
    ContactsMarked,
    DurableKnown,
    MembershipKnown,
    MemoryFreed,
    VotersHeard,
)
from gf_i2p.simulator.facts import ShadowLog
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import MessageType, Request
from tests.raft.lab import application
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

A1 = application("a", 1)


def test_durable_entries_leave_the_memory_at_its_limit() -> None:
    found = facts([A1] * 4)
    found.cache_bytes = 3 * size_of(A1)
    check, one = MemoryFreed(found), found.servers[1]
    one.in_memory, one.stored = 3, 4
    check.takes(one, Stored(1), Effects(), 1.0)
    one.in_memory, one.stored = 1, 0
    check.takes(one, Stored(1), Effects(), 1.0)  # nothing is durable
    one.stored = 1
    check.takes(one, Tick(), Effects(), 1.0)  # memory is freed after a write
    fires(
        check,
        lambda: check.takes(one, Stored(1), Effects(), 1.0),
        "server 1 keeps the durable entries 1 to 1 in memory, and 56 bytes of entries in all; the limit is 42",
    )


def test_no_more_entries_leave_the_memory_than_needed() -> None:
    found = facts([A1] * 6)
    found.cache_bytes = 4 * size_of(A1)
    check, one = MemoryFreed(found), found.servers[1]
    one.stored = 6

    def takes(first: int) -> None:
        one.in_memory = first
        check.takes(one, Stored(1), Effects(), 1.0)

    one.in_memory = 1
    check.takes(one, Tick(), Effects(), 1.0)
    takes(5)  # two entries stay, which is half
    one.in_memory = 1
    check.takes(one, Tick(), Effects(), 1.0)
    fires(check, lambda: takes(6), "server 1 takes the entries 1 to 5 out of its memory, and half of the memory")


def test_what_is_durable_stays_known() -> None:
    found = facts([A1] * 4)
    check, one = DurableKnown(found), found.servers[1]

    def takes(stored: int, write: Write | None = None) -> None:
        one.stored = stored
        check.takes(one, Tick(), Effects(write=write), 1.0)

    takes(4)
    takes(2, Write(None, 3, (A1,), number=1))
    takes(2)
    fires(check, lambda: takes(1), "server 1 knew the entries up to 2 as durable, and now only those up to 1")
    takes(4)
    fires(check, lambda: takes(2, Write(None, 4, (A1,), number=2)), "up to 4 as durable, and now only those up to 2")
    snapshot = Snapshot(1, 1, Configuration(1, 0, ()), b"state")
    takes(4)
    takes(1, Write(None, 0, (), snapshot, install=True))


def test_what_is_known_as_durable_is_on_the_disk() -> None:
    found = facts([A1] * 4)
    check, one = DurableKnown(found), found.servers[1]

    def takes(stored: int, log: list[Entry], write: Write | None = None) -> None:
        one.stored, one.durable = stored, ShadowLog(log)
        check.takes(one, Tick(), Effects(write=write), 1.0)

    text = "server 1 knows the entries up to {} as durable, and its disk has other entries, up to {}"
    takes(3, [A1] * 3)
    fires(check, lambda: takes(4, [A1] * 3), text.format(4, 3))
    fires(check, lambda: takes(4, [A1] * 3 + [application("b", 2)]), text.format(4, 4))
    takes(4, [A1] * 3, Write(None, 4, (A1,), number=1))  # the write is on its way
    one.memory.base = 4
    takes(4, [A1] * 3)  # a snapshot covers the entries


def test_a_change_of_contacts_changes_the_mark() -> None:
    found = facts([A1], [A1], [A1])
    check, one = ContactsMarked(found), found.servers[1]

    def takes(mark: int, *contacts: int) -> None:
        one.contacts_mark, one.contacts = mark, dict.fromkeys(contacts, "tcp://a:1")
        check.takes(one, Tick(), Effects(), 1.0)

    takes(1, 2, 3)
    takes(1, 2, 3)
    fires(check, lambda: takes(1, 2, 3, 4), "changes its contacts from .* unseen")
    fires(check, lambda: takes(2, 2), "server 1 has the contacts")
    fires(check, lambda: takes(3, 2, 3, 4), "server 1 has the contacts")
    leader(found, 1, 1)
    takes(4, 2, 3, 4)
    fires(check, lambda: takes(5, 3, 4), "server 1 has the contacts")
    sends = Effects(sends=[Send(4, Request(MessageType.JOIN_CLUSTER_REQUEST, 1, 4, 1, 0, 0, 0), 1)])
    takes(6, 2, 3, 4)
    check.takes(one, Tick(), sends, 1.0)
    takes(7, 2, 3)
    fires(check, lambda: check.takes(one, Tick(), sends, 1.0), r"leader 1 sends to \{4\}, and has the contacts")
    one.contacts_mark, one.contacts = 8, {2: "tcp://a:1", 3: "tcp://z:1"}
    fires(check, lambda: check.takes(one, Tick(), Effects(), 1.0), "server 1 had the contacts")


def test_a_leader_tells_of_every_other_voter() -> None:
    found = facts([A1], [A1], [A1])
    check, one = VotersHeard(found), leader(found, 1, 1)
    one.heard = {2: 0.5, 3: 1.0}
    check.takes(one, Tick(), Effects(), 1.0)
    for heard in ({}, {2: 0.5}, {1: 0.5, 2: 0.5, 3: 0.5}, {2: 0.5, 3: 1.5}):
        one.heard = heard
        fires(check, lambda: check.takes(one, Tick(), Effects(), 1.0), "server 1 tells that it has heard")
    one.heard, one.leads = {}, False
    check.takes(one, Tick(), Effects(), 1.0)
    one.heard = {2: 0.5}
    fires(check, lambda: check.takes(one, Tick(), Effects(), 1.0), "the other voters are")


def test_membership_is_known_as_long_as_the_log_or_the_snapshot_has_it() -> None:
    found = facts([A1] * 6)
    check, one = MembershipKnown(found), found.servers[1]

    def takes(*, was_voter: bool) -> None:
        one.was_voter = was_voter
        check.takes(one, Tick(), Effects(), 1.0)

    takes(was_voter=True)  # the first Configuration has server 1
    fires(check, lambda: takes(was_voter=False), "server 1 says that it was never a voter")
    one.configurations = [(2, (1, 2)), (4, (2,))]
    one.memory.base, one.memory.snapshot = 3, Snapshot(3, 1, Configuration(2, 0, ()), b"state")
    takes(was_voter=True)
    fires(check, lambda: takes(was_voter=False), "was never a voter; its log has the servers .* after")
    one.memory.snapshot = Snapshot(5, 1, Configuration(4, 0, ()), b"state")
    takes(was_voter=True)
    takes(was_voter=False)  # a restart has forgotten the servers before the log
    one.memory.base = 5
    takes(was_voter=False)
    fires(check, lambda: takes(was_voter=True), "server 1 says that it was a voter")
    one.memory.snapshot = None
    takes(was_voter=False)  # a damaged snapshot has lost them
    takes(was_voter=True)
