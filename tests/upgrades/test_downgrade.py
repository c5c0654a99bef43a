"""Files of a newer version are refused with the way out, and stay as they are.

Each test takes a recorded farm, and raises one number, as a newer version would.
"""

import argparse
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from packaging.version import Version

from gf_i2p.cli.commands import history, snapshot
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.farm.state import FarmState, snapshot_fault
from gf_i2p.netdb.encoding import to_base64url
from gf_i2p.netdb.errors import StructureError
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, HISTORY_DIRECTORY, SECRETS_FILE
from gf_i2p.node.files.leaf_file import LEAF_FILE, LeafFile
from gf_i2p.node.files.stopped_log import examine_stopped_log
from gf_i2p.node.membership import join_code
from gf_i2p.node.membership.join_code import JoinCode, JoinCodeError
from gf_i2p.node.publish.publishing_keys import load_publishing_keys
from gf_i2p.storage.errors import StorageError
from integration.upgrades.contents import FARM_FILE, KEYS_FILE, SNAPSHOT_FILE
from integration.upgrades.record import RECORDED, unpack

SERVER = "server-1"
NEW_KEY = "\n[of_a_newer_version]\nkey = 1\n"
REMOVE = "of_a_newer_version: no such key; check the spelling, or remove a key that only a newer gf-i2p knows"


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """A farm of the newest recorded version."""
    records = (Path(__file__).parents[2] / RECORDED).iterdir()
    unpack(max(records, key=lambda path: Version(path.name)), tmp_path)
    return tmp_path


def test_the_log_of_a_newer_version(farm: Path) -> None:
    log = farm / SERVER / DATABASE_FILE
    with closing(sqlite3.connect(log)) as raw:
        raw.execute("PRAGMA user_version = 5")
    before = log.read_bytes()
    expected = r"newer gf-i2p \(format 5; this one knows 4\): install the newer version again"
    with pytest.raises(StorageError, match=expected):
        examine_stopped_log(log.parent, Config.load(log.parent))
    assert log.read_bytes() == before


def changed(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        assert old in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(old, new, 1))

    return change


def test_the_history_of_a_newer_version(farm: Path) -> None:
    directory = farm / SERVER / HISTORY_DIRECTORY
    changed(b'"format":2', b'"format":3')(next(directory.iterdir()))
    with pytest.raises(StorageError) as refused:
        history.verify(argparse.Namespace(directory=farm / SERVER))
    text = str(refused.value)
    assert "its format 3 is that of a newer gf-i2p; this program reads only format 2: use that version" in text
    assert f"To export with this program, move the whole directory {directory} away" in text


def test_the_saved_snapshot_of_a_newer_version(farm: Path) -> None:
    changed(b"\x89GFS\r\n\x1a\n\0\0\0\1", b"\x89GFS\r\n\x1a\n\0\0\0\2")(farm / SNAPSHOT_FILE)
    expected = "format 2, and this program reads only 1. If a newer gf-i2p wrote the file, install that version here"
    with pytest.raises(CommandError, match=expected):
        snapshot.inspect(argparse.Namespace(file=farm / SNAPSHOT_FILE))


def test_the_state_in_a_snapshot_of_a_newer_version() -> None:
    state = json.loads(FarmState("farm").encode())
    fault = snapshot_fault("farm", json.dumps(state | {"format": state["format"] + 1}).encode())
    assert fault is not None
    assert "this program knows" in fault
    assert "if another version of gf-i2p has written the snapshot, install that version here, too" in fault


def test_the_keys_of_a_newer_version(farm: Path) -> None:
    changed(b"keys 1\n", b"keys 2\n")(farm / KEYS_FILE)
    with pytest.raises((ConfigError, StructureError), match="knows format 1: install a newer gf-i2p here"):
        load_publishing_keys(farm / KEYS_FILE)


def test_the_exported_configuration_of_a_newer_version(farm: Path) -> None:
    changed(b"format = 1", b"format = 2")(farm / FARM_FILE)
    expected = "format: it is 2, and this program knows 1: use the gf-i2p that wrote the file"
    with pytest.raises(ConfigError, match=expected):
        FarmFile.load(farm / FARM_FILE)


def test_a_join_code_of_a_newer_version() -> None:
    parts = [b"gf2", b"farm", b"ticket"]
    data = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    text = "gf" + to_base64url(join_code._checksum(data) + data)
    with pytest.raises(JoinCodeError, match="another version of gf-i2p made the code: use the same version"):
        JoinCode.parse(text)


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (lambda path: Config.load(path.parent), f"{SERVER}/{CONFIG_FILE}"),
        (lambda path: Secrets.load(path.parent), f"{SERVER}/{SECRETS_FILE}"),
        (ClientFile.load, "client-load.toml"),
        (ClientFile.load, "admin-owner.toml"),
        (LeafFile.load, f"leaf-2147483648/{LEAF_FILE}"),
    ],
)
def test_a_setting_of_a_newer_version(load: Callable[[Path], object], name: str, farm: Path) -> None:
    path = farm / name
    path.write_text(path.read_text() + NEW_KEY)
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert str(refused.value) == f"{path}: {REMOVE}"
