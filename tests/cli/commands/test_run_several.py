"""Two farms of three servers in three processes, each process with one port for both."""

import asyncio
import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from gf_i2p.cli.commands import run
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, DESTINATION_FILE, MASTER_FILE, SECRETS_FILE
from gf_i2p.node.listener import tenants_by_listener
from gf_i2p.storage.private_files import write_private
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import free_ports, spawn
from tests.cli.program import PATIENCE, gf, gf_json, logged
from tests.transport.harness import ends, foreign_client_context, hang_up

UNKNOWN = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class TwoFarms(LocalFarm):
    """The farm "farm", and the farm `other` in the same processes."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "a")
        endpoints = {server: Config.load(self.node(server)).own_endpoint for server in self.ids}
        make_farm(directory / "b", endpoints, cluster="other", profile="lan", clients=["load"], beside=self.directory)
        self.other = LocalFarm(directory / "b")
        self.other._processes = self._processes
        self.ports = {server: endpoint.port for server, endpoint in endpoints.items()}

    def start(self, server_id: int, *python_arguments: str) -> None:
        directories = [str(farm.node(server_id)) for farm in (self, self.other)]
        command = [sys.executable, *python_arguments, *self.program, "run", *directories]
        self._processes[server_id] = spawn(command, self.log(server_id))

    async def leaders(self) -> tuple[int, int]:
        return await self.leader(), await self.other.leader()


async def ask(port: int, cluster: str) -> bytes:
    """Return all that a stranger gets for a path."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=foreign_client_context())
    writer.write(f"GET /GarlicFarm/{cluster}/1/websocket HTTP/1.1\r\nHost: farm.example:1\r\n\r\n".encode())
    answer = await ends(reader)
    await hang_up(writer)
    return answer


async def refusal(client: Path, seconds: int = 60) -> str | None:
    """Find a farm as a client does; return the complaint, None when the farm has a leader."""
    code, found = await gf_json("find", client, "--timeout", str(seconds))
    return None if code == 0 else str(found)


@pytest.mark.slow  # the damaged log below is a process of two farms, too
async def test_two_farms_in_three_processes(tmp_path: Path) -> None:
    with TwoFarms(tmp_path) as farm:
        farm.start_all()
        leader, _ = await farm.leaders()
        assert len(farm.running) == 3

        # Each farm has a separate log.
        code, answer = await gf_json("post", farm.node(1), "to farm")
        assert code == 0
        code, other = await gf_json("post", farm.other.node(2), "to other")
        assert code == 0
        await farm.exported(answer["index"])
        await farm.other.exported(other["index"])
        for each, text in ((farm, "to farm"), (farm.other, "to other")):
            assert await values(each, 3) == [text]
            assert (await gf("status", each.node(1)))[0] == 0

        # The farms have separate credentials: neither farm knows the other's client.
        assert await refusal(farm.client_file) is None
        assert await refusal(farm.other.client_file) is None
        crossed = tmp_path / "crossed.toml"
        crossed.touch(mode=0o600)
        crossed.write_text(farm.client_file.read_text().replace('cluster = "farm"', 'cluster = "other"'))
        # The command asks again until its time is up.
        assert "refuses user client-load or its key" in str(await refusal(crossed, 15))

        # Strangers learn nothing beyond the name in the request: unknown names have one answer.
        for port in farm.ports.values():
            assert [await ask(port, name) for name in ("third", "Farm", "others")] == [UNKNOWN] * 3
            assert [(await ask(port, name))[:12] for name in ("farm", "other")] == [b"HTTP/1.1 401"] * 2

        # Each farm reloads alone: a mistake in one farm's files changes nothing there, and the other farm takes over
        # new files.
        secrets = farm.other.node(leader) / SECRETS_FILE
        secrets.write_text(secrets.read_text().replace('[users."client-load"]', '[users."client-late"]'))
        config = farm.node(leader) / CONFIG_FILE
        good = config.read_text()
        config.write_text(good.replace('"lan"', '"fast"'))
        farm.send_signal(leader, signal.SIGHUP)
        await until("both have tried", PATIENCE, lambda: reloaded(farm, leader))
        assert "timing.profile" in str((await status(farm, leader))["reload"])
        assert (await status(farm.other, leader))["reload"] == {"number": 1, "error": None, "needs_restart": []}

        # With the new certificate of one farm the farms could not share the listener: nothing changes.
        config.write_text(good)
        (farm.node(leader) / "certificate.pem").write_bytes((tmp_path / "a" / "server-1" / "key.pem").read_bytes())
        farm.send_signal(leader, signal.SIGHUP)
        await until("it says why", PATIENCE, lambda: logged(farm, leader, "have different certificates"))
        assert (await ask(farm.ports[leader], "farm"))[:12] == b"HTTP/1.1 401"

        # A dead process takes a server of each farm along; both farms go on.
        assert farm.kill(leader) == -signal.SIGKILL
        await farm.leaders()
        rest = farm.running
        assert (await gf("post", farm.node(rest[0]), "still there"))[0] == 0
        assert (await gf("post", farm.other.node(rest[0]), "still there"))[0] == 0
        assert [farm.kill(server, signal.SIGTERM) for server in rest] == [0, 0]
        assert not (farm.other.node(rest[0]) / "node.sock").exists()


