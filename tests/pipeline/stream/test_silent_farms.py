"""A silent farm makes one alert, also after a restart of the stream."""

from pathlib import Path
from threading import Event as Flag

import pytest
from pyspark.sql import SparkSession

from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream import job
from gf_i2p.pipeline.stream.alerts import BEGINS, AlertKey
from gf_i2p.pipeline.stream.job import Event, StreamFigures, StreamOptions, stream
from gf_i2p.pipeline.stream.silent_farms import ALERT, SilentFarms
from tests.pipeline.made_up_exports import BEAT_MS, at, content, lines, plain

pytestmark = pytest.mark.timeout(900)  # the first test waits for Spark to start

LIMIT_MS = 600_000
BEATS = LIMIT_MS // BEAT_MS


def test_it_is_told_once_and_ends_with_a_current_record(spark: SparkSession, tmp_path: Path) -> None:
    """One of two farms falls silent. Each look is that of a stream that was started anew."""
    heard: dict[str, int] = {}
    present: set[AlertKey] = set()

    def look(now_ms: int) -> list[tuple[str, str, str]]:
        farms = SilentFarms(spark, str(tmp_path), LIMIT_MS)
        for farm, at_ms in heard.items():
            farms.hear(farm, at_ms, now_ms)
        events = farms.look(present, now_ms)
        for each in events:
            (present.add if each.event == BEGINS else present.remove)((each.farm, each.server, each.alert))
        return [(each.farm, each.event, each.text) for each in events]

    silent, again = "nothing was heard of the whole farm for 609 s", "there are records of the farm again"
    heard |= {"farm": at(10) + 40, "lives": at(10) + 40}
    assert look(at(10 + BEATS)) == []  # at the limit
    heard["lives"] = at(12)
    assert look(at(12 + BEATS)) == [("farm", "begins", silent)]
    assert look(at(12 + BEATS)) == []
    heard["farm"] = at(11)
    assert look(at(12 + BEATS)) == []  # the farm was heard, but too long ago
    heard |= {"farm": at(101), "lives": at(102)}
    assert look(at(102)) == [("farm", "ends", again)]
    assert look(at(102)) == []
    assert [each[:2] for each in look(at(103 + BEATS))] == [("farm", "begins"), ("lives", "begins")]
    del heard["farm"]  # its histories are no longer among the exports
    assert look(at(103 + BEATS)) == []


def test_a_history_that_was_never_current_raises_nothing(spark: SparkSession, tmp_path: Path) -> None:
    farms = SilentFarms(spark, str(tmp_path), LIMIT_MS)
    farms.hear("farm", at(10), at(12 + BEATS))
    assert farms.look((), at(12 + BEATS)) == []
    assert not (tmp_path / "watched").exists()


def test_a_clock_that_is_ahead_does_not_hide_it(spark: SparkSession, tmp_path: Path) -> None:
    farms = SilentFarms(spark, str(tmp_path), LIMIT_MS)
    farms.hear("farm", at(10) + 24 * 3_600_000, at(10))
    assert farms.look((), at(10)) == []
    assert [each.event for each in farms.look((), at(11 + BEATS))] == ["begins"]


@pytest.mark.slow  # a stream
def test_it_is_noticed_while_no_batch_comes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the stream runs, a farm falls silent and later posts again. The next batch for the tables is far away."""
    monkeypatch.setattr(job, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(job, "refresh_days", lambda *_: None)
    exports = tmp_path / "exports"
    body = lines(range(1, 11))
    plain(exports, content(body))
    now_ms, stop = at(10), Flag()
    told: list[tuple[str, str]] = []

    def run(options: StreamOptions) -> StreamFigures:
        lake = Lake(str(tmp_path / "lake"))
        return stream(spark, lake, [str(exports)], options, on_event=hear, stop=stop, clock_ms=lambda: now_ms)

    def hear(event: Event) -> None:
        if event.alert == ALERT:
            told.append((event.farm, event.event))
        if told == [("farm", "begins")]:
            plain(exports, content([*body, *lines(range(999, 1001))]))
        elif len(told) == 2:
            stop.set()

    run(StreamOptions(once=True))
    assert told == []
    now_ms = at(1000)
    run(StreamOptions())
    assert told == [("farm", "begins"), ("farm", "ends")]
