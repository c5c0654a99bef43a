import errno
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from integration.harness.sqlite_files import FileCall, Perform, SqliteFiles, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def insert(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()


def test_all_operations_pass_through_and_do_what_sqlite_wanted(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    def handle(call: FileCall, perform: Perform) -> None:
        seen[call.name] += 1
        assert call.path.parent == tmp_path
        perform(call)

    with SqliteFiles(handle) as files, closing(sqlite3.connect(tmp_path / "a")) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
    assert files.error is None
    assert {"open", "read", "write", "sync", "delete"} <= set(seen)
    before = seen.copy()
    with closing(sqlite3.connect(tmp_path / "a")) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
    assert seen == before, "after the block nothing passes through"


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("write", errno.EIO, "SQLITE_IOERR_WRITE"),
        ("write", errno.ENOSPC, "SQLITE_FULL"),
        ("sync", errno.EIO, "SQLITE_IOERR_FSYNC"),
        ("read", errno.EIO, "SQLITE_IOERR_READ"),
        ("delete", errno.EIO, "SQLITE_IOERR_DELETE"),
        ("open", errno.EACCES, "SQLITE_CANTOPEN"),
    ],
)
def test_an_error_is_one_that_sqlite_knows(tmp_path: Path, name: str, code: int, error: str) -> None:
    with closing(sqlite3.connect(tmp_path / "a")) as connection:
        connection.execute("CREATE TABLE t (a)")

    def handle(call: FileCall, perform: Perform) -> None:
        if call.name == name:
            raise OSError(code, os.strerror(code))
        perform(call)

    with SqliteFiles(handle), pytest.raises(sqlite3.Error) as caught:
        insert(tmp_path / "a")
    assert caught.value.sqlite_errorname.startswith(error)


def test_a_defect_of_the_handler_is_kept(tmp_path: Path) -> None:
    def handle(_call: FileCall, _perform: Perform) -> None:
        raise ZeroDivisionError

    with SqliteFiles(handle) as files, pytest.raises(sqlite3.Error):
        sqlite3.connect(tmp_path / "a").execute("CREATE TABLE t (a)")
    assert isinstance(files.error, ZeroDivisionError)


def test_a_write_may_go_elsewhere_or_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    before = path.read_bytes()

    def handle(call: FileCall, perform: Perform) -> None:
        if call.name == "write" and call.path == path:
            if call.offset:
                return
            call = call._replace(offset=len(before))
        perform(call)

    with SqliteFiles(handle):
        insert(path)
    after = path.read_bytes()
    assert after[: len(before)] == before
    assert after[len(before) :].startswith(b"SQLite format 3")
