"""The tail of histories: what has come since the look before."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.stream.tail import Configuration, HistoryTail, Report
from gf_i2p.storage.history_lines import record_line, servers_line
from tests.farm.strategies import text
from tests.pipeline.made_up_exports import at, content, lines, packed, plain

DAY_ENTRIES = 86_400 // 5
"""Entries of a day in the made-up exports."""


def reports(tail: HistoryTail) -> list[int]:
    return sorted(each.index for each in tail.read() if isinstance(each, Report))


def add(path: Path, body: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(body))


def test_what_has_come_since_the_look_before(tmp_path: Path) -> None:
    path = plain(tmp_path / "one", content(lines(range(1, 4))))
    tail = HistoryTail([str(tmp_path)])
    assert reports(tail) == [1, 2, 3]
    assert tail.changed
    tail.changed = False
    assert reports(tail) == []
    assert not tail.changed
    *_, half = lines([5])
    add(path, [*lines([4]), half[:30]])
    assert reports(tail) == [4]
    add(path, [half[30:], servers_line(6, 1, at(6), (1, 2), 1)])
    assert [each.index for each in tail.read()] == [6, 5]
    plain(tmp_path / "two", content(lines([1, 2]), server=2))
    assert reports(tail) == [1, 2]


def test_fields_of_a_report(tmp_path: Path) -> None:
    plain(tmp_path, content([*lines([1]), servers_line(2, 1, at(2), (1, 2, 3), 1)]))
    report, configuration = sorted(HistoryTail([str(tmp_path)]).read(), key=lambda each: each.index)
    assert isinstance(report, Report)
    assert (report.farm, report.term, report.received_ms, report.server) == ("farm", 1, at(1) + 40, 2)
    assert (report.up, report.ahead_ms, report.would) == (True, -40, True)
    assert configuration == Configuration("farm", 2, 1, (1, 2, 3))


def test_a_file_that_turns_is_packed_or_is_cut_costs_no_report(tmp_path: Path) -> None:
    path = plain(tmp_path, content(lines(range(1, 4))))
    tail = HistoryTail([str(tmp_path)])
    assert reports(tail) == [1, 2, 3]
    path.unlink()
    packed(tmp_path, content(lines(range(1, 7)), last=6))
    path = plain(tmp_path, content(lines([7, 8]), first=7), first=7)
    assert {4, 5, 6, 7, 8} <= set(reports(tail))
    path.write_bytes(content(lines([7]), first=7))  # the node was killed, and has cut the end
    reports(tail)
    add(path, lines([8, 9]))
    assert reports(tail) == [8, 9]


def test_records_that_do_not_fit_and_files_that_are_no_histories_are_left_out(tmp_path: Path) -> None:
    plain(tmp_path / "none", b"hello\n")
    odd = [b"\xff\n", b"x" * (3 << 20) + b"\n", record_line(2, 1, at(2), text(date=at(2), cluster="other"))]
    plain(tmp_path / "odd", content([*lines([1]), *odd, *lines([3])]))
    assert reports(HistoryTail([str(tmp_path)])) == [1, 3]


def test_of_a_long_history_only_the_files_of_the_last_day_are_read(tmp_path: Path) -> None:
    for first in (1, 1 + DAY_ENTRIES, 1 + 2 * DAY_ENTRIES, 1 + 3 * DAY_ENTRIES):
        packed(tmp_path, content(lines(range(first, first + 2)), first=first, last=first + 1), first=first)
    tail = HistoryTail([str(tmp_path)])
    assert reports(tail) == [each + n * DAY_ENTRIES for n in (2, 3) for each in (1, 2)]
    assert reports(tail) == []


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nowhere: there is no such directory"):
        list(HistoryTail([str(tmp_path / "nowhere")]).read())


def test_an_export_that_is_away_for_a_moment_ends_nothing(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    path = plain(exports, content(lines([1])))
    tail = HistoryTail([str(exports)])
    assert reports(tail) == [1]
    exports.rename(tmp_path / "away")
    assert reports(tail) == []
    (tmp_path / "away").rename(exports)
    add(path, lines([2]))
    assert reports(tail) == [2]


def test_a_file_without_reports_does_not_hide_older_files_of_the_day(tmp_path: Path) -> None:
    packed(tmp_path, content(lines(range(1, 4)), last=3))
    packed(tmp_path, content([servers_line(4, 1, at(4), (1, 2), 1)], first=4, last=4), first=4)
    plain(tmp_path, content(lines([5, 6]), first=5), first=5)
    assert reports(HistoryTail([str(tmp_path)])) == [1, 2, 3, 5, 6]
