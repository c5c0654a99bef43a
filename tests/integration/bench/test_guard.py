"""The arithmetic of the speed's guard, and its texts."""

import json

import pytest

from gf_i2p.farm.state import FarmState
from integration.bench import guard
from integration.bench.workloads import VALUE_BYTES, Sample

CORES = {"client": 0.5, "leader": 0.8, "followers": 0.6, "children": 0.3, "others": 0.1}


def costs(leader: float, follower: float = 1.0) -> guard.Costs:
    return {name: {"leader": leader, "follower": follower} for name in ("sequential", "concurrent", "bulk")}


def test_the_cost_of_an_entry_is_processor_time_in_beats() -> None:
    sample = Sample(seconds=2.0, entries=2000, latencies=[0.001], cpu=CORES)
    # 1,000 entries/s: the leader needs 800 us an entry, each follower 300, each history 100. A beat takes 100 us.
    found = guard.costs(sample, unit=100e-6)
    assert found == pytest.approx({"leader": 8.0, "follower": 3.0, "history": 1.0})


def test_a_cost_fails_from_a_quarter_more_on() -> None:
    kept = costs(4.0)
    assert guard.grown(costs(5.0), kept) == []
    assert guard.grown(costs(5.01), kept) == ["sequential", "concurrent", "bulk"]
    assert guard.grown(kept | {"bulk": {"leader": 4.0, "follower": 1.26}}, kept) == ["bulk"]
    history = {"bulk": {"history": 1.0}}
    assert guard.grown({"bulk": {"history": 2.0}}, history) == []
    assert guard.grown({"bulk": {"history": 2.1}}, history) == ["bulk"]


def test_of_several_tries_the_least_of_each_cost_counts() -> None:
    assert guard.cheapest([costs(5.0, 1.0), costs(4.0, 2.0)]) == costs(4.0, 1.0)


def test_the_values_are_json_of_one_size() -> None:
    values = guard.json_values()
    assert {len(value) for value in values} == {VALUE_BYTES}
    assert len({json.loads(value)["number"] for value in values}) == len(values)


def test_the_table_shows_each_ratio() -> None:
    found = {name: {"leader": 5.0} for name in ("sequential", "concurrent", "bulk")}
    kept = {name: {"leader": 4.0} for name in found}
    text = guard.table(found, kept)
    assert ["1", "sequential", "writer", "leader", "5.000", "4.000", "1.25"] in [
        line.split() for line in text.splitlines()
    ]


def test_the_cost_of_a_record_is_measured_on_the_code_that_applies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_RECORDS", 30)
    applied: list[bytes] = []
    apply = FarmState.apply

    def noted(state: FarmState, value: bytes, index: int) -> None:
        applied.append(value)
        apply(state, value, index)
        assert len(state.records) == min(index, 3), "each value is a record that counts"

    monkeypatch.setattr(FarmState, "apply", noted)
    assert guard.record_cost() > 0
    assert len(set(applied)) == 30
    assert "gf_i2p/farm/" in guard._profiled_records()
    kept = {"records": {"node": 1.0}}
    assert guard.grown({"records": {"node": 1.6}}, kept) == ["records"]
    assert "a server's record" in guard.table({"records": {"node": 1.1}}, kept)
