"""Each invariant about a leader's office notices a violation made by hand, and is silent when all is well."""

from collections.abc import Callable
from functools import partial

import pytest

from gf_i2p.raft.effects import Effects, HardState, Send, SendReply, Snapshot, Write
from gf_i2p.raft.inputs import Answered, Incoming, Input, Proposal, Propose, Reachable, Read, StepDown, Tick
from gf_i2p.raft.log import size_of
from gf_i2p.raft.settings import Flow
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.cluster.invariants.office import (
    EntriesTaken,
    LeaderSpeaksFirst,
    ReadsTaken,
    StepsDownWhenTold,
    VotesDeposeNobody,
)
from gf_i2p.simulator.cluster.plan import slower
from gf_i2p.simulator.facts import ServerFacts
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import application
from tests.simulator.cluster.invariants.made_facts import facts, fires, leader

APPEND, VOTE = MessageType.APPEND_ENTRIES_REQUEST, MessageType.REQUEST_VOTE_REQUEST


def loaded(base: int = 0, snapshot: Snapshot | None = None) -> Loaded:
    return Loaded(HardState(1, NOBODY), base, (), (), 1, 0, (base, 1 if base else 0), snapshot, None, None)


def request(kind: MessageType) -> Incoming:
    return Incoming("token", Request(kind, 2, 1, 1, 0, 0, 0))


def to(*peers: int) -> list[Send]:
    return [Send(peer, Request(APPEND, 1, peer, 1, 0, 0, 0), 1) for peer in peers]


class Office:
    """Leader 1 of servers 1, 2 and 3, and an invariant that has seen this server lead."""

    def __init__(self, kind: Callable[..., Invariant]) -> None:
        log = [application("a", 1)]
        self.facts = facts(log, log, log)
        self.check = kind(self.facts)
        self.server: ServerFacts = leader(self.facts, 1, term=1)
        self.check.boots(self.server, loaded(), [])
        self.take(Tick(), 0.0, Effects(sends=to(2, 3)))

    def take(self, event: Input, clock: float = 0.0, effects: Effects | None = None) -> None:
        self.check.takes(self.server, event, effects or Effects(), clock)

    def stand(self, clock: float) -> None:
        """Become a candidate."""
        self.check.stands(self.server)
        self.take(Tick(), clock)


def reply(token: str, *, accepted: bool) -> SendReply:
    return SendReply(token, Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, NOBODY, 1, 3, accepted=accepted))


def test_a_leader_takes_entries_and_answers_when_they_are_committed() -> None:
    entry = application("b", 1)
    one, two, none = Proposal("one", [entry]), Proposal("two", [entry, entry]), Proposal("none", [])
    refuses_two = Effects(write=Write(None, 2, (entry,), number=1), replies=[reply("two", accepted=False)])
    takes_both = Effects(write=Write(None, 2, (entry,) * 3, number=1), replies=[reply("none", accepted=True)])
    made = Office(EntriesTaken)
    fires(
        made.check, lambda: made.take(Propose([one, two]), 1.0, refuses_two), "leader 1 refuses 2 entries of 28 bytes"
    )
    made = Office(EntriesTaken)
    made.facts.flow = Flow(queue_entries=3)
    fires(made.check, lambda: made.take(Propose([one, none, two]), 1.0, takes_both), "leader 1 takes 2 entries")
    made = Office(EntriesTaken)
    made.facts.flow = Flow(queue_bytes=size_of(entry) * 3 - 1)
    fires(made.check, lambda: made.take(Propose([one, none, two]), 1.0, takes_both), "leader 1 takes 2 entries")
    made = Office(EntriesTaken)
    made.facts.flow = Flow(queue_entries=4, queue_bytes=size_of(entry) * 3)
    made.take(Propose([one, none, two]), 1.0, takes_both)
    made.server.commit = 2
    made.take(Tick(), 1.0, Effects(replies=[reply("one", accepted=True)]))
    made.server.commit = 4
    fires(made.check, lambda: made.take(Tick(), 1.0), "leader 1 commits entry 4, and does not answer its client")
    made.server.bootstrap = (2, 3)
    asks = Incoming("one", Request(MessageType.CLIENT_REQUEST, NOBODY, 1, 0, 0, 0, 0, (entry,)))
    fires(made.check, lambda: made.take(asks, 1.0, Effects(write=refuses_two.write)), "leader 1 takes 1 entries")
    made.take(asks, 1.0, Effects(replies=[reply("one", accepted=False)]))
    made.server.leads = False
    made.take(asks, 1.0)


