"""The upgrade run: its list of releases, and the whole run from the newest of them."""

import os
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from integration.harness.checkouts import ROOT
from integration.harness.local_farm import LocalFarm
from integration.upgrades import releases as releases_module
from integration.upgrades.__main__ import run
from integration.upgrades.record import CONTENTS, FILES, RECORDED
from integration.upgrades.releases import Release, ReleaseMissingError, environment, releases

MAX_RECORD_BYTES = 40_000


def test_the_releases_are_in_order() -> None:
    versions = [release.version for release in releases()]
    assert versions
    assert sorted(set(versions), key=Version) == versions


def test_an_interpreter_of_a_release_finds_no_module_of_this_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert "PYTHONPATH" not in environment()
    assert environment()["PYTHONSAFEPATH"] == "1"
    assert environment()["PATH"] == os.environ["PATH"]


def test_a_commit_that_is_not_here_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases_module, "PLACE", tmp_path)
    with pytest.raises(ReleaseMissingError, match=r"^9\.9: .*git fetch --unshallow --tags"):
        Release("9.9", "0" * 40).install()


def test_a_server_runs_the_interpreter_that_the_farm_has_for_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$*" "$MARK" >{told}\n')
    python.chmod(0o755)
    with LocalFarm(tmp_path / "farm", servers=1) as farm:
        farm.pythons[1] = (python, {"MARK": "marked", "PATH": os.environ["PATH"]})
        farm.start(1)
        farm._processes[1].wait(timeout=60)
    assert told.read_text().split()[-3:] == ["run", str(farm.node(1)), "marked"]
    assert sys.executable not in told.read_text()


def test_a_record_is_small() -> None:
    for recorded in (ROOT / RECORDED).iterdir():
        assert {path.name for path in recorded.iterdir()} == {FILES, CONTENTS}
        assert sum(path.stat().st_size for path in recorded.iterdir()) < MAX_RECORD_BYTES, recorded


@pytest.mark.timeout(1800)
@pytest.mark.slow  # installs a release, and upgrades a farm of three nodes for a minute
async def test_a_farm_of_the_newest_release_is_upgraded_without_a_loss(tmp_path: Path) -> None:
    figures = await run(tmp_path, releases()[-1], clients=2, seconds=0.5)
    assert figures["wrong"] == []
    assert figures["lost"] == 0
    assert figures["rollback"] in {"works", "refused, with the reason"}
    assert {step["to"] for step in figures["steps"]} == {"this version", releases()[-1].version}
