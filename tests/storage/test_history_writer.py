"""The history's files: contents, rotation, removal, and refusals."""

import gzip
import json
import os
import shutil
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from gf_i2p.storage import history_writer as writer_module
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_lines import ApplicationLine, ConfigurationLine, Gap
from gf_i2p.storage.history_reader import HistoryError, history_files, read_history, summarize
from gf_i2p.storage.history_writer import Rotation, check_owner
from gf_i2p.wire.entries import Entry, ValueType
from tests.storage.exported_log import (
    Clock,
    configuration,
    entries,
    expected,
    export,
    found,
    open_history,
    plain,
    rotate,
    zstd,
)

FIRST = "entries-00000000000000000001.jsonl"
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "history"


def unpacked(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def application(value: bytes) -> Entry:
    return Entry(3, ValueType.APPLICATION, value)


def test_the_file_as_it_is_documented(directory: Path) -> None:
    clock = Clock()
    with closing(open_history(directory, clock=clock)) as history:
        clock.now += 123
        servers = Entry(3, ValueType.CONFIGURATION, configuration(1, 7, 1, 2))
        history.append([servers, application(b'{ "b": 1 }'), application(b"\xff")], (3, 2))
        history.append([Entry(3, ValueType.CLUSTER_SERVER, b"x")] * 2)
        history.gap(900, [7, 1])
        assert history.durable_index == 900
    assert names(directory) == [FIRST]
    assert (directory / FIRST).read_text() == (
        '{"cluster":"farm","first":1,"format":2,"opened":1790000000000,"server":7}\n'
        ' {"index":1,"leader":2,"received":1790000000123,"servers":[7,1,2],"term":3}\n'
        '{"index":2,"received":1790000000123,"record":{"b":1},"term":3}\n'
        '{"base64":"/w==","index":3,"received":1790000000123,"term":3}\n'
        ' {"other":[4,5]}\n'
        ' {"gap":[6,900],"servers":[7,1]}\n'
    )
    assert list(read_history(directory)) == [
        ConfigurationLine(1, 3, 1790000000123, (7, 1, 2), 2),
        ApplicationLine(2, 3, 1790000000123, {"b": 1}),
        ApplicationLine(3, 3, 1790000000123, None, b"\xff"),
        Gap(6, 900, servers=(7, 1)),
    ]


def test_a_leader_is_noted_for_its_own_term_only(directory: Path) -> None:
    with closing(open_history(directory)) as history:
        entries = [Entry(term, ValueType.CONFIGURATION, configuration(1, 1)) for term in (3, 4, 5)]
        history.append(entries, (4, 2))
        history.append(entries[2:], None)
        history.append([Entry(5, ValueType.CONFIGURATION, b"none that can be read"), application(b"1")], (5, 2))
    assert [line.leader for line in read_history(directory) if isinstance(line, ConfigurationLine)] == [
        None,
        2,
        None,
        None,
    ]
    assert (summarize(directory).others, summarize(directory).last) == (1, 6)


def test_lines_that_are_only_configurations_make_batches_too(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gf_i2p.storage.history_writer.BATCH_BYTES", 300)
    with closing(open_history(directory)) as history:
        history.append([Entry(3, ValueType.CONFIGURATION, configuration(1, 1, 2))] * 20)
    lines = (directory / FIRST).read_bytes().splitlines()
    assert 3 < sum(line.startswith(b" ") for line in lines) < 10


def test_it_goes_on_where_it_was(directory: Path) -> None:
    for last in (1, 2, 17, 17, 100):
        with closing(open_history(directory)) as history:
            export(history, last)
        with closing(open_history(directory)) as history:
            assert history.durable_index == last
            assert history.cut_bytes == 0
    assert found(directory) == expected(100)


def test_what_was_torn_is_gone_before_anything_follows(directory: Path) -> None:
    with closing(open_history(directory)) as history:
        history.append(entries(1, 9))
    with (directory / FIRST).open("ab") as file:
        file.write(b' {"index":10,"received":1,"record":"' + b"x" * 5000)
    with closing(open_history(directory, rotation=Rotation(bytes=1))) as history:
        assert history.cut_bytes > 5000
        rotate(history)
    assert names(directory) == [FIRST + ".zst", "entries-00000000000000000010.jsonl"]
    assert found(directory) == expected(9)


def test_a_page_of_more_than_one_batch_is_whole(directory: Path) -> None:
    values = [json.dumps("x" * 900_000).encode()] * 7
    with closing(open_history(directory)) as history:
        history.append([*map(application, values), Entry(3, ValueType.CONFIGURATION, b"")])
        assert history.durable_index == 8
    assert [record.index for record in read_history(directory) if isinstance(record, ApplicationLine)] == list(
        range(1, 8)
    )
    assert (directory / FIRST).read_bytes().count(b"\n ") == 3, "no more than 2 MiB and a line without a sync"


def test_nobody_else_can_read_it(directory: Path) -> None:
    old = os.umask(0)
    try:
        with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
            export(history, 60)
    finally:
        os.umask(old)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(names(directory)) > 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_directory_that_the_operator_has_opened_stays_so(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o750)
    open_history(directory).close()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o750


def test_a_large_file_is_packed_and_the_next_begins(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 200)
    *packed, present = names(directory)
    assert all(name.endswith(".jsonl.zst") for name in packed)
    assert present.endswith(".jsonl")
    last = 0
    for name in packed:
        lines = unpacked((directory / name).read_bytes()).splitlines()
        assert json.loads(lines[0])["first"] == int(name[8:28]) == last + 1
        last = json.loads(lines[-1])["last"]
    assert int(present[8:28]) == last + 1
    assert found(directory) == expected(200)


def test_an_old_file_is_packed_if_there_is_anything_in_it(directory: Path) -> None:
    clock = Clock()
    with closing(open_history(directory, rotation=Rotation(ms=DAY), clock=clock)) as history:
        clock.now += 2 * DAY
        assert not history.due()
        export(history, 5)
        assert names(directory) == [FIRST + ".zst", "entries-00000000000000000006.jsonl"], "due with its first entry"
        export(history, 6)
        clock.now += DAY - 1
        assert not history.due()
    with closing(open_history(directory, rotation=Rotation(ms=DAY), clock=clock)) as history:
        clock.now += 1
        assert history.due()
        rotate(history)
        assert not history.due()
        clock.now -= 10 * DAY  # somebody sets the clock
        assert not history.due()
        export(history, 9)
    assert len(names(directory)) == 3
    assert found(directory) == expected(9)


def test_packed_files_go_when_their_days_are_over_the_oldest_first(directory: Path) -> None:
    clock = Clock()
    rotation = Rotation(ms=DAY, keep_ms=3 * DAY + HOUR)
    with closing(open_history(directory, rotation=rotation, clock=clock)) as history:
        for last in (10, 20, 30, 40):
            export(history, last, sizes=(10,))
            clock.now += DAY
            rotate(history)
        first, second, third, _, present = names(directory)
        for name, days in ((first, 2), (second, 5), (third, 4)):
            os.utime(directory / name, (0, (clock.now - days * DAY) / 1000))
        export(history, 50, sizes=(10,))
        clock.now += DAY
        rotate(history)
        assert names(directory)[:2] == [first, second], "not the second before the first"
        clock.now += DAY + 1000
        export(history, 60, sizes=(10,))
        assert names(directory)[0] > third
        assert present + ".zst" in names(directory)
    with closing(open_history(directory, rotation=rotation, clock=clock)) as history:
        assert history.durable_index == 60
    assert summarize(directory).first == 31
    assert found(directory) == [each for each in expected(60) if each[0] > 30]


def test_packed_files_go_when_all_files_are_over_the_budget_the_oldest_first(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=3000))) as history:
        export(history, 200)
    whole = names(directory)
    size = sum((directory / name).stat().st_size for name in whole)
    assert len(whole) > 4
    kept_bytes = size - (directory / whole[0]).stat().st_size - 1  # so two files are too many
    with closing(open_history(directory, rotation=Rotation(bytes=3000, keep_bytes=kept_bytes))) as history:
        assert history.pack()
        assert names(directory) == whole[2:]
        assert history.durable_index == 200
    with closing(open_history(directory, rotation=Rotation(bytes=3000, keep_bytes=1))) as history:
        assert history.pack()
        assert names(directory) == whole[-1:], "the file under way stays"


