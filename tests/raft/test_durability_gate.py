"""Messages that may leave a server, and when."""

from gf_i2p.raft.durability_gate import DurabilityGate
from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Write
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

SEND = Send(2, Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 0, 0, 0), 1)
REPLY = SendReply("client", Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, 1, 1, 2, accepted=True))
WRITE = Write(HardState(1, NOBODY), 0, (), number=1)


def vote(tag: int) -> Send:
    return Send(2, Request(MessageType.REQUEST_VOTE_REQUEST, 1, 2, 1, 0, 0, 0), tag)


def promise(number: int) -> SendReply:
    return SendReply(number, Response(MessageType.REQUEST_VOTE_RESPONSE, 1, 2, 1, 0, accepted=True))


def test_what_promises_nothing_leaves_at_once_and_what_does_waits_for_the_write() -> None:
    gate = DurabilityGate()
    effects = Effects(WRITE, [SEND], [vote(7)], [REPLY], [promise(8)])
    assert gate.take(effects) == [SEND, REPLY]
    assert gate.held == 2
    assert gate.stored(1) == [vote(7), promise(8)]
    assert gate.held == 0


def test_a_promise_waits_for_all_writes_so_far_and_for_none_after_it() -> None:
    gate = DurabilityGate()
    gate.take(Effects(WRITE, gated_replies=[promise(1)]))
    assert gate.take(Effects(gated_replies=[promise(2)])) == [], "the write before it is not durable"
    gate.take(Effects(WRITE._replace(number=2), gated_replies=[promise(3)]))
    assert gate.stored(1) == [promise(1), promise(2)]
    assert gate.stored(2) == [promise(3)]


def test_where_all_is_durable_a_promise_leaves_at_once_and_in_order() -> None:
    gate = DurabilityGate()
    assert gate.take(Effects(None, [SEND], [vote(7)], [REPLY], [promise(8)])) == [SEND, REPLY, vote(7), promise(8)]
    gate.take(Effects(WRITE))
    gate.stored(1)
    assert gate.take(Effects(gated_replies=[promise(9)])) == [promise(9)]
