"""The Raft paper, sentence by sentence; the section stands behind each name."""

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import I2P, LAN, Timing
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from tests.raft.lab import Lab, application


def vote_request(source: int, term: int, last_index: int = 0, last_term: int = 0) -> Request:
    return Request(MessageType.REQUEST_VOTE_REQUEST, source, 1, term, last_term, last_index, 0)


def append(term: int, after: tuple[int, int], *entries: Entry, commit: int = 0, source: int = 2) -> Request:
    index, previous_term = after
    return Request(MessageType.APPEND_ENTRIES_REQUEST, source, 1, term, previous_term, index, commit, entries)


def ask(lab: Lab, request: Request) -> Response:
    """Send a request to server 1 from outside and return its answer."""
    token = f"asked {len(lab.replies)}"
    lab.step(1, inputs.Incoming(token, request))
    return lab.replies[token]


def granted(lab: Lab, request: Request) -> bool:
    return ask(lab, request).accepted


# 5.1 ---------------------------------------------------------------------------------------------------------------


def test_if_a_server_receives_a_request_with_a_stale_term_it_rejects_it_5_1() -> None:
    lab = Lab(3)
    ask(lab, append(5, (0, 0)))
    assert not ask(lab, append(4, (0, 0), application("x", 4))).accepted
    assert not granted(lab, vote_request(3, 4))
    assert lab.core(1).term == 5
    assert lab.core(1).log.last_index == 0


def test_a_server_with_a_smaller_term_updates_it_5_1() -> None:
    lab = Lab(3)
    assert ask(lab, append(7, (0, 0))).term == 7
    assert lab.servers[1].disk.hard_state == (7, NOBODY)


def test_a_candidate_or_leader_that_sees_a_higher_term_becomes_a_follower_5_1() -> None:
    for role in ("candidate", "leader"):
        lab = Lab(3)
        lab.timeout(1)
        if role == "leader":
            lab.settle()
        assert lab.core(1).role == role
        kind = MessageType.REQUEST_VOTE_RESPONSE if role == "candidate" else MessageType.APPEND_ENTRIES_RESPONSE
        lab.step(1, inputs.Answered(2, 99, Response(kind, 2, 1, 9, 0, accepted=False)))
        assert (lab.core(1).role, lab.core(1).term, lab.core(1).leader) == ("follower", 9, NOBODY)


def test_answers_of_an_older_term_change_nothing_5_1() -> None:
    lab = Lab(3)
    lab.timeout(1)
    lab.timeout(1)
    lab.step(1, inputs.Answered(2, 1, Response(MessageType.REQUEST_VOTE_RESPONSE, 2, 1, 1, 0, accepted=True)))
    assert lab.core(1).role == "candidate"


# 5.2 ---------------------------------------------------------------------------------------------------------------


def test_servers_start_as_followers_5_2() -> None:
    assert {server.core.role for server in Lab(3).servers.values()} == {"follower"}


def test_without_communication_over_the_election_timeout_a_follower_begins_an_election_5_2() -> None:
    lab = Lab(3)
    lab.now = LAN.election_min / 2
    lab.step(1, inputs.Tick())
    assert lab.core(1).role == "follower"
    lab.timeout(1)
    assert (lab.core(1).role, lab.core(1).term, lab.core(1).vote) == ("candidate", 1, 1)


def test_election_timeouts_are_chosen_randomly_from_a_fixed_interval_5_2() -> None:
    asked: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        asked.append((low, high))
        return low + len(asked) * 0.001

    lab = Lab(3, uniform=uniform, timing=I2P)
    assert set(asked) == {(20.0, 50.0)}
    assert len({server.core._timeout.at for server in lab.servers.values()}) == 3


def test_heartbeats_keep_followers_from_standing_for_election_5_2() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.advance(60 * LAN.election_max)
    assert lab.core(1).is_leader
    assert lab.core(2).term == 1


def test_each_server_votes_for_at_most_one_candidate_in_a_term_5_2() -> None:
    lab = Lab(3)
    assert granted(lab, vote_request(2, 1))
    assert not granted(lab, vote_request(3, 1))
    assert granted(lab, vote_request(2, 1)), "the same candidate may ask again"
    lab.crash(1)
    lab.restart(1)
    assert not granted(lab, vote_request(3, 1)), "nor after a crash"


