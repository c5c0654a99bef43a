"""The benchmark's arithmetic and its table."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.bench.measures import FAILOVER
from integration.bench.profile import FunctionShare, fold
from integration.bench.report import (
    BenchFigures,
    Observations,
    Result,
    add_profile,
    align,
    document,
    figure_text,
    figures,
    median,
    percentile,
    report_table,
)
from integration.bench.workloads import BULK, CONCURRENT, SEQUENTIAL, Sample, Workload

MACHINE = {"cores": 2, "load": 0.25, "versions": {"farm": "gf-i2p 0.1.0", "etcd": "etcd 3.4"}}
SETTINGS = {"seconds": 5.0, "warmup": 1.0, "repeats": 3, "value_bytes": 1024}
CPU = {"client": 0.5, "leader": 1.0, "followers": 0.5, "children": 0.2, "others": 0.1}


def run(rate: float, p50: float = 1.0, *, moved: bool = False) -> BenchFigures:
    return BenchFigures(rate, p50, 3 * p50, 100, CPU, moved)


def result(workload: Workload, system: str, *repeats: BenchFigures, writers: int = 1) -> Result:
    return Result(workload, system, writers, list(repeats))


def test_percentile_is_the_nearest_rank() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert percentile(ordered, 0.50) == 50
    assert percentile(ordered, 0.99) == 99
    assert percentile(ordered, 1.0) == 100
    assert percentile([7.0], 0.5) == percentile([7.0], 0.99) == 7
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@given(st.lists(st.floats(0, 1e3), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_at_least_the_share_lies_at_or_below_a_percentile(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values)


def test_figures_of_a_run_count_entries_and_not_requests() -> None:
    one = figures(Sample(seconds=2.0, entries=400, latencies=[0.003, 0.001, 0.002, 0.9], cpu=CPU))
    assert (one.entries_per_second, one.p50_ms, one.p99_ms, one.requests) == (200, 2, 900, 4)


def test_each_figure_has_its_own_median() -> None:
    one = median([run(100, 3.0), run(300, 1.0, moved=True), run(200, 2.0)])
    assert (one.entries_per_second, one.p50_ms, one.leader_moved) == (200, 2.0, True)


@pytest.mark.parametrize(
    ("workload", "rival", "farm", "theirs", "met"),
    [
        (SEQUENTIAL, "etcd", run(1, p50=0.8), run(1, p50=1.0), True),
        (SEQUENTIAL, "etcd", run(1, p50=0.81), run(1, p50=1.0), False),
        (CONCURRENT, "etcd (C client)", run(7500), run(5000), True),
        (CONCURRENT, "etcd (C client)", run(7499), run(5000), False),
        (CONCURRENT, "PySyncObj (no fsync)", run(8000), run(10_000), True),
        (BULK, "etcd", run(36_000), run(24_000), True),
        (BULK, "ZooKeeper", run(10_000), run(24_000), False),
    ],
)
def test_goals_compare_the_farm_with_a_rival(
    workload: Workload, rival: str, farm: BenchFigures, theirs: BenchFigures, met: bool
) -> None:
    rows = [result(workload, "farm", farm), result(workload, rival, theirs)]
    rows.append(result(workload, "another client", run(1e9, p50=1e-3)))  # never compared with a goal
    report = document(rows, MACHINE, SETTINGS)
    assert [goal["met"] for goal in report["goals"]] == [met]
    assert ("MISSED" in report_table(report)) is not met


def test_goals_of_measures_compare_medians() -> None:
    observed = [
        Observations(FAILOVER, "farm", [0.3, 9.0, 0.4]),
        Observations(FAILOVER, "ZooKeeper", [0.7, 0.6, 1.5]),
        Observations(FAILOVER, "etcd", [1.1, 1.2]),
    ]
    report = document([], MACHINE, SETTINGS, observed)
    (goal,) = report["goals"]
    assert (goal["rival"], goal["ours"], goal["theirs"], goal["met"]) == ("ZooKeeper", 0.4, 0.7, True)
    words = report_table(report).split()
    assert words[words.index("0.40") :][:4] == ["0.40", "(0.30", "to", "9.00)"]
    assert json.loads(json.dumps(report)) == report


def full_report() -> dict[str, Any]:
    return document(
        [
            result(SEQUENTIAL, "farm", run(900, 1.10), run(880, 1.12), run(910, 1.08)),
            result(SEQUENTIAL, "etcd", run(980, 1.00), run(990, 0.99), run(970, 1.02)),
            result(CONCURRENT, "farm", run(5200, 12), run(5300, 11), run(5100, 13, moved=True), writers=64),
            result(CONCURRENT, "etcd", run(4900, 13), run(4800, 14), run(5000, 12), writers=64),
            result(CONCURRENT, "etcd (C client)", run(7400, 8), run(7500, 8), run(7300, 9), writers=64),
            result(BULK, "farm", run(20_000, 20), run(21_000, 19), run(19_000, 21), writers=8),
            result(BULK, "etcd", run(25_000, 16), run(24_000, 16), run(26_000, 15), writers=4),
        ],
        MACHINE,
        SETTINGS,
        limits={"fsync of 4 KiB, ms": 0.14},
    )


def test_the_table_as_a_whole() -> None:
    expected = """\
