"""Alerts about servers and their farm: gf_i2p/pipeline/stream/alerts.py, fed by the tail of a history."""

from pathlib import Path

from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.pipeline.stream.alerts import BEGINS, AlertKey, AlertLimits, EventRow, FarmWatch, judge
from gf_i2p.pipeline.stream.tail import HistoryTail
from gf_i2p.storage.history_lines import record_line, servers_line
from tests.farm.strategies import NOW
from tests.pipeline.made_up_exports import content, plain
from tests.pipeline.stream.server_records import said


class Farm:
    """A farm's history, and the alerts that stand."""

    def __init__(self, root: Path) -> None:
        self._path = plain(root, content([]))
        self._tail = HistoryTail([str(root)])
        self._watch = FarmWatch()
        self._present: dict[AlertKey, int] = {}
        self._index = 0
        self.events: list[EventRow] = []

    def hears(self, *of_servers: list[tuple[int, StatusRecord]]) -> None:
        """Add the servers' records to the history, in the order of time."""
        for time, posted in sorted((each for server in of_servers for each in server), key=lambda each: each[0]):
            self._index += 1
            self._add(record_line(self._index, 1, NOW + time * 1000, posted.encode()))

    def belong(self, *servers: int) -> None:
        """Add a Configuration to the history."""
        self._index += 1
        self._add(servers_line(self._index, 1, NOW, servers, 1))

    def _add(self, line: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(line)

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
