"""The tier of tests that runs: the quick one by `make test`, all of it by `make test-all`."""

import os

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
