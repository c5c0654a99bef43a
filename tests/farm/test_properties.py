"""Properties that the farm's state has after every log; the logs are made from random seeds."""

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gf_i2p.farm.state import FarmState
from tests.farm.made_up_logs import log, take
from tests.tier import examples

LENGTH = 150
seeds = st.integers(0, 2**32 - 1)


def fresh() -> FarmState:
    state = FarmState("farm")
    state.configure([1, 2, 3])
    return state


@settings(max_examples=examples(25), deadline=None)
@given(seeds, st.integers(1, LENGTH), st.sets(st.integers(1, LENGTH)))
@example(397681, 28, set())  # a Configuration removes the last server with a setting after the snapshot
def test_equal_logs_make_equal_states_with_a_snapshot_on_the_way_or_without(
    seed: int, cut: int, queried: set[int]
) -> None:
    one, other = fresh(), fresh()
    for index, entry in enumerate(log(seed, LENGTH), 1):
        take(one, index, entry)
        take(other, index, entry)
        if index == cut:
            other = FarmState.decode("farm", other.encode())
        if index in queried:
            assert one.choice == other.choice
        assert one.encode() == other.encode(), index
    assert one.choice == other.choice


@settings(max_examples=examples(25), deadline=None)
@given(seeds)
def test_what_is_chosen_can_be_published(seed: int) -> None:
    state, version = fresh(), 0
    for index, entry in enumerate(log(seed, LENGTH), 1):
        take(state, index, entry)
        choice, most = state.choice, state.parameters.max_entries
        if choice.publisher is not None:
            assert state.objection(choice.publisher) is None
        assert set(choice.why_not) == set(state.servers) - {choice.publisher}
        assert (choice.publisher is None) == (not state.merits())
        assert (choice.mode == "off") == (choice.publisher is None)
        assert len(choice.entries) + len(choice.branches) <= most
        assert all(1 <= len(branch.entries) <= most for branch in choice.branches)
        assert len(set(choice.leaves)) == len(choice.leaves)
        assert not set(choice.leaves) & set(choice.left_out)
        assert not set(choice.leaves) & {*state.administration.excluded, state.common_setting.master}
        assert all(0 <= each.cost <= 255 and each.type in {3, 7} for each in choice.listed)
        assert all(each.owner in state.records.keys() | state.leaf_members.keys() for each in choice.listed)
        assert set(state.choice.scores) == set(state.records)
        assert all(0 <= score.total <= 1000 for score in choice.scores.values())
        assert state.last_published_ms >= version
        version = state.last_published_ms


def test_much_happens_in_these_logs() -> None:
    """Otherwise the tests above would prove little."""
    fact_counts: Counter[str] = Counter()
    for seed in range(20):
        state, publishers = fresh(), set()
        facts = set[str]()
        for index, entry in enumerate(log(seed, LENGTH), 1):
            take(state, index, entry)
            publishers.add(state.publisher)
            facts |= {"branches"} if len(state.choice.branches) > 1 else set()
            facts |= {"full"} if len(state.choice.entries) == state.parameters.max_entries else set()
            facts |= {"accused"} if state.accused else set()
            facts |= {"members"} if state.leaf_members else set()
            facts |= {"nobody"} if state.publisher is None and state.records else set()
        fact_counts.update(facts | ({"several"} if len(publishers) > 3 else set()))
    assert min(fact_counts[fact] for fact in ("branches", "full", "accused", "members", "nobody", "several")) >= 5, (
        fact_counts
    )
