"""A short run of a farm that grows and shrinks. `make growth` is the long run."""

from pathlib import Path

import pytest

from integration.runs.growth import run


@pytest.mark.slow  # servers join and leave in tests/node/membership, in one process
async def test_a_farm_grows_and_shrinks_while_clients_post(tmp_path: Path) -> None:
    figures = await run(tmp_path, most=4, left=3, clients=2, seconds=0.1)
    assert figures["wrong"] == []
    assert figures["acknowledged"] > 0
    assert figures["leaders_removed"] == 1
    assert [history["server"] for history in figures["histories_that_stay"]] == [2, 3, 4]
