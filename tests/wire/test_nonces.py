import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire import nonces as module
from gf_i2p.wire.limits import NONCE_COUNT_WINDOW
from gf_i2p.wire.nonces import Nonces
from tests.wire.handshakes import HOUR, KEY, Entropy


def book(realm: str = "farm", key: bytes = KEY) -> Nonces:
    return Nonces(realm, key=key, seconds=HOUR)


def test_a_nonce_is_fresh_for_its_whole_life_and_not_longer() -> None:
    nonces = book()
    nonce = nonces.issue(100.0, Entropy())
    assert nonces.spend(nonce, 1, 100.0)
    assert nonces.spend(nonce, 2, 100.0 + HOUR)
    assert not nonces.spend(nonce, 3, 100.5 + HOUR)


def test_a_nonce_of_another_process_or_realm_is_none_of_ours() -> None:
    nonce = book().issue(0.0, Entropy())
    assert not book(key=bytes(32)).spend(nonce, 1, 0.0)
    assert not book(realm="other").spend(nonce, 1, 0.0)
    assert book().spend(nonce, 1, 0.0)


def test_no_character_of_a_nonce_can_be_changed() -> None:
    nonces = book()
    nonce = nonces.issue(0.0, Entropy())
    assert len(nonce) == 56
    for place in range(56):
        other = "A" if nonce[place] != "A" else "B"
        assert not nonces.spend(nonce[:place] + other + nonce[place + 1 :], 1, 0.0)


@given(st.one_of(st.text(max_size=80), st.text("+/-_=aZ \n", min_size=56, max_size=56)))
def test_any_other_text_is_no_nonce(text: str) -> None:
    assert not book().spend(text, 1, 0.0)


def test_a_nonce_has_one_spelling() -> None:
    nonces = book()
    entropy = Entropy()
    nonce = next(n for n in (nonces.issue(0.0, entropy) for _ in range(99)) if "-" in n and "_" in n)
    for other in (nonce.replace("-", "+").replace("_", "/"), nonce + "=", nonce + "\n", " " + nonce, nonce + "AAAA"):
        assert not nonces.spend(other, 1, 0.0)


def test_the_time_of_issue_cannot_be_read_from_nonces() -> None:
    # Without the mask these bytes would be equal in all nonces: the same clock, shown to strangers.
    nonces, entropy = book(), Entropy()
    assert len({nonces.issue(1234.5, entropy)[24:30] for _ in range(20)}) == 20


def test_each_count_is_accepted_once_in_any_order() -> None:
    nonces = book()
    nonce = nonces.issue(0.0, Entropy())
    for count in (3, 1, 2, 10, 7, 4, 9):
        assert nonces.spend(nonce, count, 0.0)
        assert not nonces.spend(nonce, count, 0.0)


def test_counts_that_fell_out_of_the_window_are_refused() -> None:
    nonces = book()
    nonce = nonces.issue(0.0, Entropy())
    assert nonces.spend(nonce, 1000, 0.0)
    assert nonces.spend(nonce, 1000 - NONCE_COUNT_WINDOW + 1, 0.0)
    assert not nonces.spend(nonce, 1000 - NONCE_COUNT_WINDOW, 0.0)


def test_a_jump_of_billions_costs_nothing_and_forgets_nothing() -> None:
    nonces = book()
    nonce = nonces.issue(0.0, Entropy())
    assert nonces.spend(nonce, 1, 0.0)
    assert nonces.spend(nonce, 0xFFFFFFFF, 0.0)
    assert not nonces.spend(nonce, 1, 0.0)
    assert not nonces.spend(nonce, 0xFFFFFFFF, 0.0)
    assert nonces.spend(nonce, 0xFFFFFFFE, 0.0)


def test_a_window_does_not_grow() -> None:
    nonces = book()
    nonce = nonces.issue(0.0, Entropy())
    for count in range(1, 100_000, 99):
        assert nonces.spend(nonce, count, 0.0)
    assert nonces._used[nonce][1].bit_length() <= NONCE_COUNT_WINDOW


