"""The tier of tests that runs: the quick one by `make test`, all of it by `make test-all`."""

import os
import random
from collections.abc import Iterable
from typing import Any

import pytest

_QUICK_SHARE = 4


def is_everything() -> bool:
    """Return whether `make test-all` runs, which takes the time to look closer."""
    return os.environ.get("GF_I2P_TIER") == "all"


def is_everything_wanted(config: pytest.Config) -> bool:
    """Return whether the slow tests and both event loops are wanted: also of a test that is named (`FILE::TEST`)."""
    return is_everything() or any("::" in each for each in config.args)


def examples(everything: int) -> int:
    """Return how many examples of a property are tried; `everything`: how many `make test-all` tries."""
    return everything if is_everything() else max(everything // _QUICK_SHARE, 1)


def mostly_slow(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Return the values of a parameter. The values outside `quick` are left to `make test-all`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def some_of(count: int, share: int) -> range:
    """Return the numbers 1 to `count`; in `make test` one in `share` of these. The first one is random and printed."""
    if is_everything():
        return range(1, count + 1)
    first = random.randint(1, share)
    print(f"every {share}th number from {first} to {count}")
    return range(first, count + 1, share)
