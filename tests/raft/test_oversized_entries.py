"""A leader whose entries exceed this server's limits lives: this server hears it, and stands for no election."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import LAN
from gf_i2p.wire.messages import MessageType, OversizedRequest, Request, Response
from tests.raft.lab import Lab, application

FAULT = "a log value of 1200000 bytes; the limit is 1048576"


def oversized(
    term: int = 1, *, source: int = 1, previous: int = 1, kind: MessageType | None = None
) -> OversizedRequest:
    return OversizedRequest(kind or MessageType.APPEND_ENTRIES_REQUEST, source, 2, term, 1, previous, 9, (), FAULT)


def followed() -> Lab:
    """Server 1 leads, and servers 2 and 3 have entry 1."""
    lab = Lab(3)
    lab.elect(1)
    return lab


def send(lab: Lab, request: Request) -> Response | None:
    lab.replies.clear()
    lab.step(2, inputs.Incoming("leader", request))
    return lab.replies.get("leader")


def test_it_is_a_sign_of_life_and_the_answer_tells_the_truth_about_the_log() -> None:
    lab = followed()
    lab.now += LAN.election_min * 0.9
    answer = send(lab, oversized())
    assert answer == Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 2, accepted=True)
    assert lab.wait(2) >= LAN.election_min
    assert lab.core(2).log.last_index == 1, "nothing of it is stored"
    assert lab.core(2).commit == 1, "no more than this server has"
    assert lab.core(2).cannot_follow == f"the leader, server 1, sends entries over the limit ({FAULT})"
    refusal = send(lab, oversized(previous=7))
    assert refusal is not None
    assert (refusal.accepted, refusal.next_index) == (False, 2)


def test_it_stands_for_no_election_until_a_member_with_an_older_log_asks() -> None:
    lab = followed()
    send(lab, oversized())
    lab.crash(1)
    for _ in range(5):
        lab.timeout(2)
        lab.settle()
        assert (lab.core(2).role, lab.core(2).term) == ("follower", 1)
    older = Request(MessageType.REQUEST_VOTE_REQUEST, 3, 2, 2, 0, 0, 0)
    vote = send(lab, older)
    assert vote is not None
    assert not vote.accepted
    lab.timeout(2)
    lab.settle()
    assert lab.core(2).is_leader
    assert lab.core(2).cannot_follow is None


def test_it_votes_all_the_same() -> None:
    lab = followed()
    send(lab, oversized())
    lab.now += 10
    vote = send(lab, Request(MessageType.REQUEST_VOTE_REQUEST, 3, 2, 2, 1, 5, 0))
    assert vote is not None
    assert vote.accepted


def test_it_recovers_with_entries_that_fit() -> None:
    lab = followed()
    send(lab, oversized())
    send(lab, Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 9, 9, 1))
    assert lab.core(2).cannot_follow is not None, "a refusal proves nothing"
    answer = send(lab, Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 1, 1, 1, (application("fits", 1),)))
    assert answer is not None
    assert answer.accepted
    assert lab.core(2).cannot_follow is None


@pytest.mark.parametrize(
    ("kind", "next_index"), [(MessageType.SYNC_LOG_REQUEST, 2), (MessageType.INSTALL_SNAPSHOT_REQUEST, 0)]
)
def test_packs_and_blocks_over_the_limit_are_refused(kind: MessageType, next_index: int) -> None:
    lab = followed()
    answer = send(lab, oversized(kind=kind))
    assert answer is not None
    assert (answer.accepted, answer.next_index) == (False, next_index)
    assert lab.core(2).leader == 1


def test_an_old_leader_and_a_stranger_are_no_sign_of_life() -> None:
    lab = followed()
    lab.now += 0.3
    before = lab.wait(2)
    old = send(lab, oversized(term=0))
    assert old is not None
    assert not old.accepted
    assert send(lab, oversized(source=9)) is None
    assert lab.dropped == ["leader"]
    assert "which is no member" in lab.violations[-1]
    assert lab.wait(2) == before
    assert lab.core(2).cannot_follow is None