def test_a_reader_takes_the_present_file_as_far_as_it_is_written(directory: Path) -> None:
    with closing(open_history(directory)) as history:
        export(history, 30)
    whole = (directory / FIRST).read_bytes()
    for size in range(whole.index(b"\n") + 1, len(whole), 37):
        (directory / FIRST).write_bytes(whole[:size])
        seen = found(directory)
        assert seen == expected(30)[: len(seen)]
    (directory / FIRST).write_bytes(whole)
    assert found(directory) == expected(30)


def test_a_reader_beside_a_node_that_writes_and_rotates(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=3000))) as history:
        export(history, 20)
        reading = read_history(directory)
        seen = [next(reading) for _ in range(3)]
        export(history, 21)
        seen += [next(reading)]
        export(history, 200)
        assert not (directory / FIRST).exists()
        seen += list(reading)
        assert plain(seen) == expected(200)[: len(seen)]
        assert found(directory) == expected(200)
        listed = history_files(directory)
        listed[0].is_plain = True  # as a reader saw the file before the packing
        export(history, 300)
    assert found(directory) == expected(300)


def refusal(directory: Path, pattern: str) -> str:
    """Give the error of opening and reading; neither may change anything."""
    before = {path: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(HistoryError, match=pattern) as raised:
        open_history(directory)
    assert isinstance(raised.value, StorageError)
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
    return str(raised.value)


def test_a_damaged_middle_says_what_to_do(directory: Path) -> None:
    with closing(open_history(directory)) as history:
        export(history, 60)
    whole = (directory / FIRST).read_bytes()
    last = whole.rindex(b"\n ")
    for at in range(0, last - 20, last // 20):
        (directory / FIRST).write_bytes(whole[:at] + bytes(20) + whole[at + 20 :])
        assert "move the whole directory" in refusal(directory, r"is damaged: line \d+: ")
        with pytest.raises(HistoryError, match="is damaged"):
            found(directory)
    (directory / FIRST).write_bytes(whole[: last + 10] + bytes(20) + whole[last + 30 :])
    seen = found(directory)
    assert seen == expected(60)[: len(seen)], "the last that was written may have missed its sync"


def test_damage_that_no_torn_write_can_be(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_history(directory)) as history:
        history.append(entries(1, 40))
    whole = (directory / FIRST).read_bytes()
    (directory / FIRST).write_bytes(whole[:100] + b"\0" * 600 + whole[700:])
    assert found(directory) == [], "written at once, and perhaps never synced"
    monkeypatch.setattr("gf_i2p.storage.history_reader.UNSYNCED_BYTES", len(whole) // 2)
    with pytest.raises(HistoryError, match="is damaged"):
        found(directory)


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (b"", "it is empty"),
        (b"hello\n", "line 1: it is not JSON"),
        (b'{"cluster":"farm","first":1,"format":1', "line 1: it has no end"),
        (b'{"cluster":"farm","first":2,"format":2,"opened":1,"server":7}\n', "its name says otherwise"),
        (b'{"cluster":"farm","first":1,"format":9,"opened":1,"server":7}\n', "its format 9 is that of a newer gf-i2p"),
        (b'{"cluster":"farm","first":1,"format":1,"opened":1,"server":7}\n', "its format 1 is that of a version"),
    ],
)
def test_a_file_that_is_none_of_ours(directory: Path, content: bytes, pattern: str) -> None:
    directory.mkdir()
    (directory / FIRST).write_bytes(content)
    refusal(directory, pattern)
    with pytest.raises(HistoryError, match=pattern):
        found(directory)


def test_damage_in_a_packed_file(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 100)
    path = directory / names(directory)[1]
    whole = path.read_bytes()
    lines = unpacked(whole).splitlines(keepends=True)
    for content in (
        whole[: len(whole) // 2],
        whole[:30] + b"\0\0\0\0" + whole[34:],
        b"",
        b"PK\3\4",
        zstd(b"".join(lines[:-1])),
        zstd(b"".join(lines[:2] + lines[3:])),
    ):
        path.write_bytes(content)
        with pytest.raises(HistoryError, match=f"{path.name} is damaged"):
            found(directory)


def test_files_of_gzip_are_read_too_and_one_comes_back_plain(directory: Path) -> None:
    """Earlier versions packed with gzip."""
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 100)
        history.pack()
    before = found(directory)
    for name in names(directory)[:2]:
        data = unpacked((directory / name).read_bytes())
        (directory / name).unlink()
        (directory / name).with_suffix(".gz").write_bytes(gzip.compress(data))
    assert found(directory) == before
    first = directory / names(directory)[0]
    first.with_suffix("").write_bytes(gzip.decompress(first.read_bytes()))
    assert found(directory) == before
    with closing(open_history(directory)) as history:
        history.pack()
    assert [Path(name).suffix for name in names(directory)[:3]] == [".zst", ".gz", ".zst"]
    assert found(directory) == before
    first.write_bytes(gzip.compress(b"another process wrote this"))
    assert found(directory) == before, "the file of Zstandard counts"


def test_a_file_that_is_missing_or_there_twice(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 100)
    _, second, third, *_ = names(directory)
    content = (directory / second).read_bytes()
    (directory / second).unlink()
    with pytest.raises(HistoryError, match=f"lacks the entries {int(second[8:28])} to {int(third[8:28]) - 1}: "):
        found(directory)
    (directory / second).write_bytes(content)
    copy = f"entries-{int(second[8:28]) + 1:020}.jsonl.zst"
    (directory / copy).write_bytes(content)
    with pytest.raises(HistoryError, match="twice"):
        found(directory)


def test_the_history_of_another_is_refused(directory: Path, tmp_path: Path) -> None:
    with closing(open_history(directory)) as history:
        export(history, 5)
    for cluster, server in (("other", 7), ("farm", 8)):
        with pytest.raises(HistoryError, match="has the history of server 7 of farm 'farm', where that of server"):
            open_history(directory, cluster=cluster, server_id=server)
        with pytest.raises(HistoryError, match="move this history to its own directory"):
            check_owner(directory, cluster=cluster, server_id=server)
    check_owner(directory, cluster="farm", server_id=7)
    check_owner(tmp_path / "none", cluster="farm", server_id=7)
    other = tmp_path / "other"
    with closing(open_history(other, server_id=8, rotation=Rotation(bytes=1))) as history:
        export(history, 5, sizes=(5,))
    shutil.copy(other / "entries-00000000000000000006.jsonl", directory)
    refusal(directory, "has the history of server 8")
    (directory / "entries-00000000000000000006.jsonl").unlink()
    with closing(open_history(directory, rotation=Rotation(bytes=1))) as history:
        rotate(history)
    shutil.copy(other / (FIRST + ".zst"), directory)
    with pytest.raises(HistoryError, match="has the history of server 7"):
        found(directory)


def test_foreign_files_are_left_alone(directory: Path) -> None:
    directory.mkdir()
    foreign = [
        "_SUCCESS",
        "notes.txt",
        "entries-1.jsonl",
        FIRST + ".bak",
        FIRST + ".zst.tmp",
        ".hidden",
        "entries-x.new",
    ]
    for name in foreign:
        (directory / name).write_text("not ours")
    (directory / (FIRST + ".zst.new")).write_text("left by a process that was killed")
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 60)
    assert found(directory) == expected(60)
    assert {(directory / name).read_text() for name in foreign} == {"not ours"}
    assert not list(directory.glob("*.zst.new"))


