"""A leader's messages to servers that join, leave or lag, one by one: JRaft may be at the far end."""

from dataclasses import replace

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.membership_change import JOIN_PATIENCE, MAX_ROUNDS
from gf_i2p.raft.settings import I2P, LAN, Flow, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration, LogPack, SnapshotSyncRequest, record_bytes
from gf_i2p.wire.messages import RESPONSE_TYPE, MessageType, Request, Response
from tests.raft.lab import Lab, Message, application

NEW = 9


def led(servers: int = 1, entries: int = 20, **flow: int) -> Lab:
    """A farm led by server 1, with entries; server 9 is invited, and the messages to server 9 are in the network."""
    lab = Lab(servers, flow=Flow(**flow))
    lab.elect(1)
    if entries:
        lab.propose(1, "before", *(f"entry {number}" for number in range(entries)))
        lab.settle()
    lab.newcomer(NEW)
    lab.change(1, "add", add=NEW)
    assert lab.replies["add"].accepted
    return lab


def sent(lab: Lab, kind: MessageType) -> Request:
    """Take the one message for the newcomer out of the network."""
    (message,) = [m for m in lab.network if m.receiver == NEW]
    lab.network.remove(message)
    assert isinstance(message.payload, Request)
    assert message.payload.type is kind
    lab.last = message  # type: ignore[attr-defined]
    return message.payload


def reply(lab: Lab, next_index: int, *, accepted: bool = True) -> None:
    """Answer the message that was taken out last, as server 9."""
    message: Message = lab.last  # type: ignore[attr-defined]
    assert isinstance(message.payload, Request)
    response = Response(RESPONSE_TYPE[message.payload.type], NEW, 1, lab.core(1).term, next_index, accepted)
    lab.step(1, inputs.Answered(NEW, message.tag, response))


def pack(request: Request) -> LogPack:
    (entry,) = request.entries
    assert entry.value_type is ValueType.LOG_PACK
    return LogPack.decode(entry.value)


def members(lab: Lab) -> list[int]:
    return [server.id for server in lab.core(1).configuration.servers]


def test_the_invitation_has_the_present_servers_and_the_fields_that_jraft_sends() -> None:
    lab = led(servers=1)
    invitation = sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    assert (invitation.last_log_index, invitation.last_log_term, invitation.commit_index) == (21, 0, 21)
    (entry,) = invitation.entries
    assert entry.value == lab.core(1).configuration.encode()


def test_packs_go_on_where_the_newcomer_says_with_the_offsets_of_its_own_log() -> None:
    """A JRaft server takes over the offsets, and may take less than the leader sent (docs/design/jraft.md)."""
    lab = led(append_entries=6)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    wanted = list(lab.core(1).log.slice(1, 21, max_entries=100, max_bytes=1 << 20))
    first = 1
    for taken in (6, 2, 1, 6):
        request = sent(lab, MessageType.SYNC_LOG_REQUEST)
        assert (request.last_log_index, request.last_log_term) == (first - 1, 0)
        packed = pack(request)
        assert list(packed.entries) == wanted[first - 1 : first + 5]
        assert packed.base == record_bytes(wanted[: first - 1])
        first += taken
        reply(lab, first)
    assert pack(sent(lab, MessageType.SYNC_LOG_REQUEST)).base == record_bytes(wanted[: first - 1])
    assert members(lab) == [1]


def test_a_lost_pack_is_sent_again_as_it_was() -> None:
    lab = led(append_entries=6)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    reply(lab, 7)
    before = pack(sent(lab, MessageType.SYNC_LOG_REQUEST))
    lab.step(1, inputs.Failed(NEW, lab.last.tag))  # type: ignore[attr-defined]
    assert not [m for m in lab.network if m.receiver == NEW], "not at once again"
    lab.now += LAN.heartbeat
    lab.step(1, inputs.Tick())
    assert pack(sent(lab, MessageType.SYNC_LOG_REQUEST)) == before
    lab.step(1, inputs.Reachable(NEW))
    assert pack(sent(lab, MessageType.SYNC_LOG_REQUEST)) == before


