"""Commands that change the files of one directory at the same time."""

import multiprocessing
import os
import stat
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.node.files import transaction as module
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import FILES_LOCK, SECRETS_FILE
from gf_i2p.node.files.transaction import all_or_nothing, changing
from gf_i2p.node.membership import leaf_invitation
from gf_i2p.node.membership.invitation import accept, invite
from gf_i2p.wire.endpoint import Endpoint
from tests.tier import examples

MANY = examples(12)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    return tmp_path / "server-1"


def _invited(server: Path, where: str = "new") -> int:
    return leaf_invitation.invite_and_accept(server, server.parent / where).id


def _accepted(server: Path, file: Path) -> bool:
    return accept(server, file).changed


def _removed(server: Path, member: int) -> bool:
    return leaf_invitation.remove(server, member)


def _patient() -> None:
    """Wait for as long as all the others take: a process that has just unlocked often locks next."""
    wait = module._lock
    setattr(module, "_lock", lambda descriptor, directory, _: wait(descriptor, directory, 100.0))  # noqa: B010


def test_what_many_commands_change_at_once_is_all_there(server: Path) -> None:
    gone = [_invited(server, "gone") for _ in range(MANY)]  # a new member may get the id of one that is gone
    files = [
        invite(server, server.parent / "servers", 10 + number, Endpoint("127.0.0.1", 4010 + number)).accept
        for number in range(MANY)
    ]
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn"), _patient) as pool:
        changes = [
            each
            for number in range(MANY)
            for each in (
                pool.submit(_removed, server, gone[number]),
                pool.submit(_accepted, server, files[number]),
                pool.submit(_invited, server),
            )
        ]
        answers = [each.result() for each in changes]
    assert answers[0::3] == answers[1::3] == [True] * MANY
    made = answers[2::3]
    assert len(set(made)) == MANY, "each its own id"
    secrets = Secrets.load(server)
    assert leaf_invitation.leaf_members_of(secrets) == sorted(made)
    known = {each.id for each in Config.load(server).servers}
    assert known == {1, *range(10, 10 + MANY)}
    assert {f"server-{each}" for each in known} <= set(secrets.users)
    assert [path.name for path in server.iterdir() if "-new" in path.name] == []
    assert stat.S_IMODE((server / SECRETS_FILE).stat().st_mode) == 0o600


def _removed_at_once(server: Path) -> None:
    with changing(server, seconds=0.05):
        pytest.fail("two have it")


def test_who_waits_in_vain_changes_nothing_and_is_told_for_whom(server: Path) -> None:
    before = (server / SECRETS_FILE).read_text()
    told = pytest.raises(ConfigError, match=rf"process {os.getpid()}\) .* try again when it has ended")
    with changing(server), told:
        _removed_at_once(server)
    with changing(server, seconds=0.0):
        assert (server / SECRETS_FILE).read_text() == before


def test_a_lock_that_cannot_be_had(server: Path, tmp_path: Path) -> None:
    (server / FILES_LOCK).mkdir()
    with pytest.raises(ConfigError, match="Nothing was changed"):
        _invited(server)
    with pytest.raises(ConfigError, match="cannot be read"):
        leaf_invitation.remove(tmp_path / "nowhere", FIRST_LEAF_MEMBER_ID)


@pytest.mark.parametrize("step", ["write_private", "_accept"])
def test_a_failed_invitation_leaves_nothing(server: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = (server / SECRETS_FILE).read_bytes()
    monkeypatch.setattr(leaf_invitation, step, fails)
    with pytest.raises(OSError, match="No space left"):
        leaf_invitation.invite_and_accept(server, server.parent / "a" / "b")
    assert sorted(path.name for path in server.parent.iterdir()) == [".gitignore", "server-1"]
    assert (server / SECRETS_FILE).read_bytes() == before


def test_what_a_killed_one_has_left_is_removed_and_nothing_else(server: Path) -> None:
    left, kept = server / f"{SECRETS_FILE}-new-{'0f' * 8}", server / f"{SECRETS_FILE}-new-one"
    left.touch()
    kept.touch()
    _invited(server)
    assert not left.exists()
    assert kept.exists()


def _fill(into: Path) -> None:
    with all_or_nothing(into) as made:
        for name in ("ours", "theirs"):
            (into / name).touch()
        made.append(into / "ours")
        raise ConfigError("in vain")


def test_what_others_have_made_stays(tmp_path: Path) -> None:
    for into in (tmp_path / "there", tmp_path / "new"):
        (tmp_path / "there").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match="in vain"):
            _fill(into)
        assert [path.name for path in into.iterdir()] == ["theirs"]
