"""`gf-i2p recover` as people and scripts type the command, beside living and dead servers."""

import asyncio
import json
import socket
import time
from pathlib import Path

import pytest
import structlog

from gf_i2p.cli.main import main
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.stopped_log import read_stopped_log
from gf_i2p.node.recovery import survivors
from gf_i2p.node.recovery.survivors import ask_others
from tests.node.farm import NodeFarm
from tests.node.files.another_key import with_another_key
from tests.transport.i2p.i2p_harness import listening
from tests.transport.i2p.locked_router import LockedRouter

PATIENCE = 60.0
"""Seconds for servers that answer, instead of the three seconds after which a server counts as cut off."""


@pytest.fixture(autouse=True)
def quiet() -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # of the nodes, which run in this process


async def recovers(directory: Path, *words: str) -> int:
    return await asyncio.to_thread(main, ["recover", str(directory), "--confirm", "farm", *words])


async def test_beside_servers_that_live_no_second_farm_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "ASK_SECONDS", PATIENCE)
    async with NodeFarm(tmp_path) as farm:
        await farm.leader()
        await farm.stop(3)
        before = {each: each.read_bytes() for each in farm.path(3).glob("*.toml")}
        assert await recovers(farm.path(3), "--json") == 1
        answer = json.loads(capsys.readouterr().out)
        assert (answer["ok"], answer["outcome"]) == (False, "no")
        for server in (1, 2):
            assert f"server {server}: it answers; by its log 1, 2, 3 belong to the farm" in answer["error"]
        assert "there would be two farms" in answer["error"]
        assert "--even-if-others-live" in answer["error"]
        assert before == {each: each.read_bytes() for each in farm.path(3).glob("*.toml")}
        assert [server.id for server in read_stopped_log(farm.path(3)).servers] == [1, 2, 3]
        # A server that has forgotten this server's key, as after a recovery, still counts as alive.
        path = farm.path(3) / SECRETS_FILE
        path.write_text(with_another_key(path.read_text()))
        await farm.stop(2)
        assert await recovers(farm.path(3)) == 1
        error = capsys.readouterr().err
        assert "server 1: it answers, and does not tell" in error
        assert "server 2" not in error
        assert await recovers(farm.path(3), "--even-if-others-live") == 0
        error = capsys.readouterr().err
        assert "other servers of the farm live" in error
        assert "must never run again with their present data" in error, "--confirm prints what it costs"
        assert [server.id for server in read_stopped_log(farm.path(3)).servers] == [3]


async def test_where_nobody_lives_it_goes_on_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "ASK_SECONDS", PATIENCE)
    farm = NodeFarm(tmp_path)
    began = time.monotonic()
    assert await recovers(farm.path(1), "--json") == 0
    assert time.monotonic() - began < PATIENCE, "who refuses is not waited for"
    read = capsys.readouterr()
    assert json.loads(read.out)["ok"] is True
    assert "All entries that only the other servers had are lost" in read.err


async def test_a_wrong_name_is_noticed_before_anybody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.stop(1)
        assert await asyncio.to_thread(main, ["recover", str(farm.path(1)), "--confirm", "other"]) == 2
        assert "not the farm's name" in capsys.readouterr().err


async def test_who_takes_connections_and_is_silent_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survivors, "ASK_SECONDS", 0.1)
    farm = NodeFarm(tmp_path)
    with socket.create_server(("127.0.0.1", farm.endpoints[2].port)):
        others = await ask_others(farm.path(1), Config.load(farm.path(1)).bootstrap.servers[1:])
    assert (others.living, others.not_asked) == ({}, {})


async def test_a_proxy_that_wants_a_login_says_nothing_about_the_servers_behind(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: None, 2: None}, cluster="farm", profile="auto", clients=[])
    path = tmp_path / "server-1"
    async with listening(LockedRouter().get) as port:
        config = path / CONFIG_FILE
        config.write_text(config.read_text().replace("127.0.0.1:4444", f"127.0.0.1:{port}"))
        others = await ask_others(path, Config.load(path).bootstrap.servers[1:])
    assert others.living == {}
    assert "asks for a user and a password: set proxy_user and proxy_password" in others.not_asked[2]


async def test_who_cannot_be_asked_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_farm(tmp_path, {1: None, 2: None}, cluster="farm", profile="auto", clients=[])
    path = tmp_path / "server-1" / CONFIG_FILE
    path.write_text(path.read_text().replace('proxy = "127.0.0.1:4444"', 'proxy = "127.0.0.1:1"'))
    assert await recovers(tmp_path / "server-1") == 0
    error = capsys.readouterr().err
    assert "server 2 could not be asked: it is reached through I2P, and the router's proxy" in error
