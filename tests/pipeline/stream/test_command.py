"""`gf-i2p pipeline stream`: the arguments, the output, the file of alerts, and signals."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Event as Flag
from typing import Any
from unittest.mock import patch

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.pipeline import stream as command
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.stream import job
from gf_i2p.pipeline.stream.alerts import AlertLimits
from gf_i2p.pipeline.stream.job import Batch, Event, StreamFigures, StreamOptions
from gf_i2p.storage.private_files import write_private
from tests.cli.pipeline.test_web_hook import hook

BATCH = Batch(
    batch=3, lines=1200, entries=1100, new=1000, quarantined=2,
    newest_ms=1_790_000_000_000, ended_ms=1_790_000_042_000, seconds=1.25,
)  # fmt: skip
SILENT = Event("farm", 2, "silent", "begins", 1_790_000_000_000, 120.0, "server 2 was last heard 120 s …", 5)
ENDS = Event("farm\x1b[2J", None, "publisher", "ends", 1_790_000_030_000, 0.0, "there is a publisher", 7)
FIGURES = StreamFigures(batches=1, lines=1200, entries=1100, new=1000, quarantined=2, events=2, seconds=3.0)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in `tmp_path`: a job may make the lake there."""
    monkeypatch.chdir(tmp_path)


class Runs:
    """Stands in for the job: notes the call, and tells of one batch and two events."""

    def __init__(self) -> None:
        self.options = StreamOptions()
        self.meanwhile: Callable[[Flag], object] = lambda stop: None

    def __call__(
        self,
        spark: object,
        lake: Lake,
        exports: list[str],
        options: StreamOptions,
        *,
        on_batch: Any,
        on_event: Any,
        stop: Flag,
        step: Any,
    ) -> StreamFigures:
        assert (lake, exports) == (Lake("lake"), ["a", "b"])
        self.options = options
        on_event(SILENT)
        on_event(ENDS)
        on_batch(BATCH)
        self.meanwhile(stop)
        return FIGURES


@pytest.fixture
def runs() -> Any:
    """Replaces the job `stream`, and keeps the arguments of each call."""
    stand_in = Runs()
    session = nullcontext((object(), lambda doing: None))
    working = patch.object(command, "working", lambda options, progress, exports: session)
    with working, patch.object(job, "stream", stand_in):
        yield stand_in


def run(*arguments: str) -> int:
    """Run the command."""
    return main(["pipeline", "stream", "lake", "a", "b", *arguments])


def test_for_people(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert capsys.readouterr().out.splitlines() == [
        "! 2026-09-21 14:13:20 farm: silent begins: server 2 was last heard 120 s …",
        ". 2026-09-21 14:13:50 farm\\x1b[2J: publisher ends: there is a publisher",
        "batch 3: 1,200 lines, 1,100 entries, 1,000 new, 2 into quarantine, the newest record is 42 s old; 1.2 s",
        "1 batches in 3.0 s: 1,200 lines, 1,000 new entries, 2 into quarantine, 2 alerts begun or ended",
    ]
    assert runs.options == StreamOptions()


def test_for_programs(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "--once", "--every", "5", "--least-available", "50", "--farm-silent", "2") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["new"], answer["events"]) == (True, 1000, 2)
    assert runs.options == StreamOptions(True, 5, AlertLimits(availability=0.5, farm_silent_ms=120_000))


def test_alerts_are_added_to_a_file_and_it_says_what_was_told(runs: Runs, tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    assert run("--alerts", str(path)) == 0
    assert runs.options.noticed_ms is None
    with path.open("ab") as file:
        file.write(b'{"farm": "fa')  # the process was killed there
    assert run("--alerts", str(path)) == 0
    assert runs.options.noticed_ms == 7
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["farm"], each["server"], each["event"], each["noticed_ms"]) for each in events] == [
        ("farm", 2, "begins", 5),
        ("farm\x1b[2J", None, "ends", 7),
    ] * 2


def test_alerts_go_to_a_web_hook(runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hook.toml"
    with hook() as there:
        write_private(path, f"url = 'http://127.0.0.1:{there.port}/'")
        assert run("--webhook", str(path)) == 0
    assert [(each["farm"], each["event"]) for each in there.bodies] == [("farm", "begins"), ("farm\x1b[2J", "ends")]
    path.chmod(0o644)
    assert run("--webhook", str(path)) == 1
    assert "can be read by others" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "says"), [("what is this\n", "not a file of alerts"), (None, "Give a file")])
def test_a_file_that_cannot_be_of_alerts(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    path = tmp_path / "x"
    path.mkdir() if text is None else path.write_text(text)
    assert run("--alerts", str(path)) == 1
    assert says in capsys.readouterr().err
    assert runs.options == StreamOptions()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_it_to_end(runs: Runs, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    signals = []

    def meanwhile(stop: Flag) -> None:
        os.kill(os.getpid(), number)
        signals.append(stop.wait(60))

    runs.meanwhile = meanwhile
    assert run() == 0
    assert signals == [True]
    assert signal.getsignal(number) is before


def test_errors_are_told(capsys: pytest.CaptureFixture[str], runs: Runs) -> None:
    def fail(_: Flag) -> None:
        raise PipelineError("There is no history.")

    runs.meanwhile = fail
    assert run() == 1
    assert "There is no history." in capsys.readouterr().err