def test_only_what_is_committed_is_packed() -> None:
    lab = led(servers=3, append_entries=100)
    lab.isolate(1)
    lab.propose(1, "pending", *"uvwxyz")
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    values = [entry.value for entry in pack(sent(lab, MessageType.SYNC_LOG_REQUEST)).entries]
    assert values[-1] == b"entry 19"


@pytest.mark.parametrize("next_index", [0, 8, 1 << 40])
def test_a_newcomer_that_wants_what_nobody_offered_is_given_up(next_index: int) -> None:
    lab = led(append_entries=6)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    reply(lab, next_index)
    assert "this leader has not offered" in lab.notices[0]
    assert lab.core(1).change_obstacle is None


def test_a_newcomer_that_refuses_is_given_up() -> None:
    lab = led()
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1, accepted=False)
    assert "the server refuses: its log" in lab.notices[0]
    assert members(lab) == [1]


def test_a_newcomer_on_a_slow_line_is_given_up_after_some_rounds() -> None:
    lab = led()
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    for number in range(MAX_ROUNDS):
        assert not lab.notices
        last = pack_end(sent(lab, MessageType.SYNC_LOG_REQUEST))
        lab.propose(1, f"meanwhile {number}", *"abcdefgh")
        lab.now += 2 * LAN.election_max
        reply(lab, last + 1)
    assert "too slow" in lab.notices[0]


def pack_end(request: Request) -> int:
    return request.last_log_index + len(pack(request).entries)


def test_a_newcomer_is_packed_the_first_entry_at_least() -> None:
    """A JRaft server has elected itself before the invitation, and holds a first entry (docs/design/jraft.md).

    If the entry's term happens to be the leader's, AppendEntries would keep the entry; only a pack replaces it.
    """
    lab = led(entries=0)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 2)
    request = sent(lab, MessageType.SYNC_LOG_REQUEST)
    assert (request.last_log_index, pack_end(request)) == (0, 1)
    reply(lab, 2)
    assert members(lab) == [1, NEW]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_newcomer_that_takes_nothing_is_invited_again_and_given_up_in_the_end(accepted: bool) -> None:
    """A restarted newcomer has forgotten the invitation; such a newcomer must not keep the leader busy."""
    lab = led(append_entries=6)
    for number in range(MAX_ROUNDS):
        sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
        reply(lab, 1)
        first = sent(lab, MessageType.SYNC_LOG_REQUEST)
        assert (first.last_log_index, pack(first).base) == (0, 0)
        reply(lab, 7)
        sent(lab, MessageType.SYNC_LOG_REQUEST)
        assert not lab.notices, number
        reply(lab, 7, accepted=accepted)
        assert not [m for m in lab.network if m.receiver == NEW], "not at once again"
        lab.now += LAN.heartbeat
        lab.step(1, inputs.Tick())
    assert "takes no entries" in lab.notices[0]
    assert lab.core(1).change_obstacle is None
    assert members(lab) == [1]


def test_a_newcomer_that_was_a_member_before_may_take_itself_for_one() -> None:
    """A JRaft server takes no packs after one with a Configuration that names the server, even an old one."""
    lab = led(servers=2, append_entries=6)
    lab.settle()
    assert members(lab) == [1, 2, NEW]
    lab.change(1, "remove", remove=NEW)
    lab.settle()
    lab.propose(1, "after", *(f"entry {number}" for number in range(20)))
    lab.settle()
    lab.change(1, "again", add=NEW)
    assert lab.replies["again"].accepted
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 2)
    for _ in range(4):
        end = pack_end(sent(lab, MessageType.SYNC_LOG_REQUEST))
        reply(lab, end + 1)
    assert end == 24
    sent(lab, MessageType.SYNC_LOG_REQUEST)
    reply(lab, 25, accepted=False)
    assert members(lab) == [1, 2, NEW]
    append = sent(lab, MessageType.APPEND_ENTRIES_REQUEST)
    assert append.last_log_index == 24


