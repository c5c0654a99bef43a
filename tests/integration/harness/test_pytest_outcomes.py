"""Outcomes of tests that ran in a separate process: integration/harness/pytest_outcomes.py."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.harness.pytest_outcomes import OUTCOMES_VARIABLE, PYTEST_OPTIONS, Outcome, read_outcome, summary

TESTS = """
import pytest

@pytest.fixture
def broken():
    raise OSError

def test_good(): pass
def test_bad(): assert False
def test_without(broken): pass
@pytest.fixture(scope="session")
def network():
    pytest.exit("no network", returncode=1)
def test_last(network): pass
"""


def run(directory: Path, *chosen: str) -> Outcome:
    """Run some of these tests in a separate process."""
    file, told = directory / "test_some.py", directory / "told.json"
    file.write_text(TESTS)
    group = [f"test_some.py::{each}" for each in chosen]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir=.", "-c", os.devnull, *PYTEST_OPTIONS, *group]
    environment = {**os.environ, OUTCOMES_VARIABLE: str(told), "PYTHONPATH": str(Path(__file__).parents[3])}
    status = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    return read_outcome(told, status, group)


def test_pytest_writes_what_became_of_each(tmp_path: Path) -> None:
    found = run(tmp_path, "test_good", "test_bad", "test_without")
    assert found == Outcome(("test_some.py::test_good",), ("test_some.py::test_bad", "test_some.py::test_without"))
    assert found.again == [("test_some.py::test_bad",), ("test_some.py::test_without",)]


def test_without_a_network_all_have_failed_together(tmp_path: Path) -> None:
    found = run(tmp_path, "test_good", "test_last")
    assert found == Outcome((), ("test_some.py::test_good", "test_some.py::test_last"), ended=False)
    assert found.again == [("test_some.py::test_good", "test_some.py::test_last")]


def test_the_last_lines_name_what_failed_and_what_ran_once_more() -> None:
    assert summary("tests", 12.34, 3, ["c"], ["b", "c"]).splitlines() == [
        "  12.3 s  tests: 3 passed, 1 failed",
        "FAILED c",
        "PASSED ONLY WHEN IT RAN ONCE MORE: b",
    ]


@pytest.mark.parametrize(
    ("told", "status", "expected"),
    [
        ({"passed": ["f::x", "f::y"], "failed": []}, 0, Outcome(("f::x", "f::y"), ())),
        ({"passed": ["f::x"], "failed": ["f::y"]}, 1, Outcome(("f::x",), ("f::y",))),
        ({"passed": ["f::x"], "failed": []}, 1, Outcome((), ("f",), ended=False)),
        ({"passed": [], "failed": []}, 0, Outcome((), ())),
        (None, 1, Outcome((), ("f",), ended=False)),
        (None, 0, Outcome((), ("f",), ended=False)),
    ],
    ids=["passed", "failed", "ended badly", "all skipped", "no network", "pytest never ran"],
)
def test_a_group_that_did_not_get_to_its_end_failed(tmp_path: Path, told: Any, status: int, expected: Outcome) -> None:
    file = tmp_path / "told.json"
    if told is not None:
        file.write_text(json.dumps(told))
    assert read_outcome(file, status, ["f"]) == expected
