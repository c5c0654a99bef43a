import os
import stat
from pathlib import Path

import pytest

from gf_i2p.storage import private_files
from gf_i2p.storage.errors import StorageError


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


def test_a_lock_is_had_by_one_and_names_its_holder(tmp_path: Path) -> None:
    lock = private_files.Lock(tmp_path / "log.db")
    with pytest.raises(StorageError, match=f"log.db is in use by process {os.getpid()}: .*Stop that process"):
        private_files.Lock(tmp_path / "log.db")
    private_files.Lock(tmp_path / "other.db").close()
    lock.close()
    private_files.Lock(tmp_path / "log.db").close()


def test_a_lock_in_a_directory_that_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="its directory must exist"):
        private_files.Lock(tmp_path / "missing" / "log.db")


def test_a_lock_on_a_file_system_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(StorageError, match=r"No locks available.*local disk"):
        private_files.Lock(tmp_path / "log.db")
