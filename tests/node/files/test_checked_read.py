"""Paths that are no regular files, and files that others can read."""

import os
import pwd
import stat
from pathlib import Path

import pytest

from gf_i2p.node.files import checked_read
from gf_i2p.node.files.checked_read import MAX_BYTES, ConfigError, check_mode, read_regular
from gf_i2p.node.files.config import check_private
from gf_i2p.node.publish import branch_keys, publishing_keys
from gf_i2p.node.publish.branch_keys import branch_file
from tests.netdb.strategies import KEYS, NOW


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_regular_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    data, status = read_regular(tmp_path / "file", 3)
    assert (data, status.st_size) == (b"123", 5)


@pytest.mark.timeout(20)
def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    pipe = branch_file(tmp_path / "master.dat", 0)
    os.mkfifo(pipe, 0o600)
    before = _open_files()
    for read in (checked_read.read_text, publishing_keys.load_publishing_keys, check_private):
        with pytest.raises(ConfigError, match="is a pipe or a device"):
            read(pipe)
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            read(tmp_path)
    with pytest.raises(branch_keys.NoBranchKeysError, match="is a pipe or a device"):
        branch_keys.branch_keys(KEYS.delegate(NOW + 86_400), tmp_path / "master.dat")(0)
    assert _open_files() == before


def test_a_text_that_is_too_long_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="is longer than"):
        checked_read.read_text(tmp_path / "file")


def test_nobody_is_told_to_change_the_mode_of_a_file_that_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (tmp_path / "passwd").chmod(0o644)
    with pytest.raises(ConfigError, match="is neither a private key file") as caught:
        publishing_keys.load_publishing_keys(tmp_path / "passwd")
    assert "chmod" not in str(caught.value)


@pytest.mark.parametrize("number", [1, 4_000_000_000])
def test_the_owner_of_a_foreign_secret_is_to_run_the_command(number: int) -> None:
    status = os.stat_result((stat.S_IFREG | 0o600, 0, 0, 1, number, 0, 0, 0, 0, 0))
    with pytest.raises(ConfigError) as refused:
        check_mode(Path("secrets.toml"), status)
    owner = pwd.getpwuid(number).pw_name if number == 1 else f"#{number}"
    assert f"Run: sudo -u '{owner}' gf-i2p …" in str(refused.value)
