"""The tier of tests that runs: the quick one by `make test`, all of it by `make test-all`."""

import os

_QUICK_SHARE = 4


def is_everything() -> bool:
    """Return whether `make test-all` runs, which takes the time to look closer."""
    return os.environ.get("GF_I2P_TIER") == "all"


def examples(everything: int) -> int:
    """Return how many examples of a property are tried; `everything`: how many `make test-all` tries."""
    return everything if is_everything() else max(everything // _QUICK_SHARE, 1)