def test_a_silent_newcomer_is_given_up() -> None:
    lab = led()
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    lab.now += JOIN_PATIENCE * LAN.election_max
    assert lab.core(1).deadline <= lab.now
    lab.step(1, inputs.Tick())
    assert "nothing was heard from the server" in lab.notices[0]


@pytest.mark.parametrize("timing", [LAN, I2P])
def test_a_leader_waits_for_a_silent_newcomer_without_a_tick(timing: Timing) -> None:
    lab = Lab(1, timing=timing)
    lab.elect(1)
    lab.settle()
    lab.newcomer(NEW)
    lab.change(1, "add", add=NEW)
    assert lab.core(1).deadline > lab.now


def test_a_leader_that_loses_its_leadership_forgets_the_newcomer() -> None:
    lab = led(servers=3)
    lab.step(1, inputs.Incoming("x", Request(MessageType.APPEND_ENTRIES_REQUEST, 2, 1, 2, 0, 0, 0)))
    reply_term = lab.core(1).term
    assert lab.core(1).role == "follower"
    assert NEW not in lab.core(1).contacts
    assert reply_term == 2


def test_the_newcomer_is_a_contact_and_so_is_who_leaves() -> None:
    lab = led(servers=3)
    assert set(lab.core(1).contacts) == {2, 3, NEW}
    lab.settle()
    assert set(lab.core(2).contacts) == {1, 3, NEW}
    lab.change(1, "remove", remove=3)
    lab.settle()
    assert set(lab.core(1).contacts) == {2, 3, NEW}, "it does not know yet that it is committed"
    lab.advance(LAN.heartbeat)
    assert set(lab.core(1).contacts) == {2, NEW}
    assert not lab.core(3).is_voter


@pytest.mark.parametrize(("add", "accepted"), [(1, True), (2, True)])
def test_who_belongs_to_the_farm_already_is_told_so(add: int, accepted: bool) -> None:
    lab = Lab(2)
    lab.elect(1)
    last = lab.core(1).log.last_index
    lab.change(1, "again", add=add)
    assert lab.replies["again"].accepted is accepted
    assert lab.core(1).log.last_index == last


@pytest.mark.parametrize(("servers", "remove"), [(1, 1), (2, 5)])
def test_the_last_server_and_one_that_is_none_cannot_leave(servers: int, remove: int) -> None:
    lab = Lab(servers)
    lab.elect(1)
    lab.change(1, "remove", remove=remove)
    assert not lab.replies["remove"].accepted


def test_a_newcomer_that_was_restarted_begins_anew_with_the_packs_that_come() -> None:
    """A JRaft leader does not invite a second time: the leader sends packs for ever, from the index in the answers."""
    lab = Lab(1)
    lab.elect(1)
    lab.newcomer(NEW)
    entries = (*lab.core(1).log.slice(1, 1, max_entries=1, max_bytes=1 << 20), application("a", 1))

    def sync(previous: int, *packed: Entry) -> Response:
        entry = Entry(1, ValueType.LOG_PACK, LogPack(packed).encode())
        request = Request(MessageType.SYNC_LOG_REQUEST, 1, NEW, 1, 0, previous, 2, (entry,))
        lab.step(NEW, inputs.Incoming("pack", request))
        return lab.replies["pack"]

    assert sync(6, entries[1]) == Response(MessageType.SYNC_LOG_RESPONSE, NEW, 1, 1, 1, False)
    assert sync(0, *entries) == Response(MessageType.SYNC_LOG_RESPONSE, NEW, 1, 1, 3, True)
    assert lab.core(NEW).log.last_index == 2


