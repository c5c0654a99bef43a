"""Findings of doctor about a node's directory."""

import os
from pathlib import Path

import pytest

from gf_i2p.cli.doctor.checks import CheckResult, CheckState, examine
from gf_i2p.cli.doctor.command import all_checks
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, DESTINATION_FILE, SECRETS_FILE
from gf_i2p.storage.database import Storage
from gf_i2p.storage.private_files import holder
from gf_i2p.wire.endpoint import Endpoint
from tests.cli.file_systems import FileSystem
from tests.cli.routers import having, remedy

PATIENCE = 20.0
OURS = {"configuration", "secrets", "directory", "log", "certificate", "node", "own keys", "history"}


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A farm of one server outside I2P."""
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 9001)}, cluster="farm", profile="lan", clients=[])
    return tmp_path / "server-1"


async def look(directory: Path) -> dict[str, CheckResult]:
    checks = [check for group in all_checks(directory) for check in group if check.name in OURS]
    return {each.name: each.result for each in await examine(checks, lambda _: None, lambda *_: None)}


def chmod(path: Path, mode: int) -> None:
    path.chmod(mode)


def times(directory: Path) -> dict[Path, int]:
    """Give the time of the last change of each file."""
    return {path: path.stat().st_mtime_ns for path in directory.iterdir()}


async def test_a_new_node_outside_i2p(node: Path) -> None:
    found = await look(node)
    assert set(having(CheckState.OK, found)) == {
        "configuration",
        "secrets",
        "directory",
        "log",
        "certificate",
        "history",
    }
    assert found["certificate"].text == "certificate.pem and its key, as the list of servers has it"
    assert having(CheckState.WARN, found) == {"node": "does not run"}
    # Without a router no router is asked, but a finding says that nothing is published.
    assert [len(group) for group in all_checks(node)] == [7, 1, 1]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('profile = "lan"', 'profile = "fast"', "timing.profile: input should be 'auto', 'lan' or 'i2p'"),
        ("[node]", "[node", "is not TOML: "),
        (
            'profile = "lan"',
            'profile = "x"\nspeed = 1',
            "timing.profile: input should be 'auto', 'lan' or 'i2p' (and 1 more)",
        ),
    ],
)
async def test_a_mistake_in_the_configuration(node: Path, old: str, new: str, text: str) -> None:
    path = node / CONFIG_FILE
    path.write_text(path.read_text().replace(old, new, 1))
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"configuration"}
    assert found["configuration"].text.startswith(f"{CONFIG_FILE}: {text}")
    assert str(path) in remedy(found["configuration"])


async def test_secrets_that_others_can_read(node: Path) -> None:
    (node / SECRETS_FILE).chmod(0o640)
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"secrets"}
    assert f"chmod 600 {node / SECRETS_FILE}" in remedy(found["secrets"])


async def test_a_key_that_others_can_read(node: Path) -> None:
    (node / "key.pem").chmod(0o604)
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"certificate"}
    assert f"chmod 600 {node / 'key.pem'}" in remedy(found["certificate"])


async def test_a_directory_that_others_can_write_to(node: Path) -> None:
    chmod(node, 0o770)
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"directory"}
    assert f"chmod go-w {node}" in remedy(found["directory"])


async def test_a_log_that_others_can_read(node: Path) -> None:
    (node / DATABASE_FILE).chmod(0o644)
    assert having(CheckState.FAIL, await look(node)) == {}, "nobody else gets into the directory"
    chmod(node, 0o711)
    found = await look(node)
    assert having(CheckState.FAIL, found) == {"directory": f"others on this machine can read {DATABASE_FILE}"}


async def test_a_directory_on_a_read_only_mount(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FileSystem(monkeypatch, f_flag=os.ST_RDONLY)
    found = await look(node)
    assert having(CheckState.FAIL, found) == {"directory": f"{node} is mounted read-only: no node can run here"}
    mount = next(path for path in (node, *node.parents) if path.is_mount())
    assert f"mount -o remount,rw {mount}\n" in remedy(found["directory"])


async def test_a_directory_that_its_owner_cannot_write_to(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the kernel never says so to root
    found = await look(node)
    assert having(CheckState.FAIL, found) == {"directory": f"{node}: its owner cannot write there"}
    assert f"chmod u+rwx {node}" in remedy(found["directory"])
    monkeypatch.setattr(os, "geteuid", lambda: node.stat().st_uid + 1)
    assert (await look(node))["directory"].state is CheckState.OK, "another user's rights say nothing about the node"


async def test_another_certificate_than_the_others_know(node: Path) -> None:
    path = node / CONFIG_FILE
    text = path.read_text()
    listed = text.rpartition('fingerprint = "')[2].partition('"')[0]
    path.write_text(text.replace(listed, "sha256:" + "0" * 64))
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"certificate"}
    assert listed in remedy(found["certificate"])


async def test_a_log_that_is_missing_or_damaged(node: Path) -> None:
    database = node / DATABASE_FILE
    whole = database.read_bytes()
    database.write_bytes(whole[:4096])
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"log"}
    database.unlink()
    found = await look(node)
    assert found["log"].text.startswith(f"{database} is missing")
    assert not database.exists()


async def test_the_log_of_another_server(node: Path) -> None:
    (node / DATABASE_FILE).unlink()
    Storage.create(node / DATABASE_FILE, cluster="other", server_id=1)
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"log"}


async def test_a_log_in_use_is_left_alone(node: Path) -> None:
    database = node / DATABASE_FILE
    assert holder(database) is None
    storage = Storage.open(database, cluster="farm", server_id=1)
    try:
        before = times(node)
        found = await look(node)
        assert found["log"].text.startswith("in use by process ")
        assert times(node) == before
    finally:
        storage.close()
    assert holder(database) is None
    again = Storage.open(database, cluster="farm", server_id=1)
    again.close()


async def test_keys_of_another_address(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: None}, cluster="farm", profile="i2p", clients=[])
    node = tmp_path / "server-1"
    found = await look(node)
    assert found["own keys"].state is CheckState.OK
    other = DestinationKeys.generate()
    (node / DESTINATION_FILE).write_bytes(other.encode())
    found = await look(node)
    assert set(having(CheckState.FAIL, found)) == {"own keys"}
    assert other.destination.b32 in found["own keys"].text
    assert "put the right file or the right address" in remedy(found["own keys"]).lower()
    (node / DESTINATION_FILE).write_bytes(b"no keys")
    assert set(having(CheckState.FAIL, await look(node))) == {"own keys"}