@given(st.lists(st.integers(1, 3 * NONCE_COUNT_WINDOW), max_size=60))
def test_the_window_is_the_set_that_it_stands_for(counts: list[int]) -> None:
    nonces = book()
    nonce = nonces.issue(0.0, Entropy())
    used: set[int] = set()
    for count in counts:
        expected = count not in used and count > max(used, default=0) - NONCE_COUNT_WINDOW
        assert nonces.spend(nonce, count, 0.0) == expected
        if expected:
            used.add(count)


def test_two_nonces_have_counts_of_their_own() -> None:
    nonces, entropy = book(), Entropy()
    first, second = nonces.issue(0.0, entropy), nonces.issue(0.0, entropy)
    assert nonces.spend(first, 1, 0.0)
    assert nonces.spend(second, 1, 0.0)
    assert not nonces.spend(first, 1, 0.0)


def test_memory_is_bounded_and_what_is_forgotten_cannot_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NONCES", 10)
    nonces, entropy = book(), Entropy()
    unused = nonces.issue(5.0, entropy)
    issued = [nonces.issue(float(i), entropy) for i in range(25)]
    for nonce in issued:
        assert nonces.spend(nonce, 1, 25.0)
        assert len(nonces._used) == len(nonces._by_age) <= 10
    assert [nonces.spend(nonce, 1, 25.0) for nonce in issued] == [False] * 25
    assert [nonces.spend(nonce, 2, 25.0) for nonce in issued] == [False] * 15 + [True] * 10
    assert not nonces.spend(unused, 1, 25.0)  # as old as the forgotten nonces


def test_a_late_first_use_of_the_oldest_nonce_does_not_displace_a_younger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NONCES", 2)
    nonces, entropy = book(), Entropy()
    oldest, *others = [nonces.issue(float(i), entropy) for i in range(3)]
    assert all(nonces.spend(nonce, 1, 9.0) for nonce in [*others, oldest])
    assert not nonces.spend(oldest, 2, 9.0)
    assert all(nonces.spend(nonce, 2, 9.0) for nonce in others)


def test_of_nonces_of_one_moment_only_the_forgotten_one_goes_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NONCES", 2)
    nonces, entropy = book(), Entropy()
    issued = [nonces.issue(0.0, entropy) for _ in range(3)]
    assert [nonces.spend(nonce, 1, 0.0) for nonce in issued] == [True] * 3
    assert sorted(nonces.spend(nonce, 2, 0.0) for nonce in issued) == [False, True, True]


def test_expired_nonces_are_forgotten_without_making_younger_ones_stale() -> None:
    nonces, entropy = book(), Entropy()
    assert nonces.spend(nonces.issue(0.0, entropy), 1, 0.0)
    young = nonces.issue(HOUR - 1, entropy)
    assert nonces.spend(nonces.issue(HOUR, entropy), 1, HOUR + 1)
    assert len(nonces._used) == 1
    assert nonces.spend(young, 1, HOUR + 1)


def test_a_nonce_can_be_spent_as_a_whole_once_and_only_unused() -> None:
    nonces, entropy = book(), Entropy()
    whole = nonces.issue(0.0, entropy)
    assert nonces.spend_whole(whole, 0.0)
    assert not nonces.spend_whole(whole, 0.0)
    assert not any(nonces.spend(whole, count, 0.0) for count in (1, 2**31, 2**32 - NONCE_COUNT_WINDOW, 2**32 - 1))
    counted = nonces.issue(0.0, entropy)
    assert nonces.spend(counted, 1, 0.0)
    assert not nonces.spend_whole(counted, 0.0)
    assert nonces.spend(counted, 2, 0.0)
    assert not nonces.spend_whole(nonces.issue(0.0, entropy), HOUR + 1)
    assert not nonces.spend_whole("invented", 0.0)


def test_nonces_that_are_spent_as_a_whole_are_forgotten_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_NONCES", 3)
    nonces, entropy = book(), Entropy()
    issued = [nonces.issue(float(now), entropy) for now in range(5)]
    assert all(nonces.spend_whole(nonce, 5.0) for nonce in issued)
    assert len(nonces._used) == 3
    assert not any(nonces.spend_whole(nonce, 5.0) for nonce in issued)