async def test_farms_with_one_destination_have_one_session(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        beside = tmp_path / "a" if name == "c" else None
        make_farm(tmp_path / name, {1: None}, cluster=name, profile="i2p", clients=[], beside=beside)
    a, b, c = (tmp_path / name / "server-1" for name in ("a", "b", "c"))
    shutil.copy(a / DESTINATION_FILE, b / DESTINATION_FILE)
    text = (b / CONFIG_FILE).read_text()
    (b / CONFIG_FILE).write_text(text.replace(Config.load(b).own_endpoint.host, Config.load(a).own_endpoint.host))
    node_runs = {str(each): run._NodeRun(each) for each in (a, b, c)}
    listeners = tenants_by_listener([node_run.tenant for node_run in node_runs.values()])
    assert [len(listener) for listener in listeners] == [2, 1]
    run._share(node_runs, listeners[0])
    first, second, third = node_runs.values()
    assert first.listener is second.listener is not None
    assert first.i2p is second.i2p is not None
    assert (third.listener, third.i2p) == (None, None)


async def test_a_farm_whose_log_is_damaged_here_is_left_out_and_the_other_served(tmp_path: Path) -> None:
    with TwoFarms(tmp_path) as farm:
        (farm.node(1) / DATABASE_FILE).write_bytes(b"\xff" * 8192)
        farm.start_all()
        await farm.other.leader()
        await until("it says so", PATIENCE, lambda: logged(farm, 1, "not served"))
        await until("the others lead without it", PATIENCE, lambda: goes_on(farm))
        assert (await gf("post", farm.other.node(1), "to other"))[0] == 0
        assert await ask(farm.ports[1], "farm") == UNKNOWN
        assert (await ask(farm.ports[1], "other"))[:12] == b"HTTP/1.1 401"
        assert farm.kill(1, signal.SIGTERM) == 1
        assert "1 of 2 nodes stopped by themselves" in farm.log(1).read_text()


async def test_what_cannot_run_together_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with TwoFarms(tmp_path) as farm:
        code, output, error = await gf("run", farm.node(1), farm.other.node(1), farm.node(1))
        assert (code, output) == (2, "")
        assert "are the same directory: name it once" in error
        (farm.other.node(1) / SECRETS_FILE).chmod(0o644)
        code, _, error = await gf("run", farm.node(1), farm.other.node(1))
        assert code == 2
        assert f"chmod 600 {farm.other.node(1) / SECRETS_FILE}" in error
        (farm.other.node(1) / SECRETS_FILE).chmod(0o600)
        for each, below in ((farm, farm.other), (farm.other, farm)):
            with (each.node(1) / CONFIG_FILE).open("a") as file:
                file.write(f'[router]\n[publish]\nleaf_farm = "{below.node(1)}"\n')
        code, _, error = await gf("run", farm.node(1), farm.other.node(1))
        assert code == 2
        assert f"{farm.node(1)} → {farm.other.node(1)} → {farm.node(1)} is a circle" in error


@pytest.mark.slow  # the damaged log above is a process of two farms, too
async def test_a_farms_master_is_a_leaf_of_the_one_above_as_the_process_itself_knows(tmp_path: Path) -> None:
    """There is no router, so the farm below publishes nothing: the farm's master counts as down."""
    with TwoFarms(tmp_path) as farm:
        keys = DestinationKeys.generate()
        write_private(farm.other.node(1) / MASTER_FILE, keys.encode())
        (port,) = free_ports(1)
        for each, publish in ((farm, f'leaf_farm = "{farm.other.node(1)}"'), (farm.other, 'mode = "meta"')):
            with (each.node(1) / CONFIG_FILE).open("a") as file:
                file.write(f'[router]\nsam = "127.0.0.1:{port}"\n[publish]\nstatus_seconds = 1.0\n{publish}\n')
        farm.start_all()
        await farm.leaders()
        found: list[object] = []

        async def told() -> bool:
            records = [json.loads(value) for value in await values(farm, 1)]
            found[:] = [leaf for record in records for leaf in record["destinations"]]
            return found != []

        await until("a record with a leaf", PATIENCE, told, poll=0.3)
        assert found[0] == {"hash": to_base64(keys.destination.hash), "up": False, "type": 7, "depth": 1}


async def values(farm: LocalFarm, server: int) -> list[str]:
    """Return the posted values, as this server has them."""
    code, page = await gf_json("entries", farm.node(server))
    assert code == 0
    return [entry["value"] for entry in page["entries"] if "value" in entry]


async def status(farm: LocalFarm, server: int) -> dict[str, object]:
    found = await farm.status(server, seconds=PATIENCE)
    assert found is not None
    return found


async def reloaded(farm: TwoFarms, server: int) -> bool:
    return None not in [(await status(each, server))["reload"] for each in (farm, farm.other)]


async def goes_on(farm: LocalFarm) -> bool:
    answers = [await farm.status(server) for server in (2, 3)]
    return all(answer is not None and answer["leader"] in {2, 3} for answer in answers)
