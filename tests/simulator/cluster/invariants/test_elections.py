"""The invariant about the question before an election notices a violation made by hand, and is silent otherwise."""

import pytest

from gf_i2p.raft.effects import Effects, HardState, Send, SendReply
from gf_i2p.raft.election_timeout import LAST_RESORT
from gf_i2p.raft.inputs import Answered, Failed, Incoming, Input, Reachable, Tick
from gf_i2p.simulator.cluster.invariants.elections import ElectionsHeld, _Word
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.simulator.cluster.invariants.made_facts import facts, fires

APPEND, QUESTION = MessageType.APPEND_ENTRIES_REQUEST, MessageType.CLIENT_REQUEST
LOADED = Loaded(HardState(1, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None)
NOTHING = Effects()
DUE = "an election is due, a majority knows no leader, and server 1 does not stand"


def asks(*peers: int) -> Effects:
    """Questions to these servers; the tag of each is the server's id."""
    return Effects(sends=[Send(peer, Request(QUESTION, 1, peer, 0, 0, 0, 0), peer) for peer in peers])


def answers(peer: int, leader: int = NOBODY, *, leads: bool = False) -> Answered:
    """Server `peer` hears this leader, or leads."""
    hears = 7 if leads or leader != NOBODY else 0
    return Answered(peer, peer, Response(MessageType.APPEND_ENTRIES_RESPONSE, peer, leader, 1, hears, accepted=leads))


class Waiting:
    """Server 1 of five, whose time-out ends at 1.0 s and then every second."""

    def __init__(self, servers: int = 5) -> None:
        self.facts = facts(*([] for _ in range(servers)))
        self.check, self.server = ElectionsHeld(self.facts), self.facts.servers[1]
        self.server.term, self.server.stands_at = 1, 1.0
        self.check.boots(self.server, LOADED, [])
        self.take(Tick(), 0.0)

    def take(self, event: Input, clock: float, effects: Effects = NOTHING) -> None:
        if isinstance(event, Tick) and clock >= self.server.stands_at:
            self.server.stands_at = clock + 1.0
        self.check.takes(self.server, event, effects, clock)

    def ends(self, clock: float, *asked: int) -> None:
        """Let the time-out end, and ask these servers."""
        self.take(Tick(), clock, asks(*asked))

    def stand(self, event: Input, clock: float) -> None:
        self.check.stands(self.server)
        self.take(event, clock)


def asked() -> Waiting:
    """The time-out has ended, and all are asked."""
    waiting = Waiting()
    waiting.ends(1.0, 2, 3, 4, 5)
    return waiting


def test_all_voters_are_asked_when_the_time_out_ends() -> None:
    made = Waiting()
    fires(made.check, lambda: made.ends(1.0, 2, 3, 4), r"server 1 has ended, and the server does not ask \[5\]")
    made = asked()
    made.ends(2.0)  # the questions are on the way
    made.take(Failed(3, 3), 2.5)
    made.take(Reachable(4), 2.5)
    made.take(answers(2), 2.9)
    fires(made.check, lambda: made.ends(3.0, 2), r"does not ask \[3, 4\]")
    made = asked()
    made.take(answers(2), 1.1)
    made.server.stands_at = 1.2
    made.ends(1.2)  # server 2 has agreed lately


def test_a_majority_without_a_leader_brings_an_election_at_once() -> None:
    made = asked()
    made.take(answers(2), 1.1)
    fires(made.check, lambda: made.take(answers(3), 1.2), DUE)
    made = asked()
    made.take(answers(2), 1.1)
    made.stand(answers(3), 1.2)
    made.take(answers(4), 1.3)  # the candidate has its election
    made = Waiting()
    made.take(Tick(), 0.5, asks(2, 3, 4, 5))
    made.take(answers(2), 0.6)
    made.take(answers(3), 0.7)  # the time-out has not ended
    fires(made.check, lambda: made.ends(1.0, 2, 3), DUE)


def test_an_answer_that_is_not_of_the_majority_brings_no_election() -> None:
    made = Waiting()
    text = "server 1 stands at an answer, and no election is due"
    made.server.leader = 2
    made.take(Incoming("token", Request(APPEND, 2, 1, 1, 0, 0, 0)), 0.4)
    made.take(Tick(), 0.5, asks(2, 3, 4, 5))
    fires(made.check, lambda: made.stand(answers(2), 0.6), text)
    made = asked()
    for peer in (2, 3):
        made.take(answers(peer, 5), 1.1)
    fires(made.check, lambda: made.stand(answers(4), 1.2), text)  # servers 2, 3 and 5 do not agree


def test_an_answer_that_is_not_believed_decides_nothing() -> None:
    made = asked()
    made.check._asking[1].answers.update(dict.fromkeys((2, 3), _Word(1.0, nobody=True, leader=None)))
    made.take(answers(4), 1.2, Effects(violation="server 4 claims a far term"))
    fires(made.check, lambda: made.take(answers(5), 1.3), DUE)


@pytest.mark.parametrize("word", [answers(2, leads=True), answers(2, 3)])
def test_a_server_that_hears_a_leader_does_not_agree(word: Answered) -> None:
    made = asked()
    made.take(word, 1.1)
    made.take(answers(4), 1.2)
    fires(made.check, lambda: made.take(answers(5), 1.3), DUE)
    made = asked()
    made.take(word, 1.1)
    made.take(Tick(), 1.5, asks(2))  # server 2 may have lost its leader meanwhile
    made.take(answers(2), 1.6)
    fires(made.check, lambda: made.take(answers(4), 1.7), DUE)


def test_a_name_without_a_leader_that_is_heard_is_left_to_other_rules() -> None:
    made = asked()
    made.take(Answered(2, 2, Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 4, 1, 0, accepted=False)), 1.1)
    made.take(answers(3), 1.2)
    made.take(answers(5), 1.3)


