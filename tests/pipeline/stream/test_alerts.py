"""Alerts about servers and their farm: gf_i2p/pipeline/stream/alerts.py, fed by the tail of a history."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.pipeline.stream.alerts import BEGINS, AlertChange, AlertKey, AlertLimits, FarmWatch, judge
from gf_i2p.pipeline.stream.tail import HistoryTail, Report
from gf_i2p.storage.history_lines import gap_line, record_line, servers_line
from tests.farm.strategies import NOW
from tests.pipeline.made_up_exports import content, plain
from tests.pipeline.stream.server_records import said


class Farm:
    """A farm's history, and the alerts that stand."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = plain(root, content([]))
        self._tail = HistoryTail([str(root)])
        self._watch = FarmWatch()
        self._present: dict[AlertKey, int] = {}
        self._index = 0
        self.events: list[AlertChange] = []

    def hears(self, *of_servers: list[tuple[int, StatusRecord]]) -> None:
        """Add the servers' records to the history, in the order of time."""
        for time, posted in sorted((each for server in of_servers for each in server), key=lambda each: each[0]):
            self._index += 1
            self._add(record_line(self._index, 1, NOW + time * 1000, posted.encode()))

    def belong(self, *servers: int) -> None:
        """Add a Configuration to the history."""
        self._index += 1
        self._add(servers_line(self._index, 1, NOW, servers, 1))

    def skip(self, count: int, *servers: int) -> None:
        """Add a gap, behind which the farm has these servers."""
        self._add(gap_line(self._index + 1, self._index + count, servers))
        self._index += count

    def _add(self, line: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(line)

    def restart(self) -> None:
        """Go on as a stream that is started anew does: with the alerts that stand."""
        self._tail, self._watch = HistoryTail([str(self._root)]), FarmWatch()

    def judged(self) -> set[tuple[int | None, str, str]]:
        """Judge the farm; return server, alert and event of what begins and ends."""
        for news in self._tail.read():
            self._watch.add(news)
        events = judge("farm", self._watch, AlertLimits(), self._present)
        for each in events:
            key = each.farm, each.server, each.alert
            if each.event == BEGINS:
                self._present[key] = each.at_ms
            else:
                del self._present[key]
        self.events += events
        return {(each.server, each.alert, each.event) for each in events}


def test_alerts_begin_and_end_once(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
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
    assert [each.text for each in farm.events if each.alert == "silent"] == [
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
    at_ms = [each.at_ms for each in farm.events]
    assert len(at_ms) == 8
    assert at_ms == sorted(at_ms)
    assert at_ms[-1] == NOW + 3_182_000


def test_alerts_of_a_server_end_when_the_server_leaves_the_farm(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
    farm.belong(1, 2)
    farm.hears(said(1, range(0, 3600, 30), publishing=True), said(2, range(3, 1800, 30)))
    assert farm.judged() == {(2, "silent", "begins"), (2, "availability", "begins")}
    farm.belong(1)
    farm.hears(said(1, range(3600, 3660, 30), publishing=True))
    assert farm.judged() == {(2, "silent", "ends"), (2, "availability", "ends")}
    assert {each.text for each in farm.events[-2:]} == {"server 2 belongs to the farm no more"}


def test_a_record_counts_once_in_the_histories_of_several_servers(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
    farm.hears([each for time in range(0, 3600, 30) for each in said(1, [time], publishing=True, up=time < 2400)])
    (tmp_path / "copy").mkdir()
    plain(tmp_path / "copy", next(tmp_path.glob("entries-*")).read_bytes())
    assert farm.judged() == {(1, "availability", "begins")}, "one change between up and down, and not three"


def test_alerts_of_a_server_that_was_silent_for_a_day_end_when_the_server_has_left(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
    farm.belong(1, 2)
    farm.hears(said(1, range(0, 3600, 30), publishing=True), said(2, range(3, 300, 30)))
    assert {each[:2] for each in farm.judged()} == {(2, "silent"), (2, "availability")}
    farm.hears(said(1, range(3600, 100_000, 60), publishing=True))
    assert farm.judged() == set(), "the server is forgotten, and still belongs to the farm"
    farm.belong(1)
    farm.restart()
    assert farm.judged() == {(2, "silent", "ends"), (2, "availability", "ends")}
    assert {each.text for each in farm.events[-2:]} == {"server 2 belongs to the farm no more"}


def test_alerts_of_a_leaf_member_end_when_it_was_not_heard_for_a_day(tmp_path: Path) -> None:
    farm, member = Farm(tmp_path), 1 << 31
    farm.hears(said(1, range(0, 3600, 30), publishing=True), said(member, range(3, 300, 30)))
    assert {each[:2] for each in farm.judged()} == {(member, "silent"), (member, "availability")}
    farm.hears(said(1, range(3600, 100_000, 60), publishing=True))
    assert farm.judged() == {(member, "silent", "ends"), (member, "availability", "ends")}
    assert farm.events[-1].text == f"member {member} was not heard for a day"


@pytest.mark.parametrize("order", ["late first", "late last"])
def test_an_exporter_that_was_away_makes_no_alert(tmp_path: Path, order: str) -> None:
    """The exporter has applied all entries of three hours in one second."""
    records = [each for time in range(0, 10_800, 30) for each in said(1, [time], publishing=True)]
    records += [each for time in range(5, 10_800, 30) for each in said(2, [time])]
    records.sort(key=lambda each: each[0])

    def lines(received_ms: Callable[[int], int]) -> list[bytes]:
        return [
            record_line(index, 1, received_ms(time), posted.encode()) for index, (time, posted) in enumerate(records, 1)
        ]

    timely, late = ("b", "a") if order == "late first" else ("a", "b")
    plain(tmp_path / timely, content(lines(lambda time: NOW + time * 1000 + 40)))
    plain(tmp_path / late, content(lines(lambda time: NOW + 10_800_000 + time // 30), server=2))
    watch = FarmWatch()
    for news in HistoryTail([str(tmp_path)]).read():
        watch.add(news)
    assert judge("farm", watch, AlertLimits(), {}) == []
    assert watch.at_ms == NOW + 10_775_000 + 40


def test_the_servers_behind_a_gap_count(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
    farm.belong(1, 2)
    farm.hears(said(1, range(0, 3600, 30), publishing=True), said(2, range(3, 300, 30)))
    assert len(farm.judged()) == 2
    farm.skip(50, 1)
    farm.hears(said(1, range(3600, 3660, 30), publishing=True))
    assert farm.judged() == {(2, "silent", "ends"), (2, "availability", "ends")}


def test_of_two_copies_of_an_entry_that_name_different_servers_the_nearer_one_counts() -> None:
    watch = FarmWatch()
    for server, ahead_ms in ((1, 9_000), (2, -500)):
        watch.add(Report("farm", 7, 1, NOW, server, True, ahead_ms, False, False))
    assert [each.server for each in watch.servers(AlertLimits())] == [2]