def test_a_candidate_wins_with_the_votes_of_a_majority_5_2() -> None:
    lab = Lab(5)
    lab.timeout(1)
    for peer, vote, role in (
        (2, True, "candidate"),
        (3, False, "candidate"),
        (2, True, "candidate"),
        (4, True, "leader"),
    ):
        response = Response(MessageType.REQUEST_VOTE_RESPONSE, peer, 1, 1, 0, accepted=vote)
        lab.step(1, inputs.Answered(peer, 0, response))
        assert lab.core(1).role == role


def test_only_members_votes_count_5_2() -> None:
    lab = Lab(3)
    lab.timeout(1)
    lab.step(1, inputs.Answered(9, 0, Response(MessageType.REQUEST_VOTE_RESPONSE, 9, 1, 1, 0, accepted=True)))
    assert lab.core(1).role == "candidate"


def test_a_candidate_that_hears_from_a_leader_of_its_term_returns_to_follower_state_5_2() -> None:
    lab = Lab(3)
    lab.timeout(1)
    assert ask(lab, append(1, (0, 0))).accepted
    assert (lab.core(1).role, lab.core(1).leader) == ("follower", 2)


def test_a_candidate_whose_election_times_out_starts_a_new_one_with_a_higher_term_5_2() -> None:
    lab = Lab(3)
    lab.isolate(1)
    for term in (1, 2, 3):
        lab.timeout(1, unasked=True)
        assert (lab.core(1).role, lab.core(1).term) == ("candidate", term)


@pytest.mark.parametrize(
    ("committed", "asked", "role"),
    [(1, True, "follower"), (0, True, "candidate"), (0, False, "follower")],
    ids=["it knows that it is out", "nobody else can win", "nobody has shown that it is needed"],
)
def test_a_server_that_is_out_stands_for_election_only_where_a_member_does_not_know_4_2_2(
    committed: int, asked: bool, role: str
) -> None:
    lab = Lab(3)
    others = lab.core(1).configuration.__class__(1, 0, lab.bootstrap.servers[1:])
    ask(lab, append(1, (0, 0), Entry(1, ValueType.CONFIGURATION, others.encode()), commit=committed))
    lab.now += 10
    if asked:
        assert not ask(lab, vote_request(3, 2, 0, 0)).accepted
    lab.now += 10
    lab.timeout(1)
    assert lab.core(1).role == role
    assert lab.core(1).deadline > lab.now


def test_two_servers_part_although_the_leader_forgets_how_4_2_2() -> None:
    """The leaving server has the Configuration of the removal; the leader loses that one with the unwritten log."""
    lab = Lab(2)
    lab.elect(1)
    lab.servers[1].slow_disk = True
    lab.change(1, "leave", remove=2)
    while lab.core(2).is_voter:
        lab.deliver(lab.network.popleft())
    lab.crash(1)
    lab.restart(1)
    lab.network.clear()
    assert lab.core(1).is_voter
    assert lab.core(2).configuration.servers == lab.bootstrap.servers[:1]
    lab.advance(20.0)
    assert lab.core(1).is_leader
    assert lab.core(1).configuration.servers == lab.bootstrap.servers[:1]
    lab.propose(1, "alone", "x")
    lab.settle()
    assert lab.replies["alone"].accepted


def test_a_farm_of_one_elects_itself_and_commits_when_its_disk_has_written() -> None:
    """The vote comes first: otherwise a crash undoes the term, and another server could lead in that term, too."""
    lab = Lab(1)
    lab.servers[1].slow_disk = True
    lab.timeout(1)
    assert (lab.core(1).role, lab.core(1).vote) == ("candidate", 1)
    lab.sync(1)
    assert lab.core(1).is_leader
    lab.propose(1, "a", "x")
    assert lab.core(1).commit == 0
    lab.sync(1)
    assert lab.replies["a"].accepted
    lab.step(1, inputs.Read("r"))
    assert lab.reads == {"r": 2}


# 5.3 ---------------------------------------------------------------------------------------------------------------


def test_a_leader_appends_the_command_and_replicates_it_in_parallel_5_3() -> None:
    lab = Lab(3)
    lab.elect(1)
    effects = lab.step(1, inputs.Propose([inputs.Proposal("a", [application("x")])]))
    assert effects.write is not None
    assert [entry.value for entry in effects.write.entries] == [b"x"]
    assert {send.peer for send in effects.sends} == {2, 3}


def test_an_entry_is_committed_once_it_is_on_a_majority_5_3() -> None:
    lab = Lab(5)
    lab.elect(1)
    lab.isolate(4)
    lab.isolate(5)
    lab.propose(1, "a", "x")
    lab.settle()
    assert lab.replies["a"].accepted
    lab.isolate(3)
    lab.propose(1, "b", "y")
    lab.settle()
    assert "b" not in lab.replies