def test_a_newcomer_that_was_restarted_after_its_snapshot_goes_on_behind_it() -> None:
    lab = Lab(1, flow=Flow(append_entries=2))
    lab.elect(1)
    lab.propose(1, "before", *"abcdefgh")
    lab.settle()
    lab.snapshot(1)
    lab.propose(1, "behind", *"ijklmnop")
    lab.settle()
    lab.newcomer(NEW)
    lab.change(1, "add", add=NEW)
    while lab.core(NEW).log.last_index < 11:
        lab.deliver(lab.network.popleft())
    lab.crash(NEW)
    lab.restart(NEW)
    lab.network.clear()
    lab.step(1, inputs.Reachable(NEW))
    lab.advance(2 * LAN.heartbeat)
    assert not lab.notices
    assert members(lab) == [1, NEW]
    assert lab.core(NEW).log.last_index == lab.core(1).log.last_index


# Places where the logs agree ----------------------------------------------------------------------------------------


def append(lab: Lab, previous: int, term: int = 1) -> Response:
    """Send server 1 a heartbeat of server 2 that follows this entry."""
    lab.step(1, inputs.Incoming("append", Request(MessageType.APPEND_ENTRIES_REQUEST, 2, 1, 1, term, previous, 0)))
    return lab.replies["append"]


@pytest.mark.parametrize("previous", [1, 2, 40])
def test_a_refusal_never_asks_for_the_first_entry(previous: int) -> None:
    """A JRaft leader that has dropped the log's beginning fails for good when sent back there."""
    answer = append(Lab(2), previous)
    assert (answer.accepted, answer.next_index) == (False, 2)


def test_a_leader_of_ours_comes_to_the_first_entry_all_the_same() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "before", *"abcdefgh")
    lab.settle()
    lab.crash(3)
    lab.servers[3].disk.entries.clear()  # as if the log had never been there
    lab.restart(3)
    lab.now += LAN.election_max
    lab.elect(2)
    lab.settle()
    assert lab.core(3).log.last_index == lab.core(2).log.last_index == 10


def test_after_lost_answers_a_leader_asks_from_where_it_was() -> None:
    """The follower may have dropped the entries of the lost answers, and JRaft does not answer a request there."""
    lab = Lab(3)
    lab.elect(1)
    lab.settle()
    lab.cuts.add((3, 1))
    for text in "abcdefgh":
        lab.propose(1, text, text)
    lab.settle()
    lab.heal()
    lab.network.clear()
    lab.step(1, inputs.Reachable(3))
    (probe,) = (message.payload for message in lab.network if message.receiver == 3)
    assert isinstance(probe, Request)
    assert (probe.last_log_index, probe.entries) == (9, ())
    lab.settle()
    assert lab.core(1).match[3] == 9


# Snapshots ----------------------------------------------------------------------------------------------------------


def behind(**flow: int) -> Lab:
    """Server 3 lacks entries that leader 1 has dropped."""
    lab = Lab(3, flow=Flow(**flow))
    lab.elect(1)
    lab.isolate(3)
    lab.propose(1, "while 3 is away", *"abcdefgh")
    lab.settle()
    lab.snapshot(1)
    lab.heal()
    lab.network.clear()
    return lab


def block(message: Message) -> SnapshotSyncRequest:
    assert isinstance(message.payload, Request)
    return SnapshotSyncRequest.decode(message.payload.entries[0].value)


def test_a_follower_that_has_begun_again_says_where_the_snapshot_goes_on() -> None:
    lab = behind(snapshot_bytes=3)
    lab.step(1, inputs.Reachable(3))
    lab.deliver(lab.network.popleft())  # the question about the follower's log
    lab.deliver(lab.network.popleft())
    for _ in range(2):
        lab.deliver(lab.network.popleft())  # a block
        lab.deliver(lab.network.popleft())  # the answer
    lab.crash(3)
    lab.restart(3)
    lab.network.clear()
    lab.step(1, inputs.Reachable(3))
    assert block(lab.network[0]).offset == 6
    lab.settle()
    assert lab.core(3).commit == 9
    assert lab.restored[0][1].data == b"state at 9"


