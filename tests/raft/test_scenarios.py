"""The scenario files state the events; `pytest --rewrite tests/raft/test_scenarios.py` writes the files anew."""

from pathlib import Path

import pytest

from tests.raft.scenario import replay

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    now = replay(path)
    if request.config.getoption("--rewrite"):
        path.write_text(now)
    assert now == path.read_text(), "changed: review with --rewrite and git diff"


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 8
