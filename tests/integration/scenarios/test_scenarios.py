"""Scenarios that run once more after a failure on real routers: integration/scenarios/__main__.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.harness.pytest_outcomes import Outcome
from integration.scenarios import __main__ as scenarios
from integration.scenarios.__main__ import BOTH_KINDS, groups, main, network_options, run
from integration.testnet.java_build import JAVA_VARIABLE, JavaBuild
from integration.testnet.namespace import MissingError


class Pytest:
    """Fails the given tests, each so often; notes every test that ran."""

    def __init__(self, **fails: int) -> None:
        self._fails = fails
        self.ran: list[list[str]] = []

    async def __call__(self, _stack: Any, _directory: Path, group: Sequence[str], _began: float) -> Outcome:
        self.ran.append(list(group))
        failed = [each for each in group if self._fails.get(each, 0) > 0]
        for each in failed:
            self._fails[each] -= 1
        return Outcome(tuple(each for each in group if each not in failed), tuple(failed))


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "groups", lambda _arguments: [["a", "b"], ["c", "d"]])


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(
    ("fails", "again", "status", "last"),
    [
        ({}, [], 0, "scenarios: 4 passed, 0 failed"),
        ({"b": 1, "c": 1}, [["b"], ["c"]], 0, "PASSED ONLY WHEN IT RAN ONCE MORE: c"),
        ({"b": 1, "c": 2}, [["b"], ["c"]], 1, "PASSED ONLY WHEN IT RAN ONCE MORE: b"),
        ({"a": 1, "b": 1, "c": 1}, [], 1, "FAILED c"),
    ],
)
async def test_what_failed_runs_once_more_if_it_is_little(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    fails: dict[str, int],
    again: list[list[str]],
    status: int,
    last: str,
) -> None:
    fake = Pytest(**fails)
    monkeypatch.setattr(scenarios, "_outcome", fake)
    assert await run(tmp_path, []) == status
    assert fake.ran == [["a", "b"], ["c", "d"], *again]
    assert capsys.readouterr().out.strip().endswith(last)


@pytest.mark.usefixtures("parts")
async def test_a_network_that_does_not_come_up_is_one_failure_of_a_whole_group(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran: list[list[str]] = []

    async def outcome(_stack: Any, _directory: Path, group: Sequence[str], _began: float) -> Outcome:
        ran.append(list(group))
        return Outcome(tuple(group), ()) if len(ran) > 2 else Outcome((), tuple(group), ended=False)

    monkeypatch.setattr(scenarios, "_outcome", outcome)
    assert await run(tmp_path, []) == 0
    assert ran == [["a", "b"], ["c", "d"]] * 2
    assert "scenarios: 4 passed, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(("tier", "networks"), [("quick", 1), ("all", 3)])
def test_java_routers_come_with_a_build_only(monkeypatch: pytest.MonkeyPatch, tier: str, networks: int) -> None:
    monkeypatch.setenv("GF_I2P_TIER", tier)
    named = [["test_leaf_death.py::test_dead[java]"], ["test_leaf_death.py::test_dead[i2pd]"], ["a/test_java.py"]]
    monkeypatch.delenv(JAVA_VARIABLE, raising=False)
    without = groups([])
    assert not [each for each in without if "test_java.py" in " ".join(each)]
    assert [network_options(each) for each in named] == [[], [], []]
    monkeypatch.setenv(JAVA_VARIABLE, "somewhere")
    assert groups([])[: len(without)] == without
    assert [network_options(each) for each in groups([])[len(without) :]] == [list(BOTH_KINDS)] * networks
    assert [network_options(each) for each in named] == [list(BOTH_KINDS), [], list(BOTH_KINDS)]


def test_a_run_without_java_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def nothing(_directory: Path, _arguments: Sequence[str]) -> int:
        return 0

    monkeypatch.setattr(scenarios, "check_programs", lambda: None)
    monkeypatch.setattr(scenarios, "run", nothing)
    monkeypatch.setattr("sys.argv", ["scenarios"])
    monkeypatch.delenv(JAVA_VARIABLE, raising=False)
    assert main() == 0
    assert f"Scenarios with Java routers: SKIPPED. {JAVA_VARIABLE} is not set" in capsys.readouterr().out


def test_a_build_that_is_not_whole_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def missing() -> None:
        raise MissingError("no i2pd")

    monkeypatch.setattr(scenarios, "check_programs", lambda: None)
    monkeypatch.setattr(JavaBuild, "find", missing)
    monkeypatch.setenv(JAVA_VARIABLE, str(tmp_path))
    assert main() == 1
    assert "Scenarios with Java routers: no i2pd" in capsys.readouterr().out