def test_news_of_the_farm_ends_what_was_asked_before() -> None:
    grants = Effects(
        gated_replies=[SendReply("token", Response(MessageType.REQUEST_VOTE_RESPONSE, 1, 2, 1, 0, accepted=True))]
    )
    for event, effects in (
        (Incoming("token", Request(APPEND, 2, 1, 1, 0, 0, 0)), NOTHING),
        (Incoming("token", Request(MessageType.REQUEST_VOTE_REQUEST, 2, 1, 1, 0, 0, 0)), grants),
    ):
        made = asked()
        made.server.leader = 2
        made.take(event, 1.1, effects)
        for peer in (2, 3, 4):
            made.take(answers(peer), 1.2)
    made = asked()
    far = Effects(violation="server 2 claims term 9")
    made.take(answers(2), 1.1, far)
    made.take(answers(3), 1.2)
    late = made.facts.timing.election_max + 1.1
    made.take(answers(4), late)  # too late: the questions left long ago


def test_a_server_outside_its_configuration_asks_after_many_time_outs() -> None:
    made = Waiting(3)
    made.server.configurations = [(1, (1, 2, 3)), (2, (2, 3))]
    for number in range(LAST_RESORT):
        made.ends(1.0 + number)
    made.server.configurations = [(2, (2, 3))]
    made.ends(1.0 + LAST_RESORT)  # the removal is all that the server knows
    made.server.configurations = [(1, (1, 2, 3)), (2, (2, 3))]
    fires(made.check, lambda: made.ends(2.0 + LAST_RESORT), r"does not ask \[2, 3\]")


def test_other_time_outs_move_the_end() -> None:
    made = Waiting()
    made.server.stands_at = 3.0
    made.check.retimed(made.server, 0.5)
    made.check.takes(made.server, Tick(), NOTHING, 2.0)


def test_a_log_without_its_snapshot_waits_for_the_last_resort() -> None:
    made = Waiting(3)
    made.server.memory.base = 1
    made.ends(1.0)
