"""The correct core passes a small scope, and broken cores do not."""

import pytest

from gf_i2p.simulator.canaries import CANARIES
from gf_i2p.simulator.exhaustive.scope import Scope
from gf_i2p.simulator.exhaustive.search import Search

QUICK = Scope(time_outs=2, proposals=1, losses=1)


def _searched(scope: Scope, canary: str | None = None) -> Search:
    search = Search(scope)
    if canary is None:
        search.run()
    else:
        with CANARIES[canary].applied():
            search.run()
    return search


def test_the_core_has_no_violation_in_the_whole_scope() -> None:
    search = _searched(QUICK)
    assert (search.violation, search.exhausted) == (None, True)
    events = [event for events in search.tables.events for event in events]
    applied = {arguments[1] for name, arguments in events if name == "applied"}
    terms = {arguments[1].term for name, arguments in events if name == "stepped" and arguments[1].is_leader}
    assert applied == {1, 2, 3}, "the no-ops of two leaders and the client's entry are committed in some run"
    assert terms == {1, 2}
    assert search.tables.core_steps < search.choices


@pytest.mark.parametrize(
    ("canary", "scope", "invariant"),
    [
        ("half-wins", Scope(time_outs=1), "WonByMajority"),
        ("no-fsync", Scope(time_outs=1, slow_writes=1), "PersistedBeforeSent"),
        ("one-write-less", Scope(time_outs=2), "PersistedBeforeSent"),
        ("votes-twice", Scope(time_outs=3, slow_writes=1, crashes=1), "VoteOnce"),
        ("half-commits", Scope(time_outs=1), "CommittedOnMajority"),
        ("counts-early", Scope(time_outs=1, slow_writes=1, losses=1), "CommittedOnMajority"),
        ("counts-sent", Scope(time_outs=1, proposals=1), "CommittedOnMajority"),
        ("applies-early", Scope(time_outs=1), "StateMachineSafety"),
        ("answers-early", Scope(time_outs=1, proposals=1), "Acknowledged"),
        ("any-log", Scope(time_outs=3, losses=1), "LeaderCompleteness"),
        ("old-votes", Scope(time_outs=2, late=1, losses=1, cuts=1), "WonByMajority"),
        pytest.param(
            "no-truncation",
            Scope(time_outs=3, cuts=1, losses=1),
            "CommittedOnMajority",
            marks=pytest.mark.slow,  # an old leader's entry, and a new leader that replaces it
        ),
        pytest.param(
            "lone-reads",
            Scope(time_outs=3, proposals=1, reads=1, late=1),
            "FreshReads",
            marks=pytest.mark.slow,  # an old leader, a new leader, and an answer in between: 18,000 states
        ),
        pytest.param(
            "refuses-lost",
            Scope(time_outs=3, proposals=1, cuts=1, losses=1),
            "Acknowledged",
            marks=pytest.mark.slow,  # a leader that resigns: 20,000 states
        ),
    ],
)
def test_a_broken_core_is_caught(canary: str, scope: Scope, invariant: str) -> None:
    search = _searched(scope, canary)
    assert search.violation is not None
    assert search.violation.invariant == invariant
    lines: list[str] = []
    search.describe(lines.append)
    assert lines[-1].endswith(f"violates                   {search.violation}")
    assert f"{len(search.way)}.000000" in lines[-1]


def test_the_way_to_a_violation_is_a_shortest_one() -> None:
    """Server 1 stands, two servers vote, and the first vote makes the broken server a leader that commits alone."""
    kinds = [choice.kind for choice in _searched(Scope(time_outs=2, losses=1), "half-commits").way]
    assert kinds == ["time-out", "deliver", "deliver", "deliver"]


def test_a_violation_needs_the_fault_in_the_scope() -> None:
    assert _searched(Scope(time_outs=1, losses=1), "counts-early").exhausted
    assert _searched(Scope(time_outs=1, slow_writes=1), "counts-early").exhausted


def test_a_scope_ends_at_its_highest_term() -> None:
    search = _searched(Scope(terms=1, time_outs=3))
    terms = {arguments[1].term for events in search.tables.events for name, arguments in events if name == "stepped"}
    assert search.exhausted
    assert search.tables.machines
    assert {1} <= terms <= {0, 1, 2}, "a step into term 2 is made once, and then left out"


def test_a_search_ends_when_told() -> None:
    search = Search(QUICK)
    search.run(lambda: search.states > 50)
    assert not search.exhausted
    assert 50 < search.states < 500
