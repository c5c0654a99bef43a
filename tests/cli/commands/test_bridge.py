"""`gf-i2p bridge serve` in a separate process."""

import asyncio
import json
import os
import signal
import socket
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from gf_i2p.cli.main import main
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import BRIDGE_CERTIFICATE_FILE, BRIDGE_KEY_FILE, CONFIG_FILE, SECRETS_FILE
from gf_i2p.storage.private_files import write_private
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from integration.harness.processes import free_ports
from tests.cli.program import PATIENCE, Program
from tests.cli.shared.test_node_beside import NodeThatAnswers

PASSWORD = "correct horse battery"


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def node(tmp_path: Path, port: int, capsys: pytest.CaptureFixture[str]) -> Path:
    """A node's directory; the node's router is not there."""
    assert main(["init", str(tmp_path), "--server", "1=i2p"]) == 0
    capsys.readouterr()
    directory = tmp_path / "server-1"
    config = (directory / CONFIG_FILE).read_text()
    for (name, usual), free in zip((("sam", 7656), ("i2cp", 7654)), free_ports(2), strict=True):
        config = config.replace(f'{name} = "127.0.0.1:{usual}"', f'{name} = "127.0.0.1:{free}"')
    (directory / CONFIG_FILE).write_text(f'{config}\n[bridge]\nlisten = "127.0.0.1:{port}"\n')
    prepend(directory / SECRETS_FILE, f'bridge_password = "{PASSWORD}"\n')
    return directory


def prepend(path: Path, text: str) -> None:
    path.write_text(text + path.read_text())


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@asynccontextmanager
async def running(directory: Path, *options: str) -> AsyncIterator[str]:
    """Yield the program's first line; at the end the program must stop when told to, without a complaint."""
    output, written = os.pipe()
    with (
        os.fdopen(output) as lines,
        Program(["bridge", "serve", directory, *options], written) as program,
    ):
        os.close(written)
        async with asyncio.timeout(PATIENCE):
            line = await asyncio.to_thread(lines.readline)
        assert line, program.error()
        yield line
        assert await asyncio.to_thread(program.end, signal.SIGTERM) == 0
        assert PASSWORD not in program.error()


def ask(url: str, verify: str | bool, method: str, **params: Any) -> Any:
    call = {"id": 1, "jsonrpc": "2.0", "method": method, "params": params}
    return requests.post(url, json=call, verify=verify, timeout=60).json()


async def test_it_serves_until_it_is_told_to_stop(node: Path, port: int) -> None:
    for _ in range(2):  # the second time with the certificate of the first
        async with running(node, "--json") as line:
            told = json.loads(line)
            certificate = node / BRIDGE_CERTIFICATE_FILE
            assert told == {
                "ok": True,
                "url": f"https://127.0.0.1:{port}/",
                "fingerprint": fingerprint_of_file(certificate),
            }
            assert stat.S_IMODE((node / BRIDGE_KEY_FILE).stat().st_mode) == 0o600
            answer = await asyncio.to_thread(
                ask, told["url"], str(certificate), "Authenticate", API=1, Password=PASSWORD
            )
            token = answer["result"]["Token"]
            answer = await asyncio.to_thread(ask, told["url"], str(certificate), "GetLocalRouterStatus", Token=token)
            assert answer["error"]["code"] == -32011
            assert "SAM at 127.0.0.1" in answer["error"]["message"]
    assert told["fingerprint"] == fingerprint_of_file(node / BRIDGE_CERTIFICATE_FILE)


async def test_plain_on_loopback(node: Path, port: int) -> None:
    replace(node / CONFIG_FILE, "\n[bridge]\nlisten", "\n[bridge]\nplain = true\nlisten")
    async with running(node) as line:
        assert line == f"serving http://127.0.0.1:{port}/\n"
        answer = await asyncio.to_thread(ask, f"http://127.0.0.1:{port}/", True, "Authenticate", API=1, Password="x")
        assert answer["error"]["code"] == -32001
    assert not (node / BRIDGE_KEY_FILE).exists()


def fails(capsys: pytest.CaptureFixture[str], node: Path) -> str:
    assert main(["bridge", "serve", str(node), "--json"]) == 1
    return str(json.loads(capsys.readouterr().out)["error"])


