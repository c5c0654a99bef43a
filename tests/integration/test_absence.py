"""A short run of a server that was away for long. `make absence` is the long one, which measures."""

from pathlib import Path

import pytest

from integration.absence import run


@pytest.mark.parametrize("log", ["short", "whole"])
async def test_a_server_that_was_away_catches_up(tmp_path: Path, log: str) -> None:
    figures = await run(
        tmp_path,
        kind="below",
        log=log,
        entries=2_000,
        rate=200,
        writers=1,
        seconds=0.5,
        rounds=1,
        snapshot_entries=500,
        most_slowed=1.0,
    )
    assert figures["wrong"] == []
    assert figures["rounds"][0]["missed entries"] >= 2_000
