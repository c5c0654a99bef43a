"""Alerts about servers and their farm: gf_i2p/pipeline/stream/alerts.py."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream.alerts import EVENTS, AlertLimits, note_alerts
from tests.farm.strategies import NOW
from tests.pipeline.entry_rows import Row, entries
from tests.pipeline.stream.server_records import said

pytestmark = pytest.mark.timeout(900)  # the first test waits for Spark to start


class Farm:
    """A farm's entries, and a lake with the alerts."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        self._rows: list[Row] = []

    def hears(self, *of_servers: list[tuple[int, StatusRecord]]) -> None:
        """Add the servers' records, in the order of time."""
        for time, posted in sorted((each for server in of_servers for each in server), key=lambda each: each[0]):
            self._rows.append(Row(index=len(self._rows) + 1, record=posted, received_ms=NOW + time * 1000))

    def judged(self) -> set[tuple[int | None, str, str]]:
        """Judge the farm; return server, alert and event of what begins and ends."""
        before = len(self.events())
        count = note_alerts(self._spark, self._lake, entries(self._spark, self._rows), AlertLimits())
        events = self.events()[before:]
        assert count == len(events)
        return {each[:3] for each in events}

    def events(self) -> list[tuple[int | None, str, str, int, str]]:
        """Return all events: server, alert, event, time and text."""
        rows = tables.read_columns(self._spark, self._lake, "alerts", EVENTS).orderBy("noticed_ms", "at_ms").collect()
        return [(row["server"], row["alert"], row["event"], row["at_ms"], row["text"]) for row in rows]


def test_alerts_begin_and_end_once(spark: SparkSession, tmp_path: Path) -> None:
    farm = Farm(spark, Lake(str(tmp_path)))
    farm.hears(
        said(1, range(0, 1800, 30), publishing=True),
        *(said(server, range(3 * server, 1800, 30)) for server in (2, 3, 4)),
    )
    assert farm.judged() == set()
    farm.hears(
        said(1, range(1800, 2200, 30), publishing=True),
        said(2, range(1806, 2200, 30), skew=-40),
        said(4, range(1812, 2200, 30)),
    )
    assert farm.judged() == {(3, "silent", "begins"), (3, "availability", "begins"), (2, "skew", "begins")}
    assert [text for _, alert, _, _, text in farm.events() if alert == "silent"] == [
        "server 3 was last heard 417 s before the farm's newest entry"
    ]
    farm.hears(said(1, range(2200, 2300, 30), publishing=True), said(4, range(2202, 2300, 30)))
    assert farm.judged() == set()
    farm.hears(*(said(server, range(2300 + 3 * server, 2900, 30)) for server in (1, 2, 4)))
    assert farm.judged() == {(2, "skew", "ends"), (None, "publisher", "begins")}
    farm.hears(
        said(1, range(2900, 3200, 30), publishing=True),
        *(said(server, range(2900 + 3 * server, 3200, 30)) for server in (2, 4)),
        [each for time in range(2909, 3200, 30) for each in said(3, [time], up=time % 60 < 30)],
    )
    assert farm.judged() == {(3, "silent", "ends"), (None, "publisher", "ends"), (3, "flapping", "begins")}
    assert farm.judged() == set()
    events = farm.events()
    assert len(events) == 8
    at_ms = [each[3] for each in events]
    assert at_ms == sorted(at_ms)
    assert at_ms[-1] == NOW + 3_182_000
