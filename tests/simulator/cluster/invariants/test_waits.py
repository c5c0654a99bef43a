"""The invariant about the election time-out notices a wait that changes without a reason, or beyond its bounds."""

from functools import partial

import pytest

from gf_i2p.raft.effects import Effects, HardState, SendReply
from gf_i2p.raft.inputs import Answered, Incoming, Input, Reachable, StepDown, Tick, Unreachable
from gf_i2p.simulator.cluster.invariants.waits import WaitsFit
from gf_i2p.simulator.cluster.plan import slower
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import application
from tests.simulator.cluster.invariants.made_facts import facts, fires

A1 = application("a", 1)
APPEND, VOTE = MessageType.APPEND_ENTRIES_REQUEST, MessageType.REQUEST_VOTE_REQUEST
LOADED = Loaded(HardState(1, NOBODY), 0, (), (), 1, 0, (0, 0), None, None, None)
REFUSED = Response(MessageType.REQUEST_VOTE_RESPONSE, 2, 1, 1, 0, accepted=False)


def incoming(message_type: MessageType = APPEND, source: int = 2) -> Incoming:
    return Incoming("token", Request(message_type, source, 1, 1, 0, 0, 0))


class Waiting:
    """A follower of server 2 in a farm of three, with one entry. Its wait ends in the middle of the bounds."""

    def __init__(self) -> None:
        self.facts = facts([A1], [], [])
        self.timing = self.facts.timing
        self.middle = (self.timing.election_min + self.timing.election_max) / 2
        self.check, self.server = WaitsFit(self.facts), self.facts.servers[1]
        self.server.term, self.server.leader = 1, 2
        self.check.boots(self.server, LOADED, [])
        self.take(incoming(), 10.0, self.middle)

    def take(self, event: Input, clock: float, seconds: float, effects: Effects | None = None) -> None:
        """Take an event, after which the wait ends in `seconds`."""
        self.server.stands_at = clock + seconds
        self.check.takes(self.server, event, effects or Effects(), clock)

    def keep(self, event: Input, clock: float) -> None:
        """Take an event that leaves the wait as it is."""
        self.check.takes(self.server, event, Effects(), clock)

    def stand(self, clock: float, seconds: float) -> None:
        self.server.term += 1
        self.check.stands(self.server)
        self.take(Tick(), clock, seconds)

    def refuse(self, clock: float) -> None:
        response = Response(REFUSED.type, 2, 1, self.server.term, 0, accepted=False)
        self.keep(Answered(2, 1, response), clock)

    def retime(self, clock: float, factor: float, seconds: float) -> None:
        self.server.timing, self.server.stands_at = slower(self.timing, factor), clock + seconds
        self.check.retimed(self.server, clock)


def test_nothing_changes_a_wait_without_a_reason() -> None:
    made = Waiting()
    made.keep(Tick(), 10.1)
    fires(made.check, lambda: made.take(Tick(), 10.2, made.middle), "changes its wait by 0.200 s at Tick, without a")
    made = Waiting()
    fires(made.check, lambda: made.keep(Tick(), 10.0 + made.middle), "lets the end of its wait pass")


@pytest.mark.parametrize("is_late", [False, True])
def test_a_new_wait_lies_between_the_bounds(is_late: bool) -> None:
    made = Waiting()
    seconds = made.timing.election_max + 0.01 if is_late else made.timing.election_min - 0.01
    granted = Response(MessageType.REQUEST_VOTE_RESPONSE, 1, 3, 1, 0, accepted=True)
    grants = Effects(gated_replies=[SendReply("token", granted)])
    fires(made.check, lambda: made.take(incoming(), 10.2, seconds), "after Incoming; the wait is 0.500 to 1.000 s")
    fires(made.check, lambda: made.take(incoming(VOTE, 3), 10.2, seconds, grants), "after Incoming")
    fires(made.check, lambda: made.stand(10.2, seconds), "after Tick")
    made = Waiting()
    fires(made.check, lambda: made.take(Tick(), 10.0 + made.middle, seconds), "after Tick")
    made.server.leads = True
    made.take(Tick(), 12.0, 0.0)
    made.server.leads = False
    fires(made.check, lambda: made.take(Answered(2, 1, REFUSED), 12.0, min(seconds, 0.4)), "after Answered")


