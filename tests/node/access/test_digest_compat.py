"""A foreign peer that knows only RFC 2069, at a whole node: refused, and accepted by `[compat] digest_without_qop`."""

import asyncio
import hashlib
import re
import ssl
from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE
from tests.node.farm import NodeFarm
from tests.transport.harness import soon

_PATH = "/GarlicFarm/farm/1/config"


async def _answer(farm: NodeFarm, authorization: str = "") -> bytes:
    """Ask server 1 for the Configuration; return the whole answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    endpoint = farm.endpoints[1]
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
    writer.write(f"GET {_PATH} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{authorization}\r\n".encode())
    try:
        return await soon(reader.read())
    finally:
        writer.transport.abort()


async def _log_in(farm: NodeFarm, user: str, password: str) -> list[bytes]:
    """Log in as RFC 2069 says, and repeat the same request; return the first words of both answers."""
    nonce = re.findall(rb'algorithm=MD5, nonce="([^"]+)"', await _answer(farm))[0].decode()

    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    response = md5(f"{md5(f'{user}:farm:{password}')}:{nonce}:{md5(f'GET:{_PATH}')}")
    header = (
        f'Authorization: Digest username="{user}", realm="farm", nonce="{nonce}", uri="{_PATH}", '
        f'response="{response}"\r\n'
    )
    return [(await _answer(farm, header))[:12] for _ in range(2)]


async def test_the_setting_lets_a_peer_without_qop_in_and_a_reload_takes_it_over(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1, digest=["client-test"]) as farm:
        await farm.leader()
        path, node = farm.path(1), farm.nodes[1]
        file = ClientFile.load(tmp_path / "client-test.toml")
        assert file.password is not None
        password = file.password.get_secret_value()
        assert await _log_in(farm, file.user, password) == [b"HTTP/1.1 401"] * 2
        config = path / CONFIG_FILE
        text = config.read_text()
        assert text.count("\n# [compat]") == text.count("\n# digest_without_qop = true") == 1
        config.write_text(text.replace("\n# [compat]", "\n[compat]").replace("\n# digest_without", "\ndigest_without"))
        assert node.reload(Config.load(path), Secrets.load(path)) == []
        assert await _log_in(farm, file.user, password) == [b"HTTP/1.1 200", b"HTTP/1.1 401"], "once for each nonce"
        assert await _log_in(farm, file.user, "wrong") == [b"HTTP/1.1 401"] * 2
        await farm.stop(1)
        await farm.start(1)
        assert await _log_in(farm, file.user, password) == [b"HTTP/1.1 200", b"HTTP/1.1 401"], "at the start, too"
        config.write_text(text)
        assert farm.nodes[1].reload(Config.load(path), Secrets.load(path)) == []
        assert await _log_in(farm, file.user, password) == [b"HTTP/1.1 401"] * 2


@pytest.mark.parametrize("line", ["digest_without_qop = 1", "digest_without = true"])
def test_mistakes_in_the_table_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / CONFIG_FILE).write_text(f"[compat]\n{line}\n")
    with pytest.raises(ConfigError, match=rf"compat\.{line.split(maxsplit=1)[0]}: "):
        Config.load(tmp_path)