def test_a_copy_that_the_operator_has_packed_does_no_harm(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        history.append(entries(1, 3))
        (directory / (FIRST + ".zst")).write_bytes(zstd((directory / FIRST).read_bytes()))
        assert found(directory) == expected(3)
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 60)
    assert found(directory) == expected(60)


def test_a_present_file_that_was_removed_is_begun_again(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 60)
    present = directory / names(directory)[-1]
    present.unlink()
    with closing(open_history(directory)) as history:
        assert history.durable_index == int(present.name[8:28]) - 1
        export(history, 60)
    assert found(directory) == expected(60)


@pytest.mark.parametrize("left", [None, 0, 30])
def test_a_present_file_that_was_taken_away_is_noticed_and_nothing_counts(directory: Path, left: int | None) -> None:
    """With `left`, another file takes the place, and ends with that entry."""
    with closing(open_history(directory)) as history:
        export(history, 30)
        aside = directory / "aside"
        (directory / FIRST).rename(aside)
        if left is not None:
            with closing(open_history(directory / "other")) as other:
                export(other, left)
            (directory / "other" / FIRST).rename(directory / FIRST)
        with pytest.raises(HistoryError, match="was removed or replaced while the node wrote"):
            history.append(entries(31, 40))
        assert history.durable_index == 0
    with closing(open_history(directory)) as history:
        assert history.durable_index == (left or 0)
        export(history, 40)
    assert found(directory) == expected(40)


