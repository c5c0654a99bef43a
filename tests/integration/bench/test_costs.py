"""The arithmetic of an entry's cost, and the values that the loads post."""

import json

import pytest

from gf_i2p.farm.state import FarmState
from integration.bench import costs
from integration.bench.workloads import VALUE_BYTES, Sample

CORES = {"client": 0.5, "leader": 0.8, "followers": 0.6, "children": 0.3, "others": 0.1}


def test_the_cost_of_an_entry_is_processor_time_in_beats() -> None:
    sample = Sample(seconds=2.0, entries=2000, latencies=[0.001], cpu=CORES)
    # 1,000 entries/s: the leader needs 800 us an entry, each follower 300, each history 100. A beat takes 100 us.
    found = costs.costs(sample, unit=100e-6)
    assert found == pytest.approx({"leader": 8.0, "follower": 3.0, "history": 1.0})


def test_the_values_are_json_of_one_size() -> None:
    values = costs.json_values()
    assert {len(value) for value in values} == {VALUE_BYTES}
    assert len({json.loads(value)["number"] for value in values}) == len(values)


def test_the_cost_of_a_record_is_measured_on_the_code_that_applies_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_RECORDS", 30)
    applied: list[bytes] = []
    apply = FarmState.apply

    def noted(state: FarmState, value: bytes, index: int) -> None:
        applied.append(value)
        apply(state, value, index)
        assert len(state.records) == min(index, 3), "each value is a record that counts"

    monkeypatch.setattr(FarmState, "apply", noted)
    assert costs.record_cost() > 0
    assert len(set(applied)) == 30