Three nodes each on loopback, one disk, values of 1,024 bytes, writers talk to the leader.
Medians of 3 repeats of 5.00 s, after 1.00 s of warm-up. The farm encrypts (TLS), the others do not.
Machine: 2 cores, load 0.25 before the start.
gf-i2p 0.1.0; etcd 3.4.

   farm   etcd  etcd (C client)
1 sequential writer   p50 ms   1.10   1.00   -
   p99 ms   3.30   3.00   -
   entries/s   900   980   -
64 sequential writers   p50 ms   12.0   13.0   8.00
   p99 ms   36.0   39.0   24.0
   entries/s 5,200   4,900   7,400

Goal  against  farm  rival  ratio  bound
1 sequential writer  p50 ms  etcd  1.10  1.00  1.10  at most 0.80  MISSED
64 sequential writers  entries/s  etcd (C client)  5,200  7,400  0.70  at least 1.50  MISSED

Limits of the machine, and our parts alone
fsync of 4 KiB, ms  0.14
"""
    text = report_table(full_report())
    for line in expected.splitlines():
        # The words in order; the widths belong to `align`, which has a separate test.
        assert line.split() in [one.split() for one in text.splitlines()]
    assert "requests of 100 entries, writers: farm 8, etcd 4" in text
    moved = [line.split() for line in text.splitlines() if line.endswith("moved")]
    assert moved == [["64", "sequential", "writers", "farm", "5,200", "5,300", "5,100", "moved"]]
    # 2.2 cores in all and 900 entries/s: 2,444 us of processor time for each.
    assert next(
        line.split()[-5:] for line in text.splitlines() if line.startswith("1 sequential writer") and "2,444" in line
    ) == ["1.00", "0.50", "0.20", "0.10", "2,444"]


def test_one_system_alone_has_neither_ratio_nor_goal() -> None:
    report = document([result(CONCURRENT, "etcd", run(4900, 13.0), writers=64)], MACHINE, SETTINGS)
    assert report["goals"] == []
    text = report_table(report)
    assert "Goal" not in text
    assert "4,900" in text
    assert "Each repeat" not in text


def test_a_repeat_that_failed_is_told() -> None:
    report = full_report()
    assert "failed" not in report_table(report)
    report["failures"] = ["ZooKeeper: a request was not answered"]
    assert "Repeats that failed:\nZooKeeper: a request was not answered" in report_table(report)


def test_columns_are_aligned() -> None:
    text = align([["name", "a", "bbb"], ["x", "1,000", "2"]], left=1)
    assert text == "name      a  bbb\nx     1,000    2"


def test_numbers_keep_the_digits_that_count() -> None:
    values = (None, 0.1375, 9.994, 10.04, 99.94, 100.4, 25_000.4)
    assert [figure_text(value) for value in values] == ["-", "0.14", "9.99", "10.0", "99.9", "100", "25,000"]


def test_folded_stacks_become_own_and_total_shares() -> None:
    rows, threads = fold(
        [
            "thread (17): MainThread;run (a.py:1);parse (b.py:9) 60",
            "thread (17): MainThread;run (a.py:1) 20",
            "thread (18): writer;loop (c.py:3);parse (b.py:9);loop (c.py:3) 20",
        ]
    )
    assert threads == {"MainThread": 0.8, "writer": 0.2}
    assert rows == [
        FunctionShare("parse (b.py:9)", 0.6, 0.8),
        FunctionShare("run (a.py:1)", 0.2, 0.8),
        FunctionShare("loop (c.py:3)", 0.2, 0.2),  # recursion counts once
    ]
    assert fold([]) == ([], {})


def test_a_profile_shows_its_top_fifteen_and_survives_json() -> None:
    report = full_report()
    rows = [FunctionShare(f"function_{rank} (module.py:{rank})", 0.05, 0.5) for rank in range(20)]
    add_profile(report, "py-spy", "build/bench-profile.txt", (rows, {"MainThread": 1.0}), rate=4000)
    assert json.loads(json.dumps(report)) == report
    text = report_table(report)
    assert "function_14 " in text
    assert "function_15 " not in text
    assert "4,000 entries/s meanwhile" in text
    assert "100.0% MainThread" in text
