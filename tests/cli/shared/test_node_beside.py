"""The endpoint asks the node of its directory: gf_i2p/cli/shared/node_beside.py."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from aiohttp import web

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from gf_i2p.admin.local_socket import socket_address
from gf_i2p.cli.shared.node_beside import NodeBeside
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, SOCKET_FILE
from gf_i2p.storage import private_files
from gf_i2p.storage.private_files import Lock

LEAF = "the-tunnel"


class NodeThatAnswers:
    """A node's lock, and a node's socket that tells this part of a status."""

    def __init__(self, directory: Path, **farm: Any) -> None:
        self._directory = directory
        self._farm = farm
        app = web.Application()
        app.add_routes([web.get("/v1/status", self._status)])
        self._runner = web.AppRunner(app)
        self._lock: Lock | None = None

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response({"farm": self._farm})

    async def __aenter__(self) -> Self:
        self._lock = Lock(self._directory / DATABASE_FILE)
        await self._runner.setup()
        with socket_address(self._directory / SOCKET_FILE) as name:
            await web.UnixSite(self._runner, name).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        assert self._lock is not None
        self._lock.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / CONFIG_FILE).touch()
    return tmp_path


async def test_no_node_runs(directory: Path) -> None:
    beside = NodeBeside(directory)
    still = await beside.check_publishes_nothing()
    assert still()
    with pytest.raises(RouterError, match="does not run"):
        await beside.leaf_connections(LEAF)
    async with NodeThatAnswers(directory, mode="off"):
        assert not still(), "the mode of the new node is not known"
    assert still()


@pytest.mark.parametrize("mode", ["meta", "failover"])
async def test_a_node_that_may_publish(directory: Path, mode: str) -> None:
    async with NodeThatAnswers(directory, mode=mode):
        with pytest.raises(RouterRefusedError, match=f"runs in mode '{mode}'"):
            await NodeBeside(directory).check_publishes_nothing()


@pytest.mark.parametrize("mode", ["off", "dry-run"])
async def test_a_node_that_never_publishes(directory: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    beside = NodeBeside(directory)
    async with NodeThatAnswers(directory, mode=mode):
        still = await beside.check_publishes_nothing()
        assert still()
    assert still(), "the node has stopped"
    monkeypatch.setattr(private_files, "_RUN", "another")  # in a container each start has the same process id
    async with NodeThatAnswers(directory, mode="meta"):
        assert not still()


async def test_a_node_that_does_not_answer(directory: Path) -> None:
    lock = Lock(directory / DATABASE_FILE)
    try:
        for asked in (NodeBeside(directory).check_publishes_nothing(), NodeBeside(directory).leaf_connections(LEAF)):
            with pytest.raises(RouterUnreachableError, match="runs, and does not answer") as caught:
                await asked
            assert str(directory) not in str(caught.value)
    finally:
        lock.close()


async def test_the_leafs_connections(directory: Path) -> None:
    beside = NodeBeside(directory)
    async with NodeThatAnswers(directory, mode="meta", leaf_loads={LEAF: {"connections": 3, "max_connections": 9}}):
        assert await beside.leaf_connections(LEAF) == 3
    for farm in ({"leaf_loads": {"another": {"connections": 3}}}, {}):  # not set yet, and an older version
        async with NodeThatAnswers(directory, **farm):
            with pytest.raises(RouterError, match=r"counts no connections, because .* cannot listen: the operator"):
                await beside.leaf_connections(LEAF)
