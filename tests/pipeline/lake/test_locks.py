"""Of two jobs that write the same tables, the second is refused with the first one's name, and keeps no lock."""

import argparse
import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from gf_i2p.cli.pipeline import ingest as command
from gf_i2p.cli.pipeline.jobs import COMMANDS
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.locks import WRITES, directory, tables_locked
from gf_i2p.pipeline.lake.paths import TABLES, Lake

_HOLD = """
import sys
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.lake.locks import tables_locked
with tables_locked(Lake(sys.argv[1]), sys.argv[2]):
    print("has it", flush=True)
    sys.stdin.read()
"""


def refused(lake: Lake, *jobs: str) -> dict[str, str]:
    """Try jobs; give the messages of the refused jobs."""
    refusals = {}
    for job in jobs:
        try:
            with tables_locked(lake, job):
                pass
        except PipelineError as error:
            refusals[job] = str(error)
    return refusals


@pytest.mark.parametrize(
    ("job", "others"),
    [
        ("ingest", {"ingest", "floodfills", "run", "stream", "compact"}),
        ("health", {"health", "run", "stream", "compact"}),
        ("backtest", {"backtest", "run", "compact"}),
        ("run", {"ingest", "health", "backtest", "floodfills", "run", "stream", "compact"}),
        ("floodfills", {"ingest", "floodfills", "run", "stream", "compact"}),
        ("stream", {"ingest", "health", "floodfills", "run", "stream", "compact"}),
        ("compact", {"ingest", "health", "backtest", "floodfills", "run", "stream", "compact"}),
        ("report", set()),
    ],
)
def test_who_keeps_whom_away(tmp_path: Path, job: str, others: set[str]) -> None:
    lake = Lake(str(tmp_path))
    with tables_locked(lake, job):
        assert {*refused(lake, *WRITES, "report", "post")} == others
        assert not refused(Lake(str(tmp_path / "another")), *WRITES)
    assert not refused(lake, *WRITES)


def test_all_that_is_locked_is_a_table(tmp_path: Path) -> None:
    assert {each for tables in WRITES.values() for each in tables} == {*TABLES}
    assert all([*tables] == sorted(tables) for tables in WRITES.values())
    with tables_locked(Lake(str(tmp_path)), "stream"):
        files = [*(tmp_path / "_locks").iterdir()]
        assert {path.name for path in files} == {*WRITES["stream"]}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_who_gets_one_only_lets_go_of_it(tmp_path: Path) -> None:
    """`stream` gets alerts and anomalies before `stream` finds entries taken."""
    lake = Lake(str(tmp_path))
    with tables_locked(lake, "ingest"):
        assert "has locked the table entries" in refused(lake, "stream")["stream"]
        assert not refused(lake, "health")


def test_another_process_has_it_until_it_dies(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD, lake.root, "health"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"has it\n"
        assert refused(lake, "health", "ingest") == {
            "health": f"`gf-i2p pipeline health` (process {other.pid}) has locked the table anomalies of "
            f"{tmp_path}: wait until that job ends, or stop that job. Then run this job again."
        }
    finally:
        other.kill()
        other.communicate()
    assert not refused(lake, "health")


def test_a_job_that_needs_a_lake_makes_none(tmp_path: Path) -> None:
    with tables_locked(Lake(str(tmp_path / "no")), "health"), tables_locked(Lake(str(tmp_path / "none")), "backtest"):
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("root", "remote", "expected"),
    [
        ("/srv/lake", None, "/srv/lake"),
        ("file:///srv/lake", None, "/srv/lake"),
        ("/srv/lake", "sc://localhost:15002", "/srv/lake"),
        ("/srv/lake", "sc://spark.example:15002", None),
        ("s3a://bucket/lake", None, None),
        ("hdfs://host:9000/lake", None, None),
        ("file://host/srv/lake", None, None),
        ("/srv/lake", "sc://[::1", None),
        ("hdfs://[::1/lake", None, None),
    ],
)
def test_only_what_is_here_is_locked(root: str, remote: str | None, expected: str | None) -> None:
    assert directory(Lake(root), remote) == (None if expected is None else Path(expected))


def test_an_address_is_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = Lake("s3a://bucket/lake")
    with ExitStack() as both:
        for _ in range(2):
            both.enter_context(tables_locked(lake, "ingest"))
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_a_lock_is_said(tmp_path: Path) -> None:
    (tmp_path / "_locks").write_text("")
    assert "run all jobs on this lake as one user" in refused(Lake(str(tmp_path)), "ingest")["ingest"]
    (tmp_path / "_locks").unlink()
    (tmp_path / "_locks").mkdir()
    (tmp_path / "_locks" / "entries").symlink_to(tmp_path / "elsewhere")
    assert "cannot be opened" in refused(Lake(str(tmp_path)), "ingest")["ingest"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("note", ["", "{", '{"job": "\\u001b[2J", "process": 5}', '{"job": 1}'])
def test_nothing_is_believed_of_who_has_it(tmp_path: Path, note: str) -> None:
    lake = Lake(str(tmp_path))
    with tables_locked(lake, "ingest"):
        (tmp_path / "_locks" / "entries").write_text(note)
        text = refused(lake, "ingest")["ingest"]
    assert text.startswith(("Another job has", "Process 5 has"))


def test_the_command_runs_no_job_beside_another(tmp_path: Path) -> None:
    options = argparse.Namespace(lake=str(tmp_path), remote=None)
    ran: list[bool] = []
    answer = Answer({}, "done")

    def job(_: argparse.Namespace) -> Answer:
        ran.append(bool(refused(Lake(str(tmp_path)), "ingest")))
        return answer

    with patch.object(command, "run", job):
        assert COMMANDS["ingest"].run(options) == answer
        with (
            tables_locked(Lake(str(tmp_path)), "stream"),
            pytest.raises(CommandError, match=f"process {os.getpid()}") as error,
        ):
            COMMANDS["ingest"].run(options)
    assert error.value.code is Exit.FAILED
    assert ran == [True]