def test_refusals_in_a_row_make_the_wait_longer() -> None:
    made = Waiting()
    made.stand(11.0, made.middle)
    made.refuse(11.1)
    made.stand(12.0, made.middle)  # one refusal may be chance
    made.refuse(12.1)
    fires(made.check, lambda: made.stand(13.0, 2 * made.timing.election_min - 0.01), "the wait is 1.000 to 2.000 s")
    made.refuse(13.1)
    made.stand(15.0, 4 * made.middle)
    made.stand(20.0, made.middle)  # nobody has refused


def test_a_voter_with_an_older_log_ends_the_longer_waits() -> None:
    def refused() -> Waiting:
        made = Waiting()
        for clock in (11.0, 12.0):
            made.stand(clock, made.middle)
            made.refuse(clock)
        made.stand(13.0, 2 * made.timing.election_max)
        return made

    made = refused()
    fires(made.check, lambda: made.keep(incoming(VOTE, 3), 13.1), "waits on, although a voter with an older log")
    made = refused()
    made.take(incoming(VOTE, 3), 13.1, made.middle)
    made = refused()
    fires(made.check, lambda: made.take(incoming(VOTE, 3), 13.1, 0.1), "after a voter's request")
    made = refused()
    made.keep(incoming(VOTE, 9), 13.1)  # no voter


def test_a_leader_that_steps_down_gives_way() -> None:
    made = Waiting()
    way = 2 * made.timing.election_max
    made.server.leads = True
    made.take(Tick(), 11.0, float("inf"))
    made.server.leads = False
    fires(made.check, partial(made.take, StepDown(), 11.0, made.middle), "after StepDown; the wait is 2.500 to 3.000")
    made.server.leads = True
    made.take(Tick(), 11.0, float("inf"))
    made.server.leads = False
    made.take(StepDown(), 11.0, made.middle + way)
    made.retime(11.0, 1.0, made.middle + way)
    fires(made.check, lambda: made.retime(11.1, 1.0, made.middle), "changes a wait that fits the new time-outs")


def test_doubt_makes_the_wait_shorter_and_a_new_connection_longer() -> None:
    made = Waiting()
    made.take(Unreachable(2), 10.1, 0.3)
    fires(made.check, lambda: made.take(Unreachable(2), 10.1, 0.4), "without a reason")
    made.take(Reachable(2), 10.2, made.timing.election_max)
    fires(made.check, lambda: made.take(Reachable(2), 10.3, 2 * made.timing.election_max), "without a reason")
    fires(made.check, lambda: made.take(Unreachable(3), 10.3, 0.1), "without a reason")


def test_new_time_outs_change_only_a_wait_that_they_could_not_produce() -> None:
    made = Waiting()
    made.retime(10.1, 2.0, made.middle - 0.1)
    made.retime(10.1, 0.2, 0.15)
    made = Waiting()
    fires(made.check, lambda: made.retime(10.1, 1.0, made.middle), "changes a wait that fits the new time-outs")
    made = Waiting()
    fires(made.check, lambda: made.retime(10.0, 0.2, made.middle), "after new time-outs; the wait is 0.100 to 0.200 s")
    fresh = Waiting()
    fresh.check.boots(fresh.server, LOADED, [])
    fresh.server.leader = NOBODY
    fresh.take(Tick(), 10.0, fresh.middle)
    fires(fresh.check, lambda: fresh.retime(10.0, 2.0, fresh.middle), "after new time-outs; the wait is 1.000 to 2.000")
    fresh.retime(10.0, 2.0, 2 * fresh.middle)
