"""A short run of the crash test: three processes, kill -9 under load. `make soak` is the long run."""

import random
from pathlib import Path

import pytest

from integration.runs.crash import run


@pytest.mark.slow  # test_torture.py kills processes, too
async def test_nothing_acknowledged_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    figures = await run(tmp_path, entries=600, kills=4, clients=8, seed=seed)
    assert figures["wrong"] == [], f"seed {seed}"
    assert figures["acknowledged"] == 600
