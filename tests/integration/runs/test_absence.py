"""A short run of a server that was away for a long time. `make absence` is the long run, with measurements."""

from pathlib import Path

import pytest

from integration.runs.absence import run


@pytest.mark.slow  # the simulator has absent servers, too
async def test_a_server_that_was_away_catches_up_by_snapshot_and_log(tmp_path: Path) -> None:
    figures = await run(
        tmp_path,
        kind="below",
        log="short",
        entries=2_000,
        rate=200,
        writers=1,
        seconds=0.1,
        rounds=1,
        snapshot_entries=500,
        most_slowed=1.0,
    )
    assert figures["wrong"] == []
    assert figures["rounds"][0]["missed entries"] >= 2_000