@pytest.mark.parametrize("moved", [True, False])
def test_a_directory_that_was_taken_away_is_noticed_and_made_anew(directory: Path, *, moved: bool) -> None:
    with closing(open_history(directory)) as history:
        export(history, 30)
        history.check_place()
        if moved:
            directory.rename(directory.with_name("aside"))
        else:
            shutil.rmtree(directory)
        for notice in (history.check_place, lambda: history.gap(31)):
            with pytest.raises(
                HistoryError, match=f"{directory} was removed or moved away .* stop the node, put the old"
            ):
                notice()
            assert history.durable_index == 0
    with closing(open_history(directory)) as history:
        assert history.durable_index == 0
        export(history, 40)
    assert found(directory) == expected(40)


def test_packing_that_is_interrupted_leaves_nothing_and_is_done_at_the_next_opening(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gf_i2p.storage.history_writer._PIECE_BYTES", 100)
    looks = 0

    def interrupted() -> bool:
        nonlocal looks
        looks += 1
        assert (directory / (FIRST + ".zst.new")).exists()
        return looks == 20

    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        history.append(entries(1, 40))
        history.rotate()
        before = names(directory)
        assert not history.pack(interrupted)
        assert looks == 20
        assert names(directory) == before
        export(history, 41)
        assert history.packable() is False, "another time it is done"
    assert FIRST + ".zst" in names(directory)
    assert found(directory) == expected(41)


def test_what_was_ended_and_not_packed_is_packed_after_the_next_opening(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        for last in (40, 80):
            history.append(entries(history.durable_index + 1, last))
            history.rotate()
        assert not list(directory.glob("*.zst"))
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        assert history.packable()
        assert history.pack()
        assert not history.packable()
    assert [Path(name).suffix for name in names(directory)] == [".zst", ".zst", ".jsonl"]
    assert found(directory) == expected(80)


def test_it_is_written_while_it_is_packed(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        history.append(entries(1, 40))
        history.rotate()

        def meanwhile() -> bool:
            if history.durable_index < 80:
                history.append(entries(41, 80))
                history.rotate()
            return False

        assert history.pack(meanwhile)
        assert len(list(directory.glob("*.zst"))) == 2, "what was ended meanwhile, too"
    assert found(directory) == expected(80)


def test_opening_can_be_interrupted(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        history.append(entries(1, 40))
        for _ in range(2):  # in a file that is to be packed, and in the newest one
            looks = iter([False] * 5)
            with pytest.raises(InterruptedError):
                open_history(directory, interrupted=lambda looks=looks: next(looks, True))  # type: ignore[misc]
            history.rotate()
            history.append(entries(history.durable_index + 1, history.durable_index + 40))
    assert found(directory) == expected(120)


def test_a_directory_without_history_says_so(directory: Path) -> None:
    directory.mkdir()
    with pytest.raises(HistoryError, match="has no history"):
        found(directory)


def test_a_summary_counts(directory: Path) -> None:
    with closing(open_history(directory, rotation=Rotation(bytes=2000))) as history:
        export(history, 50)
        history.gap(60)
        history.gap(70)
        history.append([application(b"\xff")])
        history.gap(80, [1])
    summary = summarize(directory)
    configurations = [each for each in expected(50) if isinstance(each[2], tuple)]
    truth = [each for each in expected(50) if each not in configurations]
    assert (summary.cluster, summary.server, summary.first, summary.last) == ("farm", 7, 1, 80)
    assert summary.records == len(truth) + 1
    assert summary.raw == sum(isinstance(value, bytes) for _, _, value in truth) + 1
    assert summary.configurations == len(configurations) > 1
    assert summary.others == 50 - len(truth) - len(configurations) > 1
    assert summary.gaps == [(51, 70), (72, 80)]
    assert summary.files == len(names(directory))


def test_one_process_at_a_time_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LOCK_SECONDS", 0.05)
    first = open_history(tmp_path / "history")
    with pytest.raises(HistoryError, match=r"another process writes to .*: stop that process"):
        open_history(tmp_path / "history")
    first.close()
    open_history(tmp_path / "history").close()


def test_the_next_process_waits_until_the_present_one_has_finished(tmp_path: Path) -> None:
    first = open_history(tmp_path / "history")
    timer = threading.Timer(0.1, first.close)
    timer.start()
    open_history(tmp_path / "history").close()
    timer.join()


def test_a_history_does_not_go_on_behind_a_link(directory: Path, tmp_path: Path) -> None:
    open_history(directory).close()
    (directory / FIRST).rename(tmp_path / "elsewhere")
    (directory / FIRST).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HistoryError, match="is a link"):
        open_history(directory)
