"""Farms with incidents: histories like those of nodes, with labels that tell the truth."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gf_i2p.cli.main import main
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.synth.incident_kinds import FARM, KINDS, Kind, Stretch
from gf_i2p.pipeline.synth.labelled_farm import CLIMATES, LABELS, LEAST_DAYS, Climate, LabelledFarm
from gf_i2p.storage.history_lines import ApplicationLine, ConfigurationLine, Gap
from gf_i2p.storage.history_reader import read_history, summarize

TINY = Climate(servers=(1,), members=(0,), leaves=(1,))
BEGAN_MS = 1_735_689_600_000


def courses(farm: LabelledFarm) -> dict[str, Any]:
    """Return all that the farm's records tell, minute by minute."""
    told: dict[str, Any] = {}
    for poster in farm.posters:
        told |= {f"{poster.id} {name}": values for name, values in poster.router.items()}
        told |= {f"{poster.id} {name}": getattr(poster, name) for name in ("posts", "up", "clock_ms")}
        for leaf in poster.leaves:
            told |= {f"{poster.id} {leaf.hash!r} up": leaf.up, f"{poster.id} {leaf.hash!r} load": leaf.connections}
    return {name: np.array(values) for name, values in told.items()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_incident_changes_the_course_in_its_time_only(kind: Kind) -> None:
    farm = LabelledFarm(0, LEAST_DAYS, 3, Climate(restarts=0))
    before = courses(farm)
    first, last = 6_000, 6_000 + int(kind.hours[0] * 60)
    posters = farm.posters if kind.scope == FARM else farm.posters[:1]
    kind.change(posters, farm.posters[0].leaves[0], Stretch(np.random.default_rng(1), first, last, 1.0))
    changed = {name for name, values in courses(farm).items() if not np.array_equal(values, before[name])}
    assert changed
    assert {name.split()[0] for name in changed} == {str(each.id) for each in posters}
    for name in changed:
        minutes = np.flatnonzero(courses(farm)[name] != before[name])
        assert first <= minutes[0] <= minutes[-1] < last + 5, "the last short pause may end a little later"


def test_incidents_of_one_server_lie_apart() -> None:
    farm = LabelledFarm(3, 42, 1, CLIMATES["usual"])
    assert len(farm.labels) > 20
    for one in farm.labels:
        for other in farm.labels:
            if one is not other and (one.poster is other.poster or None in (one.poster, other.poster)):
                assert one.last < other.first or other.last < one.first


def test_the_same_seed_gives_the_same_farm_and_another_seed_another_one() -> None:
    once, again, other = (courses(LabelledFarm(1, LEAST_DAYS, seed, TINY)) for seed in (1, 1, 2))
    assert all(np.array_equal(values, again[name]) for name, values in once.items())
    assert not np.array_equal(once["1 jobLag"], other["1 jobLag"])


def test_the_command_writes_histories_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(CLIMATES, "other", TINY)
    arguments = ["pipeline", "synth", "--incidents", "other", "--farms", "1", "--days", str(LEAST_DAYS), "--json"]
    assert main([*arguments, str(tmp_path / "o"), "--seed", "4"]) == 0
    answer = json.loads(capsys.readouterr().out)
    directory = tmp_path / "o" / "farm-0" / "server-1"
    assert (summarize(directory).last, summarize(directory).gaps) == (answer["entries"], [])
    records: dict[int, list[int]] = {1: []}
    for line in read_history(directory):
        assert not isinstance(line, Gap)
        if isinstance(line, ApplicationLine):
            record = StatusRecord.parse(json.dumps(line.value).encode())
            assert abs(record.date_ms - line.received_ms) < HOUR_MS
            records[record.id].append(line.received_ms)
        else:
            assert isinstance(line, ConfigurationLine)
    labels = json.loads((tmp_path / "o" / LABELS).read_text())
    assert answer["incidents"] == len(labels) > 1
    for label in labels:
        assert BEGAN_MS < label["beginMs"] < label["endMs"] < BEGAN_MS + LEAST_DAYS * DAY_MS
        if label["kind"] == "silence":
            inside = (each for each in records[label["server"]] if label["beginMs"] + 9_999 < each < label["endMs"])
            assert not list(inside)
    assert main([*arguments, str(tmp_path / "o")]) != 0
    assert "exists already" in capsys.readouterr().out
    assert main([*arguments, str(tmp_path / "p"), "--days", "3"]) != 0
    assert f"need {LEAST_DAYS} days" in capsys.readouterr().out
