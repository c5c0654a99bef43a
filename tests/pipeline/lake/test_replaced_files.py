"""A replacement of files that is killed at any step loses no row and doubles no row; the next job finishes it."""

import argparse
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest

from gf_i2p.cli.pipeline import report
from gf_i2p.cli.pipeline.jobs import COMMANDS
from gf_i2p.cli.shared.command import Answer
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.locks import table_locked
from gf_i2p.pipeline.lake.replaced_files import STAGE, decide, finish, roll_forward, table_files

DAY = "entries/farm=www/day=2025-01-01"
OLD = (f"{DAY}/part-1.parquet", f"{DAY}/part-2.parquet", "files/part-3.parquet", "files/part-4.parquet")
NEW = (f"{DAY}/part-5.parquet", "files/part-6.parquet")
KEPT = "entries/farm=www/day=2025-01-02/part-7.parquet"


class Killed(BaseException):
    """The process dies here."""


def make(root: Path) -> None:
    """Make a lake of four small files and a lone one, and two merged files that wait. Each line stands for a row."""
    for name, rows in {**dict(zip(OLD, "abcd", strict=True)), KEPT: "e"}.items():
        write(root / name, rows)
    write(root / STAGE / NEW[0], "a\nb")
    write(root / STAGE / NEW[1], "c\nd")


def write(path: Path, rows: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows)
    path.with_name(f".{path.name}.crc").touch()


def rows(root: Path) -> list[str]:
    return sorted(line for table in ("entries", "files") for path in table_files(root, table) for line in lines(path))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def replace(root: Path) -> None:
    decide(root, [root / STAGE / name for name in NEW], [root / name for name in OLD])
    roll_forward(root)


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Do the work, and die before its change number `step` of the file system; return whether the work died."""
    done = 0

    def dies(change: Callable[..., Any]) -> Callable[..., Any]:
        def changes(*values: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done > step:
                raise Killed
            return change(*values, **options)

        return changes

    # A dead process cleans nothing up: from the first refused change on, each further change is refused, too.
    with (
        patch.object(Path, "replace", dies(Path.replace)),
        patch.object(Path, "unlink", dies(Path.unlink)),
        patch.object(os, "fsync", dies(os.fsync)),
        patch.object(shutil, "rmtree", dies(shutil.rmtree)),
    ):
        try:
            work()
        except Killed:
            return True
    return False


def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    step, is_dead = 0, True
    files: set[int] = set()
    while is_dead:
        root = tmp_path / f"{step}"
        make(root)
        is_dead = killed_at(step, lambda root=root: replace(root))  # type: ignore[misc]
        again = 0
        while killed_at(again, lambda root=root: finish(root)):  # type: ignore[misc]
            again += 1
        assert rows(root) == [*"abcde"], step
        files.add(len(table_files(root, "entries")) + len(table_files(root, "files")))
        assert not (root / STAGE).exists()
        step += 1
    assert step > 15
    assert files == {5, 3}  # undecided, or finished
    assert {path.name for path in (root / DAY).iterdir()} == {"part-5.parquet", ".part-5.parquet.crc"}


@pytest.mark.parametrize("damage", ["{", "[]", "{}", json.dumps({"new": [], "old": ["../x"]}), '{"new":[""],"old":[]}'])
def test_a_manifest_that_is_none_deletes_nothing(tmp_path: Path, damage: str) -> None:
    make(tmp_path / "lake")
    (tmp_path / "x").touch()
    (tmp_path / "lake" / STAGE / "manifest.json").write_text(damage)
    with pytest.raises(PipelineError, match="is no list of files"):
        finish(tmp_path / "lake")
    assert rows(tmp_path / "lake") == [*"abcde"]
    assert (tmp_path / "x").exists()


def test_a_merged_file_that_is_gone_deletes_nothing(tmp_path: Path) -> None:
    make(tmp_path)
    decide(tmp_path, [tmp_path / STAGE / name for name in NEW], [tmp_path / name for name in OLD])
    (tmp_path / STAGE / NEW[1]).unlink()
    for _ in range(2):
        with pytest.raises(PipelineError, match=f"names {NEW[1]}, and this file is missing"):
            finish(tmp_path)
    assert all((tmp_path / name).exists() for name in OLD)


def test_nothing_is_touched_while_another_process_merges(tmp_path: Path) -> None:
    make(tmp_path)
    with table_locked(tmp_path, STAGE, "compact"):
        finish(tmp_path)
        assert (tmp_path / STAGE / NEW[0]).exists()
    finish(tmp_path)
    assert not (tmp_path / STAGE).exists()


def test_a_job_waits_while_another_process_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    waiting: list[int] = []
    lock = fcntl.flock

    def noted(file: int, how: int) -> None:
        waiting.append(how)
        lock(file, how)

    with table_locked(tmp_path, STAGE, "compact"):
        decide(tmp_path, [tmp_path / STAGE / name for name in NEW], [tmp_path / name for name in OLD])
        monkeypatch.setattr(fcntl, "flock", noted)
        job = Thread(target=finish, args=(tmp_path,))
        job.start()
        while not waiting:
            job.join(0.01)
        assert waiting == [fcntl.LOCK_EX]
        assert job.is_alive()
        roll_forward(tmp_path)
    job.join()
    assert rows(tmp_path) == [*"abcde"]


def test_each_job_finishes_before_it_reads(tmp_path: Path) -> None:
    make(tmp_path)
    decide(tmp_path, [tmp_path / STAGE / name for name in NEW], [tmp_path / name for name in OLD])

    def job(_: argparse.Namespace) -> Answer:
        assert len(table_files(tmp_path, "entries")) == 2
        return Answer({}, "read")

    with patch.object(report, "run", job):
        assert COMMANDS["report"].run(argparse.Namespace(lake=str(tmp_path), remote=None)) == Answer({}, "read")
