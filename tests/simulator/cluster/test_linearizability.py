"""The checker agrees with brute force, and judges short histories as expected."""

import itertools
import random
from collections.abc import Sequence

import pytest

from gf_i2p.simulator.cluster import linearizability
from gf_i2p.simulator.cluster.linearizability import Operation, OperationKind, Undecided, linearizable, outcome


def read(called: int, returned: int, value: int) -> Operation:
    return Operation(OperationKind.READ, called, returned, value)


def write(called: int, returned: int | None, value: int) -> Operation:
    return Operation(OperationKind.WRITE, called, returned, value)


def swap(called: int, returned: int | None, expected: int, value: int, *, swapped: bool | None) -> Operation:
    return Operation(OperationKind.SWAP, called, returned, value, expected, swapped)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], True),
        ([read(1, 2, 0)], True),
        ([read(1, 2, 7)], False),
        ([write(1, 2, 7), read(3, 4, 7)], True),
        ([write(1, 2, 7), read(3, 4, 0)], False),
        ([write(1, 4, 7), read(2, 3, 0)], True),
        ([write(1, 6, 7), read(2, 3, 7), read(4, 5, 0)], False),
        ([write(1, None, 7), read(2, 3, 0), read(4, 5, 7)], True),
        ([write(1, None, 7), read(2, 3, 7), read(4, 5, 0)], False),
        ([write(1, 2, 7), write(3, 4, 8), read(5, 6, 7)], False),
        ([swap(1, 2, 0, 7, swapped=True), swap(3, 4, 0, 8, swapped=False), read(5, 6, 7)], True),
        ([swap(1, 4, 0, 7, swapped=True), swap(2, 3, 0, 8, swapped=True)], False),
        ([swap(1, None, 0, 7, swapped=None), read(2, 3, 7)], True),
        ([swap(1, None, 5, 7, swapped=None), read(2, 3, 7)], False),
        ([write(1, None, 7), swap(2, 3, 0, 8, swapped=False)], True),
    ],
)
def test_small_histories(history: Sequence[Operation], *, expected: bool) -> None:
    assert linearizable(history) is expected
    assert brute_force(history) is expected


def brute_force(history: Sequence[Operation]) -> bool:
    """Try every order, with every choice among the operations of unknown outcome."""
    known = [op for op in history if op.returned is not None]
    unknown = [op for op in history if op.returned is None]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            for order in itertools.permutations([*known, *chosen]):
                if fits(order):
                    return True
    return False


def fits(order: Sequence[Operation]) -> bool:
    held = 0
    for i, op in enumerate(order):
        if any(later.returned is not None and later.returned < op.called for later in order[i + 1 :]):
            return False
        after = outcome(op, held)
        if after is None:
            return False
        held = after
    return True


def made_up(rng: random.Random) -> list[Operation]:
    """Give a random history of up to six operations on one register; most histories are almost right."""
    moments = list(range(1, 13))
    rng.shuffle(moments)
    history = []
    for i in range(rng.randint(1, 6)):
        called, returned = sorted(moments[2 * i : 2 * i + 2])
        unknown = rng.random() < 0.25
        value = rng.randrange(3)
        match rng.randrange(3):
            case 0:
                history.append(read(called, returned, value))
            case 1:
                history.append(write(called, None if unknown else returned, value))
            case _:
                swapped = None if unknown else rng.random() < 0.5
                history.append(swap(called, None if unknown else returned, rng.randrange(3), value, swapped=swapped))
    return history


def test_random_histories_are_judged_as_by_brute_force() -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    answers = []
    for number in range(1_500):
        history = made_up(rng)
        answers.append(linearizable(history))
        assert answers[-1] is brute_force(history), f"seed {seed}, history {number}: {history}"
    assert 0.1 < sum(answers) / len(answers) < 0.9, f"seed {seed}: both answers come up"


def test_it_gives_up_rather_than_search_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizability, "MOST_STATES", 50)
    writes = [write(i, None, i) for i in range(1, 20)]
    with pytest.raises(Undecided):
        linearizable([*writes, *(read(20 + 2 * i, 21 + 2 * i, 1 + i % 19) for i in range(30))])


def test_a_long_history_is_quick() -> None:
    rng = random.Random(1)
    history, held, moment = [], 0, 0
    for number in range(1, 150):
        moment += 4
        if rng.random() < 0.5:
            held = number
            history.append(write(moment, moment + 1, number))
        else:
            history.append(read(moment, moment + 1, held))
    history += [write(4 * i + 2, None, 1_000 + i) for i in range(1, 30)]
    assert linearizable(history)
    assert not linearizable([*history, read(1_000, 1_001, 9_999)])
