"""A dead server is replaced by a new one on the same machine, by docs/how-to/lost-servers.md, with real processes."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.node.files.config import Config, Secrets
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import free_ports
from tests.cli.program import PATIENCE, gf, gf_json


@pytest.mark.slow  # four nodes; test_remote_members.py adds and removes servers
async def test_a_dead_server_is_replaced_on_its_machine_and_all_restart(tmp_path: Path) -> None:
    with LocalFarm(tmp_path) as farm:
        farm.start_all()
        await farm.leader()
        dead, *others = _but_the_leader_first(await farm.leader(), farm.ids)
        place = str(Config.load(farm.node(dead)).own_endpoint)
        farm.kill(dead)
        farm.ids = tuple(others)
        leader = await farm.calm()

        code, failure = await gf_json("members", "invite", farm.node(leader), f"4={place}", "--into", tmp_path)
        assert code == 1, "it belongs to the farm"
        assert f"server {dead} has the endpoint {place}" in failure["error"]
        assert f"gf-i2p members remove {farm.node(leader)} {dead} --force" in failure["error"]
        assert not farm.node(4).exists()

        code, _ = await gf_json("members", "remove", farm.node(leader), str(dead), "--force")
        assert code == 0
        code, text, error = await gf("members", "invite", farm.node(leader), f"4={place}", "--into", tmp_path)
        assert (code, error) == (0, "")
        assert f"server {dead}, which had this endpoint, is out of the farm: the new files leave" in text
        for server in others:
            code, answer = await gf_json("members", "accept", farm.node(server), tmp_path / "accept-server-4.toml")
            assert (code, answer["changed"], answer["dropped"], answer["reloaded"]) == (0, True, [dead], True)
            assert answer["needs_restart"] == []
            assert {each.id for each in Config.load(farm.node(server)).servers} == {*others, 4}
            assert f"server-{dead}" not in Secrets.load(farm.node(server)).users
        farm.start(4)
        farm.ids = (*others, 4)
        await until("it is a member", PATIENCE, lambda: members(farm, leader, others, 4))
        code, failure = await gf_json("members", "invite", farm.node(leader), f"{dead}=i2p", "--into", tmp_path / "x")
        assert code == 1, "the id was used"
        assert f"server {dead} has left the farm, and ids are never used twice" in failure["error"]

        for server in farm.ids:
            farm.kill(server, signal.SIGTERM)
        for server in farm.ids:
            farm.start(server)
        leader = await farm.leader()
        code, _ = await gf_json("post", farm.node(leader), "after it")
        assert code == 0
        await farm.converged()


async def test_what_the_running_node_does_with_an_accepted_file_is_told(tmp_path: Path) -> None:
    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        (port,) = free_ports(1)
        code, _ = await gf_json("members", "invite", farm.node(1), f"2=tcp://127.0.0.1:{port}", "--into", tmp_path)
        assert code == 0
        (farm.node(1) / "certificate.pem").write_text("no certificate")
        code, failure = await gf_json("members", "accept", farm.node(1), tmp_path / "accept-server-2.toml")
        assert (code, failure["outcome"]) == (1, "unknown")
        assert "has not reloaded: " in failure["error"]
        assert "certificate.pem" in failure["error"]


async def test_a_node_is_asked_and_no_process_signalled_by_number(tmp_path: Path) -> None:
    """The process number may be another process's, because the node may run in a container."""
    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        (port,) = free_ports(1)
        code, _ = await gf_json("members", "invite", farm.node(1), f"2=tcp://127.0.0.1:{port}", "--into", tmp_path)
        assert code == 0
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
        try:
            (farm.node(1) / "log.sqlite-lock").write_text(f"{other.pid}\n")
            code, answer = await gf_json("members", "accept", farm.node(1), tmp_path / "accept-server-2.toml")
            assert (code, answer["reloaded"]) == (0, True)
            assert other.returncode is None
        finally:
            other.kill()
            await other.wait()


async def test_a_process_that_is_no_node_is_not_signalled(tmp_path: Path) -> None:
    with LocalFarm(tmp_path, servers=1) as farm:
        (port,) = free_ports(1)
        code, _ = await gf_json("members", "invite", farm.node(1), f"2=tcp://127.0.0.1:{port}", "--into", tmp_path)
        assert code == 0
        holds = (
            "import sys, time; from pathlib import Path; from gf_i2p.storage.private_files import Lock; "
            "lock = Lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", holds, str(farm.node(1) / "log.sqlite")), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"held\n"
            code, text, _ = await gf("members", "accept", farm.node(1), tmp_path / "accept-server-2.toml")
            assert code == 0
            assert f"process {process.pid} holds the log here, and does not answer as a node" in text
            assert process.returncode is None
        finally:
            process.kill()
            await process.wait()


def _but_the_leader_first(leader: int, ids: tuple[int, ...]) -> list[int]:
    return [*(server for server in ids if server != leader), leader]


async def members(farm: LocalFarm, server: int, others: list[int], new: int) -> bool:
    answer: dict[str, Any] | None = await farm.status(server)
    return (
        answer is not None
        and answer["configuration_committed"]
        and sorted(each["id"] for each in answer["servers"]) == sorted([*others, new])
    )