def test_several_append_entries_are_on_the_way_to_a_follower_within_a_bound() -> None:
    lab = Lab(3)
    lab.elect(1)
    for number in range(40):
        lab.propose(1, number, str(number))
    assert len(lab.network) == 2 * 16, "16 to each follower"
    lab.settle()
    assert lab.values(3) == [str(number) for number in range(40)]
    assert all(lab.replies[number].accepted for number in range(40))


def test_proposals_that_arrive_together_share_a_write_and_a_message() -> None:
    lab = Lab(3)
    lab.elect(1)
    effects = lab.step(1, inputs.Propose([inputs.Proposal(i, [application(str(i))]) for i in range(64)]))
    assert effects.write is not None
    assert len(effects.write.entries) == 64
    assert len(effects.sends) == 2
    lab.settle()
    assert [lab.replies[i].next_index for i in range(64)] == list(range(3, 67))


def test_the_consistency_check_refuses_entries_that_do_not_follow_5_3() -> None:
    lab = Lab(3)
    assert not ask(lab, append(1, (1, 1), application("x", 1))).accepted, "nothing at 1"
    assert ask(lab, append(1, (0, 0), application("x", 1))).accepted
    assert not ask(lab, append(2, (1, 2), application("y", 2))).accepted, "another term at 1"


def test_conflicting_entries_and_all_that_follow_them_are_deleted_5_3() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), *(application(text, 1) for text in "abc")))
    assert ask(lab, append(2, (1, 1), application("d", 2))).next_index == 3
    assert lab.values(1) == ["a", "d"]


def test_entries_that_are_there_already_are_kept_with_all_that_follow_them_5_3() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), *(application(text, 1) for text in "abc")))
    answer = ask(lab, append(1, (0, 0), application("a", 1)))
    assert lab.values(1) == ["a", "b", "c"]
    assert (answer.accepted, answer.next_index) == (True, 2), "what the request proved, not the end of the log"


def test_a_follower_commits_at_most_what_the_request_proved_5_3() -> None:
    lab = Lab(3)
    ask(lab, append(1, (0, 0), *(application(text, 1) for text in "abc")))
    ask(lab, append(2, (1, 1), commit=3))
    assert lab.core(1).commit == 1, "b and c may be another leader's"


def test_a_refusal_skips_a_whole_term_at_a_time_5_3() -> None:
    lab = Lab(3)
    log = [application(f"{term}{i}", term) for term in (1, 4, 6) for i in range(10)]
    ask(lab, append(6, (0, 0), *log))
    assert ask(lab, append(7, (40, 7))).next_index == 31, "behind the end"
    assert ask(lab, append(7, (25, 5))).next_index == 21, "the run of term 6 cannot match; that of term 4 may"
    assert ask(lab, append(7, (15, 5))).next_index == 11, "the run of term 4 does not match: its beginning"
    assert ask(lab, append(7, (25, 2))).next_index == 11, "neither 6 nor 4 can match"


def test_followers_with_missing_and_with_extra_entries_are_brought_to_the_leaders_log_figure_7() -> None:
    leader = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
    followers = {
        "a": [1, 1, 1, 4, 4, 5, 5, 6, 6],
        "b": [1, 1, 1, 4],
        "c": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
        "d": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
        "e": [1, 1, 1, 4, 4, 4, 4],
        "f": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
    }
    logs = [leader, *followers.values()]
    lab = Lab(7)
    for server, terms in enumerate(logs, 1):
        lab.crash(server)
        disk = lab.servers[server].disk
        disk.entries = [application(f"{index} of term {term}", term) for index, term in enumerate(terms, 1)]
        disk.hard_state = disk.hard_state._replace(term=7)
        lab.restart(server)
    lab.elect(1)
    lab.timeout(1)
    lab.settle()
    assert {len(server.disk.entries) for server in lab.servers.values()} == {11}
    assert len({tuple(server.disk.entries) for server in lab.servers.values()}) == 1


def test_a_leader_retries_for_ever_5_3() -> None:
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(3)
    lab.propose(1, "a", "x")
    lab.advance(100 * LAN.election_max)
    lab.heal()
    lab.advance(3 * LAN.election_max)
    assert lab.values(3) == ["x"]