def test_without_a_password(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(node / SECRETS_FILE, f'bridge_password = "{PASSWORD}"\n', "")
    assert "secrets.toml: bridge_password: is missing. Choose one of at least 16 characters" in fails(capsys, node)


def test_a_short_password_is_not_shown(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(node / SECRETS_FILE, PASSWORD, "hunter2")
    error = fails(capsys, node)
    assert "bridge_password" in error
    assert "hunter2" not in error


def test_plain_for_everybody(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(node / CONFIG_FILE, '[bridge]\nlisten = "127.0.0.1', '[bridge]\nplain = true\nlisten = "0.0.0.0')
    assert "remove plain = true, or listen on 127.0.0.1" in fails(capsys, node)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_circle(node: Path, port: int, capsys: pytest.CaptureFixture[str], host: str) -> None:
    replace(node / CONFIG_FILE, "[router]\n", f'[router]\ni2pcontrol = "https://{host}:{port}/"\n')
    prepend(node / SECRETS_FILE, 'i2pcontrol_password = "x"\n')
    assert "is the address of this endpoint" in fails(capsys, node)


def test_without_a_router(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path), "--server", "1=tcp://127.0.0.1:9001"]) == 0
    capsys.readouterr()
    assert "router: is missing" in fails(capsys, tmp_path / "server-1")


def test_a_port_that_is_taken(node: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", port)):
        assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in fails(capsys, node)


def test_half_a_pair(node: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", port)):
        fails(capsys, node)
    key = node / BRIDGE_KEY_FILE
    key.chmod(0o644)
    assert "chmod 600" in fails(capsys, node)
    key.chmod(0o600)
    key.write_text("no key")
    assert "are not a PEM certificate with its unencrypted key" in fails(capsys, node)
    key.unlink()
    assert f"{key} is missing, and {node / BRIDGE_CERTIFICATE_FILE} is there" in fails(capsys, node)


# Plain entries --------------------------------------------------------------------------------------------------------


@pytest.fixture
def master(node: Path) -> DestinationKeys:
    """The node's directory has the keys of a master, and the setting that lets the endpoint sign."""
    keys = DestinationKeys.generate()
    write_private(node / "master.dat", keys.encode())
    replace(node / CONFIG_FILE, "\n[bridge]\nlisten", "\n[bridge]\nsign_entries = true\nlisten")
    return keys


async def publish_entries(node: Path, told: Any, master: DestinationKeys) -> Any:
    """Publish plain entries; return the error. The router is not there, so a signed set comes no further."""
    certificate = str(node / BRIDGE_CERTIFICATE_FILE)
    answer = await asyncio.to_thread(ask, told["url"], certificate, "Authenticate", API=1, Password=PASSWORD)
    token = answer["result"]["Token"]
    entry = {"Hash": DestinationKeys.generate().destination.b32, "Cost": 1, "Expires": int(time.time()) + 600}
    more = {"MasterHash": master.destination.b32, "Entries": [entry], "Token": token}
    return (await asyncio.to_thread(ask, told["url"], certificate, "PublishMetaLS", **more))["error"]


async def test_plain_entries_are_signed_when_the_operator_allows_it(node: Path, master: DestinationKeys) -> None:
    async with running(node, "--json") as line:
        told = json.loads(line)
        error = await publish_entries(node, told, master)
        assert error["code"] == -32011
        assert "I2CP at 127.0.0.1" in error["message"]
        error = await publish_entries(node, told, DestinationKeys.generate())
        assert error["code"] == -32010
        assert "this endpoint does not sign for" in error["message"]
        (node / "master.dat").unlink()
        error = await publish_entries(node, told, master)
        assert error["code"] == -32010
        assert "its keys are missing or unusable" in error["message"]
        assert str(node) not in error["message"]


async def test_plain_entries_are_refused_by_default(node: Path, master: DestinationKeys) -> None:
    replace(node / CONFIG_FILE, "sign_entries = true\n", "")
    async with running(node, "--json") as line:
        error = await publish_entries(node, json.loads(line), master)
        assert error["code"] == -32010
        assert "sign_entries = true in [bridge]" in error["message"]


async def test_plain_entries_beside_a_node_that_still_runs_with_other_settings(
    node: Path, master: DestinationKeys
) -> None:
    async with running(node, "--json") as line, NodeThatAnswers(node, mode="meta"):
        error = await publish_entries(node, json.loads(line), master)
        assert error["code"] == -32010
        assert "signs nothing while the node beside it runs in mode 'meta'" in error["message"]


def test_plain_entries_beside_a_farm_that_publishes(
    node: Path, master: DestinationKeys, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(node / CONFIG_FILE, 'mode = "off"', 'mode = "meta"')
    assert 'bridge.sign_entries: cannot stand beside publish.mode = "meta"' in fails(capsys, node)