def test_a_newcomer_that_refuses_the_snapshot_is_given_up() -> None:
    """JRaft refuses every block with next index 0."""
    lab = Lab(1, flow=Flow(snapshot_bytes=3))
    lab.elect(1)
    lab.propose(1, "before", *"abcdefgh")
    lab.settle()
    lab.snapshot(1)
    lab.newcomer(NEW)
    lab.change(1, "add", add=NEW)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 2)
    sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    reply(lab, 3)
    sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    reply(lab, 0, accepted=False)
    sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    reply(lab, 0, accepted=False)
    assert "the server refuses the leader's snapshot" in lab.notices[0]


def test_a_newcomer_that_gets_a_snapshot_after_packs_still_gets_the_entries_behind_the_snapshot() -> None:
    """A snapshot brings the newcomer to an old index, however fast the snapshot arrives (thesis 4.2.1)."""
    lab = led(append_entries=6)
    sent(lab, MessageType.JOIN_CLUSTER_REQUEST)
    reply(lab, 1)
    end = pack_end(sent(lab, MessageType.SYNC_LOG_REQUEST))
    lab.propose(1, "first", *(f"entry {number}" for number in range(20)))
    lab.snapshot(1)  # its end lies behind the target of the pack
    lab.propose(1, "second", *(f"entry {number}" for number in range(20)))
    reply(lab, end + 1)
    snapshot = sent(lab, MessageType.INSTALL_SNAPSHOT_REQUEST)
    (entry,) = snapshot.entries
    reply(lab, len(SnapshotSyncRequest.decode(entry.value).data))
    assert members(lab) == [1]
    assert sent(lab, MessageType.SYNC_LOG_REQUEST).last_log_index == snapshot.last_log_index


def test_heartbeats_go_on_beside_a_snapshot_that_is_on_its_way() -> None:
    """The core must not ask to be woken at once, again and again, while the core may send nothing."""
    lab = behind()
    lab.step(1, inputs.Reachable(3))
    for _ in range(3):
        lab.now = max(lab.now, lab.core(1).deadline)
        lab.step(1, inputs.Tick())
        assert lab.core(1).deadline > lab.now


def test_a_server_whose_snapshot_is_damaged_gets_another_and_keeps_its_log_and_vote() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.propose(1, "first", *"abcd")
    lab.advance(LAN.heartbeat)
    lab.snapshot(3, keep=1)
    disk = lab.servers[3].disk
    lab.crash(3)
    disk.damage_snapshot()
    lab.restart(3)
    lab.propose(1, "second", "e")
    lab.network.clear()
    lab.step(1, inputs.Reachable(3))
    lab.settle()
    assert lab.wanted == [1], "the leader has none yet"
    assert lab.core(3).log.last_index == 5, "its log is as it was"
    lab.timeout(3)
    assert lab.core(3).role == "follower", "it cannot lead without a state"
    lab.snapshot(1)
    lab.advance(3 * LAN.heartbeat)
    assert [(server, each.index) for server, each in lab.restored] == [(3, lab.core(1).snapshot.index)]  # type: ignore[union-attr]
    assert lab.core(3).log.last_index == lab.core(1).log.last_index
    assert not lab.violations


def test_a_configuration_in_the_log_counts_up_to_the_next_one_also_before_the_snapshots() -> None:
    """A server with a damaged snapshot may begin from another snapshot that ends before the damaged one."""
    first, second, third = (Configuration(index, 0, ()) for index in (3, 5, 8))
    found = Configurations(second, [(3, first), (5, second), (8, third)])
    assert [found.at(index).log_index for index in (2, 3, 4, 5, 7, 8)] == [3, 3, 3, 5, 5, 8]
    assert found.current == third
    found.begin(4, Configuration(3, 0, ()))
    assert [found.at(index).log_index for index in (4, 5, 8)] == [3, 5, 8]


