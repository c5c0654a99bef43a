"""The list of releases and the records of releases belong together."""

import tomllib
from typing import Any

from packaging.version import Version

from integration.harness.checkouts import ROOT
from integration.upgrades.record import CONTENTS, FILES
from integration.upgrades.releases import RELEASES

RECORDED = ROOT / "tests/upgrades/recorded"


def listed() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(RELEASES.read_text())["releases"]
    return found


def test_each_release_has_its_record_and_each_record_its_release() -> None:
    """A release runs `python -m integration.upgrades.record VERSION`, and adds its tag to the list."""
    expected = {each["version"] for each in listed() if each.get("recorded", True)}
    assert {folder.name for folder in RECORDED.iterdir()} == expected


def test_each_record_is_whole() -> None:
    for folder in RECORDED.iterdir():
        assert {file.name for file in folder.iterdir()} == {FILES, CONTENTS}, folder


def test_only_a_state_before_the_first_release_may_lack_its_record() -> None:
    assert [
        each for each in listed() if not each.get("recorded", True) and not Version(each["version"]).is_devrelease
    ] == []


def test_the_oldest_release_comes_first() -> None:
    versions = [Version(each["version"]) for each in listed()]
    assert versions == sorted(set(versions))
