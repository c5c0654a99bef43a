import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.storage import private_files
from gf_i2p.storage.errors import StorageError

CONTENT = b"a whole file"


def test_a_private_file_has_its_size_in_zeros_and_nobody_else_reads_it(tmp_path: Path) -> None:
    size = 3 * (1 << 20) // 2
    old = os.umask(0)
    try:
        assert private_files.lengthen(tmp_path / "zeros", size) == size
        private_files.create_private(tmp_path / "empty")
    finally:
        os.umask(old)
    assert (tmp_path / "zeros").read_bytes() == bytes(size)
    assert (tmp_path / "empty").read_bytes() == b""
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_a_file_that_is_lengthened_keeps_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert private_files.lengthen(tmp_path / "file", 100) == 100
    assert private_files.lengthen(tmp_path / "file", 50) == 100
    assert (tmp_path / "file").read_bytes() == b"content" + bytes(93)


def test_a_private_file_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        private_files.create_private(tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"x"


def test_a_durable_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "s"
    private_files.write_durably(path, CONTENT, force=False)
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_lock_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "log-lock").symlink_to(tmp_path / "elsewhere")
    for lock in (private_files.Lock, private_files.holder):
        with pytest.raises(StorageError, match="is a link"):
            lock(tmp_path / "log")
    assert not (tmp_path / "elsewhere").exists()


def test_a_database_behind_a_link_has_one_lock(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, file = tmp_path / "log", tmp_path / "disk" / "log"
    link.symlink_to(file)
    for named, other in ((link, file), (file, link)):
        lock = private_files.Lock(named)
        assert private_files.holder(other) == private_files.holder(named) == str(os.getpid())
        with pytest.raises(StorageError, match="in use by process"):
            private_files.Lock(other)
        lock.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("-lock")] == []


def test_nobody_waits_for_a_lock_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log-lock")
    assert private_files.holder(tmp_path / "log") is None


def test_nothing_is_overwritten_unless_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        private_files.write_durably(path, CONTENT, force=False)
    assert path.read_bytes() == b"mine"
    private_files.write_durably(path, CONTENT, force=True)
    assert path.read_bytes() == CONTENT
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        private_files.write_durably(link, CONTENT, force=False)


def test_one_that_is_made_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    sync = os.fsync

    def other_makes_it(descriptor: int) -> None:
        sync(descriptor)
        path.write_bytes(b"theirs")

    monkeypatch.setattr("os.fsync", other_makes_it)
    with pytest.raises(FileExistsError):
        private_files.write_durably(path, CONTENT, force=False)
    assert path.read_bytes() == b"theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_disk_without_second_names_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", no_links)
    private_files.write_durably(tmp_path / "s", CONTENT, force=False)
    assert (tmp_path / "s").read_bytes() == CONTENT
    with pytest.raises(FileExistsError):
        private_files.write_durably(tmp_path / "s", CONTENT, force=False)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        private_files.write_durably(path, CONTENT, force=True)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_lock_is_had_by_one_and_names_its_holder(tmp_path: Path) -> None:
    lock = private_files.Lock(tmp_path / "log.db")
    with pytest.raises(StorageError, match=f"log.db is in use by process {os.getpid()}: .*Stop that process"):
        private_files.Lock(tmp_path / "log.db")
    private_files.Lock(tmp_path / "other.db").close()
    lock.close()
    private_files.Lock(tmp_path / "log.db").close()


def test_each_run_of_a_program_is_told_apart_even_with_the_same_process_id(tmp_path: Path) -> None:
    database = tmp_path / "log.db"
    assert (private_files.holder(database), private_files.holding_run(database)) == (None, None)
    runs = []
    program = (
        "import os, sys; from pathlib import Path; from gf_i2p.storage import private_files as f;"
        "os.getpid = lambda: 1; path = Path(sys.argv[1]);"
        "lock = f.Lock(path); other = f.Lock(path.with_name('other.db'));"
        "print(f.holder(path), f.holding_run(path) == f.holding_run(path.with_name('other.db')), f.holding_run(path))"
    )
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, "-c", program, str(database)], check=True, capture_output=True, text=True
        ).stdout
        process, same, run = said.split(maxsplit=2)
        assert (process, same) == ("1", "True"), "one run holds the logs of several farms"
        runs.append(run)
    assert runs[0] != runs[1]


@pytest.mark.parametrize(("content", "process"), [("77\n", "77"), ("", "unknown"), (" \n", "unknown")])
def test_a_lock_without_the_run_still_names_its_holder(tmp_path: Path, content: str, process: str) -> None:
    database = tmp_path / "log.db"
    lock = private_files.Lock(database)
    try:
        (tmp_path / "log.db-lock").write_text(content)
        assert (private_files.holder(database), private_files.holding_run(database)) == (process, process)
    finally:
        lock.close()


def test_a_lock_in_a_directory_that_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="its directory must exist"):
        private_files.Lock(tmp_path / "missing" / "log.db")


def test_a_lock_on_a_file_system_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(StorageError, match=r"No locks available.*local disk"):
        private_files.Lock(tmp_path / "log.db")
