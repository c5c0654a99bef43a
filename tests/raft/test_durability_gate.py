"""Messages that may leave a server, and when."""

from gf_i2p.raft.durability_gate import Promises
from gf_i2p.raft.effects import Effects, HardState, Reply, Send, Write
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

SEND = Send(2, Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 0, 0, 0), 1)
REPLY = Reply("client", Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, 1, 1, 2, accepted=True))
WRITE = Write(HardState(1, NOBODY), 0, (), number=1)


def vote(tag: int) -> Send:
    return Send(2, Request(MessageType.REQUEST_VOTE_REQUEST, 1, 2, 1, 0, 0, 0), tag)


def promise(number: int) -> Reply:
    return Reply(number, Response(MessageType.REQUEST_VOTE_RESPONSE, 1, 2, 1, 0, accepted=True))


def test_what_promises_nothing_leaves_at_once_and_what_does_waits_for_the_write() -> None:
    promises = Promises()
    effects = Effects(WRITE, [SEND], [vote(7)], [REPLY], [promise(8)])
    assert promises.take(effects) == [SEND, REPLY]
    assert promises.held == 2
    assert promises.stored(1) == [vote(7), promise(8)]
    assert promises.held == 0


def test_a_promise_waits_for_all_writes_so_far_and_for_none_after_it() -> None:
    promises = Promises()
    promises.take(Effects(WRITE, gated_replies=[promise(1)]))
    assert promises.take(Effects(gated_replies=[promise(2)])) == [], "the write before it is not durable"
    promises.take(Effects(WRITE._replace(number=2), gated_replies=[promise(3)]))
    assert promises.stored(1) == [promise(1), promise(2)]
    assert promises.stored(2) == [promise(3)]


def test_where_all_is_durable_a_promise_leaves_at_once_and_in_order() -> None:
    promises = Promises()
    assert promises.take(Effects(None, [SEND], [vote(7)], [REPLY], [promise(8)])) == [SEND, REPLY, vote(7), promise(8)]
    promises.take(Effects(WRITE))
    promises.stored(1)
    assert promises.take(Effects(gated_replies=[promise(9)])) == [promise(9)]