def test_a_leader_steps_down_when_it_is_told() -> None:
    made = Office(StepsDownWhenTold)
    timing = made.facts.timing
    fires(made.check, partial(made.take, StepDown()), "is told to step down, and leads on")
    made.server.leads = False
    made.take(StepDown(), 1.0)
    soon = 1.0 + 2 * timing.election_max
    fires(made.check, partial(made.stand, soon - 0.1), "told to step down, and stands for election")
    made.take(Tick(), soon - 0.1)
    made.stand(soon)


def test_new_time_outs_shorten_the_wait_of_a_leader_that_has_stepped_down() -> None:
    made = Office(StepsDownWhenTold)
    timing = made.facts.timing
    made.server.timing, made.server.leads = slower(timing, 2.0), False
    made.take(StepDown(), 1.0)
    fires(made.check, partial(made.stand, 1.0 + 4 * timing.election_max - 0.1), "told to step down")
    made.take(StepDown(), 1.0)
    made.server.timing = timing
    made.check.retimed(made.server, 1.5)
    soon = 1.5 + 2 * timing.election_max
    fires(made.check, partial(made.stand, soon - 0.1), "told to step down")
    made.stand(soon)


@pytest.mark.parametrize(
    "news",
    [request(VOTE), Answered(2, 1, Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 2, 1, accepted=False))],
)
def test_a_leader_that_has_stepped_down_waits_no_longer_than_others_need(news: Input) -> None:
    made = Office(StepsDownWhenTold)
    made.server.leads = False
    made.take(StepDown(), 1.0)
    made.take(news, 1.1)
    made.stand(1.2)


def test_a_follower_may_be_told_to_step_down_and_stand() -> None:
    made = Office(StepsDownWhenTold)
    made.server.leads = False
    made.take(Tick())
    made.take(StepDown(), 1.0)
    made.stand(1.1)


def test_votes_depose_nobody() -> None:
    made = Office(VotesDeposeNobody)
    made.take(request(VOTE))
    made.server.leads = False
    fires(made.check, partial(made.take, request(VOTE)), "steps down because a server asks for its vote")
    made.take(request(VOTE))  # a follower already
    made = Office(VotesDeposeNobody)
    made.server.leads = False
    made.take(request(APPEND))  # the leader of a later term


def test_a_leader_takes_reads() -> None:
    made = Office(ReadsTaken)
    refused = Effects(reads_refused=["token"])
    made.take(Read("token"))
    fires(made.check, partial(made.take, Read("token"), 0.0, refused), "leader 1 refuses a read")
    made.take(Tick(), 0.0, refused)  # an earlier read
    made.check.boots(made.server, loaded(base=1), [])
    made.take(Read("token"), 0.0, refused)  # its state is damaged
    snapshot = Snapshot(1, 1, Configuration(0, 0, ()), b"state")
    made.check.boots(made.server, loaded(1, snapshot), [])
    fires(made.check, partial(made.take, Read("token"), 0.0, refused), "leader 1 refuses a read")
    made.server.leads = False
    made.take(Read("token"), 0.0, refused)


def test_a_leader_speaks_first() -> None:
    made = Office(LeaderSpeaksFirst)
    made.take(Tick())
    made.take(Reachable(2), 0.0, Effects(sends=to(2)))
    made.take(Reachable(2), 0.0, Effects(snapshot_wanted=True))
    made.take(Reachable(9))  # no member
    fires(made.check, partial(made.take, Reachable(2), 0.0, Effects(sends=to(3))), "says nothing to server 2 at once")
    made.server.leads = False
    made.take(Reachable(2))
    leader(made.facts, 1, term=2)
    fires(made.check, partial(made.take, Tick(), 0.0, Effects(sends=to(2))), "says nothing to server 3 at once")