def test_a_slow_follower_is_served_from_disk_and_delays_nobody() -> None:
    lab = Lab(3, cache_bytes=2_000)
    lab.elect(1)
    lab.isolate(3)
    for number in range(300):
        lab.propose(1, number, f"value {number:100}")
        lab.settle()
        assert lab.replies[number].accepted
    lab.heal()
    lab.step(1, inputs.Reachable(3))
    lab.settle()
    assert lab.values(3) == lab.values(1)


# 5.4 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_index", "last_term", "vote"),
    [(3, 2, True), (4, 2, True), (2, 2, False), (9, 1, False), (1, 3, True), (0, 0, False)],
)
def test_a_voter_denies_its_vote_if_its_own_log_is_more_up_to_date_5_4_1(
    last_index: int, last_term: int, *, vote: bool
) -> None:
    lab = Lab(3)
    ask(lab, append(2, (0, 0), application("a", 1), application("b", 2), application("c", 2)))
    lab.now += LAN.election_min
    assert granted(lab, vote_request(3, 3, last_index, last_term)) is vote
    assert lab.core(1).term == 3


def test_only_entries_of_the_leaders_term_are_committed_by_counting_5_4_2() -> None:
    """See also scenarios/old_term_commit.txt, the paper's figure 8."""
    lab = Lab(3)
    lab.elect(1)
    lab.isolate(1)
    lab.propose(1, "old", "x")
    lab.crash(1)
    lab.restart(1)
    lab.heal()
    lab.elect(1)
    assert lab.core(1).term == 2
    assert lab.core(1).commit == 3, "the old entry is committed by the no-op behind it"


# 5.6, 8 and figure 2 -----------------------------------------------------------------------------------------------


def test_state_is_on_stable_storage_before_an_answer_leaves_figure_2() -> None:
    lab = Lab(3)
    lab.servers[1].slow_disk = True
    lab.step(1, inputs.Incoming("vote", vote_request(2, 1)))
    lab.step(1, inputs.Incoming("append", append(1, (0, 0), application("x", 1))))
    lab.step(1, inputs.Incoming("heartbeat", append(1, (1, 1), commit=1)))
    assert not lab.replies
    assert lab.core(1).applicable == 0, "nothing is applied that is not durable here"
    lab.sync(1, 1)
    assert list(lab.replies) == ["vote"]
    lab.sync(1)
    assert list(lab.replies) == ["vote", "append", "heartbeat"]
    assert lab.core(1).applicable == 1


def test_a_candidate_asks_only_when_its_own_vote_is_durable_figure_2() -> None:
    lab = Lab(3)
    lab.servers[1].slow_disk = True
    lab.timeout(1)
    assert not lab.network
    lab.sync(1)
    assert len(lab.network) == 2


def test_a_leader_begins_its_term_with_a_no_op_8() -> None:
    lab = Lab(3)
    lab.elect(1)
    first = lab.servers[1].disk.entries[0]
    assert first.value_type == ValueType.CONFIGURATION
    assert (lab.core(1).configuration.log_index, lab.core(1).configuration.last_log_index) == (1, 0)
    lab.crash(1)
    lab.elect(2)
    assert len(lab.servers[2].disk.entries) == 2
    assert (lab.core(2).configuration.log_index, lab.core(2).configuration.last_log_index) == (2, 1)
    assert lab.core(2).configuration.servers == lab.bootstrap.servers


def test_a_client_is_answered_when_its_entries_are_committed_8() -> None:
    lab = Lab(3)
    lab.elect(1)
    request = Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, (application("x"), application("y")))
    lab.step(1, inputs.Incoming("a", request))
    assert "a" not in lab.replies
    lab.settle()
    answer = Response(MessageType.APPEND_ENTRIES_RESPONSE, 1, 1, 1, 4, accepted=True)
    assert lab.replies["a"] == answer


def test_a_follower_refuses_a_client_and_names_the_leader_8() -> None:
    lab = Lab(3)
    request = Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, (application("x"),))
    lab.step(2, inputs.Incoming("early", request))
    assert lab.replies["early"] == Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, NOBODY, 0, 0, accepted=False)
    lab.elect(1)
    lab.step(2, inputs.Incoming("late", request))
    assert lab.replies["late"] == Response(MessageType.APPEND_ENTRIES_RESPONSE, 2, 1, 1, 0, accepted=False)


def test_timing_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="twice the heartbeat"):
        Timing(heartbeat=1, election_min=1.5, election_max=3)
    with pytest.raises(ValueError, match=r"1\.2 times"):
        Timing(heartbeat=0.1, election_min=1, election_max=1.1)
