"""Root changes nothing in a directory of another user."""

import os
import pwd
from pathlib import Path

import pytest

from gf_i2p.storage import ownership
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.private_files import Lock, holder
from tests.storage.foreign import as_root_elsewhere


def test_the_owner_may_change_a_directory(tmp_path: Path) -> None:
    assert ownership.why_not_root(tmp_path) is None


def test_root_is_told_to_run_the_command_as_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "server"
    owner = as_root_elsewhere(directory, monkeypatch)
    for path in (directory, directory / "new" / "server-2"):
        objection = ownership.why_not_root(path)
        assert objection is not None
        assert f"sudo -u '{owner}' gf-i2p" in objection


def test_root_follows_no_link_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roots").mkdir()
    link = tmp_path / "link"
    link.symlink_to("roots")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if os.getuid() == 0:
        os.lchown(link, 65534, 65534)
    assert ownership.why_not_root(link / "server-1") is not None


def test_root_takes_no_lock_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "server"
    as_root_elsewhere(directory, monkeypatch)
    with pytest.raises(StorageError, match="sudo -u"):
        Lock(directory / "log.sqlite")
    with pytest.raises(StorageError, match="sudo -u"):
        holder(directory / "log.sqlite")
    assert list(directory.iterdir()) == []


def test_root_opens_no_log_by_a_link_in_a_directory_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.sqlite"
    Storage.create(log, cluster="farm", server_id=1)
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "log.sqlite").symlink_to(log)
    as_root_elsewhere(tmp_path / "server", monkeypatch)
    with pytest.raises(StorageError, match="sudo -u"):
        Storage.open(tmp_path / "server" / "log.sqlite", cluster="farm", server_id=1)


def test_a_user_without_a_name_is_named_as_sudo_takes_it() -> None:
    number = next(each for each in range(60_000, 50_000, -1) if each not in {user.pw_uid for user in pwd.getpwall()})
    assert ownership.user_name(number) == f"#{number}"
    assert ownership.user_name(0) == "root"