def test_a_snapshot_that_is_not_newer_changes_nothing() -> None:
    lab = behind()
    lab.step(1, inputs.Reachable(3))
    first = lab.network[0]
    lab.settle()
    lab.propose(1, "more", "i")
    lab.settle()
    before = lab.core(3).log.last_index
    lab.deliver(replace(first, tag=10_000))
    assert lab.core(3).log.last_index == before
    assert len(lab.restored) == 1


def test_snapshots_only_rise() -> None:
    lab = Lab(1)
    lab.elect(1)
    lab.propose(1, "x", *"abcdef")
    lab.snapshot(1, 5)
    lab.snapshot(1, 3)
    snapshot = lab.core(1).snapshot
    assert snapshot is not None
    assert snapshot.index == 5


def test_who_alone_has_several_configurations_without_itself_still_asks_for_votes() -> None:
    """Found by the simulator: the no-op of the second term hid that no Configuration is known to be committed."""
    lab = Lab(2)
    lab.elect(1)
    lab.isolate(1)
    lab.change(1, "out", remove=1)
    for _ in range(2):
        lab.crash(1)
        lab.network.clear()
        lab.restart(1)
        lab.advance(LAN.election_max)
        assert lab.core(1).configuration.servers == lab.core(1).configuration.servers[-1:]
        lab.heal()
        lab.timeout(2)
        lab.settle()
        assert not lab.core(2).is_leader, "its log lacks what server 1 has"
        lab.timeout(1)
        assert lab.core(1).role == "candidate"
        lab.deliver(lab.network.popleft())
        lab.deliver(lab.network.popleft())
        assert lab.core(1).is_leader, "server 2 has voted for it"
        lab.isolate(1)
    lab.heal()
    lab.settle()
    assert not lab.core(1).is_leader
    assert not lab.core(1).is_voter
    lab.elect(2)


def test_a_leader_that_leaves_tells_nothing_to_whom_it_could_only_send_a_snapshot() -> None:
    """Found by the simulator: the farewell described a dropped part of the log, and the node ended."""
    lab = Lab(4, flow=Flow(append_entries=1, in_flight=2))
    lab.elect(1)
    lab.propose(1, "a", "x")
    lab.settle()
    held: list[Message] = []

    def settle_without_4() -> None:
        while lab.network:
            message = lab.network.popleft()
            (held.append if 4 in (message.sender, message.receiver) else lab.deliver)(message)

    lab.propose(1, "b", *"0123456789")
    settle_without_4()
    lab.change(1, "out", remove=1)
    lab.snapshot(1)
    assert lab.core(1).log.base > lab.core(1).match[4] + 2
    settle_without_4()
    assert not lab.core(1).is_leader
    lab.network.extend(held)
    lab.settle()
    lab.elect(2)
    lab.settle()
    assert lab.core(4).commit == lab.core(2).commit


def test_with_another_snapshot_comes_the_configuration_that_was_lost_with_the_damaged_one() -> None:
    """Found by the simulator: a server with a longer log than the snapshot fell back to the first Configuration."""
    lab = Lab(4)
    lab.elect(1)
    lab.change(1, "out", remove=4)
    lab.settle()
    lab.propose(1, "more", *"abcd")
    lab.advance(LAN.heartbeat)
    last = lab.core(3).log.last_index
    lab.snapshot(3, index=last - 2)
    lab.snapshot(1, index=last - 1)
    disk = lab.servers[3].disk
    lab.crash(3)
    disk.damage_snapshot(also_configuration=True)
    lab.restart(3)
    lab.step(1, inputs.Reachable(3))
    lab.advance(3 * LAN.heartbeat)
    assert lab.core(3).snapshot is not None
    assert lab.core(3).log.base == last - 1 < lab.core(3).log.last_index
    assert [server.id for server in lab.core(3).configuration.servers] == [1, 2, 3]
