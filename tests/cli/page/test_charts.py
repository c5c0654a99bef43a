"""The charts of a server's page."""

from collections.abc import Sequence

from gf_i2p.cli.page.charts import HEIGHT, WIDTH, Chart, charts
from gf_i2p.cli.page.words import words_in
from gf_i2p.farm.record_series import Sample

START = 1_790_000_000_000
MINUTE = 60_000


def sample(minute: int, **values: float | None) -> Sample:
    none = dict.fromkeys(Sample._fields)
    return Sample(**{**none, "date_ms": START + minute * MINUTE, **values})  # type: ignore[arg-type]


def charts_of(rows: Sequence[Sample]) -> list[Chart]:
    return charts(Sample._fields, rows, words_in("en"))


def test_a_line_goes_from_the_first_to_the_last_sample() -> None:
    (chart,) = charts_of([sample(minute, tunnels=minute) for minute in range(5)])
    assert chart.title == "Participating tunnels"
    ((name, (points,)),) = chart.lines
    assert name == "tunnels"
    assert points.split() == [f"{WIDTH * n / 4:.1f},{HEIGHT * (4 - n) / 4:.1f}" for n in range(5)]
    assert (chart.bottom, chart.top) == ("0", "4")
    assert chart.summary == "Participating tunnels: tunnels from 0 to 4, now 4"


def test_a_line_breaks_where_the_server_was_silent_or_did_not_know() -> None:
    rows = [sample(minute, tunnels=3) for minute in (*range(5), *range(30, 35))]
    rows[2] = sample(2)
    (chart,) = charts_of(rows)
    ((_, parts),) = chart.lines
    assert [len(part.split()) for part in parts] == [2, 2, 5]


def test_two_lines_share_a_scale() -> None:
    (chart,) = charts_of([sample(n, inbound=1024.0 * n, outbound=10_240.0) for n in range(3)])
    assert [name for name, _ in chart.lines] == ["inbound", "outbound"]
    assert (chart.top, chart.bottom) == ("10 KiB/s", "0 KiB/s")
    assert "inbound from 0 KiB/s to 2 KiB/s, now 2 KiB/s; outbound from 10 KiB/s" in chart.summary


def test_a_clock_that_is_late_lies_below_the_axis() -> None:
    (chart,) = charts_of([sample(0, clock_ms=-1500), sample(1, clock_ms=500)])
    assert (chart.top, chart.bottom) == ("0.5 s", "-1.5 s")


def test_one_sample_and_none_can_be_drawn() -> None:
    assert charts_of([]) == []
    assert charts_of([sample(0)]) == []
    (chart,) = charts_of([sample(0, tunnels=0)])
    ((_, (points,)),) = chart.lines
    assert len(points.split()) == 2, "a line of one point is drawn as a dot"
    (strange,) = charts_of([sample(0, tunnels=1)._replace(date_ms=1 << 60)])
    assert strange.begin.endswith(" ms")
