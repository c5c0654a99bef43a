"""Which thread of the history process writes an entry."""

import threading
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.node.history import process
from gf_i2p.storage import history_lines, history_writer
from gf_i2p.wire.limits import MAX_VALUE_BYTES
from tests.node.history.test_remote_history import entries, open_history, values
from tests.node.threaded_history import HistoryThread


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each entry, whether the thread that hardly runs on a busy machine has made the entry's line."""
    writers: list[bool] = []
    record_line = history_lines.record_line

    def recorded(*arguments: Any) -> bytes:
        writers.append(threading.current_thread().name.startswith("patient"))
        return record_line(*arguments)

    monkeypatch.setattr(history_writer, "record_line", recorded)
    return writers


@pytest.mark.parametrize("urgent", [False, True])
async def test_urgent_entries_are_written_by_the_main_thread(tmp_path: Path, writers: list[bool], urgent: bool) -> None:
    async with open_history(tmp_path, await HistoryThread.start()) as history:
        await history.append(entries(b"1", b"2"), None, urgent=urgent)
    assert writers == [not urgent] * 2


async def test_the_main_thread_does_the_rest_of_a_request_that_takes_too_long(
    tmp_path: Path, writers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PATIENT_SECONDS", 0.0)
    async with open_history(tmp_path, await HistoryThread.start()) as history:
        await history.append(entries(b"1", b"2", b"3"), None)
        assert history.durable_index == 3
    assert writers == [True, False, False]
    assert values(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize(("size", "patient"), [(process.PATIENT_VALUE_BYTES, True), (MAX_VALUE_BYTES, False)])
async def test_large_values_are_written_by_the_main_thread(
    tmp_path: Path, writers: list[bool], size: int, patient: bool
) -> None:
    async with open_history(tmp_path, await HistoryThread.start()) as history:
        await history.append(entries(b"1", b"2".rjust(size)), None)
    assert writers == [patient] * 2
