"""This version reads the files that each release has written: `integration/upgrades/record.py` records them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from integration.upgrades.contents import contents
from integration.upgrades.record import CONTENTS, RECORDED, as_text, unpack

RECORDS = sorted(path for path in (Path(__file__).parents[2] / RECORDED).iterdir() if path.is_dir())


def lacking(expected: Any, found: Any, place: str = "") -> list[str]:
    """Places where `found` differs from `expected`. Later versions may tell more: further keys are no difference."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            each
            for key, value in expected.items()
            for each in (lacking(value, found[key], f"{place}/{key}") if key in found else [f"{place}/{key} is gone"])
        ]
    return [] if expected == found else [f"{place}: {expected!r} became {found!r}"]


@pytest.mark.parametrize("recorded", RECORDS, ids=lambda path: path.name)
def test_the_files_of_each_release_have_their_contents(recorded: Path, tmp_path: Path) -> None:
    unpack(recorded, tmp_path)
    found = json.loads(as_text(contents(tmp_path)))
    assert not lacking(json.loads((recorded / CONTENTS).read_text()), found)


def test_a_record_has_a_log_a_foreign_entry_and_a_parameter_of_the_farm() -> None:
    assert RECORDS
    for recorded in RECORDS:
        expected = json.loads((recorded / CONTENTS).read_text())
        server = expected["servers"]["server-3"]
        assert len(server["log"]) > 10
        assert server["verified"]["raw"] == 1
        assert set(server["doctor"].values()) == {"ok"}
        assert server["parameters"]["margin"] == 60


@pytest.mark.parametrize("recorded", RECORDS, ids=lambda path: path.name)
def test_a_record_has_no_path_of_the_machine_that_made_it(recorded: Path, tmp_path: Path) -> None:
    unpack(recorded, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path.name for path in files if re.search(rb"/(?:tmp|home|root|Users)/", path.read_bytes())]


@pytest.mark.parametrize(
    ("expected", "found", "differences"),
    [
        ({"a": [1], "b": {"c": 2}}, {"a": [1], "b": {"c": 2, "new": 0}, "more": 1}, []),
        ({"a": [1]}, {"a": [1, 2]}, ["/a: [1] became [1, 2]"]),
        ({"b": {"c": 2}}, {"b": {}}, ["/b/c is gone"]),
        ({"b": {"c": 2}}, {"b": None}, ["/b: {'c': 2} became None"]),
    ],
)
def test_differences_are_found(expected: Any, found: Any, differences: list[str]) -> None:
    assert lacking(expected, found) == differences
