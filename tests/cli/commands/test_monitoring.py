"""`gf-i2p monitoring`, and a real Prometheus that watches a farm of real processes."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import aiohttp
import pytest

from gf_i2p.node.files.file_names import CONFIG_FILE
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import free_ports
from integration.harness.prometheus import PROGRAM, prometheus
from tests.cli.program import PATIENCE, gf, gf_json

needs_prometheus = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="prometheus is not installed")


async def test_the_rules_and_the_dashboard_are_printed() -> None:
    code, text, _ = await gf("monitoring", "alerts")
    assert (code, text.count("alert: ")) == (0, text.count("severity: "))
    code, text, _ = await gf("monitoring", "dashboard")
    assert (code, json.loads(text)["title"]) == (0, "Garlic Farm")
    code, answer = await gf_json("monitoring", "alerts")
    assert (code, answer["file"]) == (0, "alerts.yaml")


@needs_prometheus
async def test_prometheus_understands_the_rules(tmp_path: Path) -> None:
    path = await rules(tmp_path)
    process = await asyncio.create_subprocess_exec(
        "promtool", "check", "rules", path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output
    assert b"SUCCESS" in output


@needs_prometheus
@pytest.mark.parametrize(
    ("figures", "when", "fires"),
    [
        (["1x100", "1x100", "1x100"], "10m", False),
        (["1x100", "0x100", "0x100"], "10m", False),  # two servers in a minority
        (["0x100", "0x100", "0x100"], "10m", True),
        (["1x10 _x90", "1x100", "1x100"], "30m", False),  # one server is down
        (["1x10 _x90", "1x10 _x90", "1x10 0x90"], "30m", True),  # two servers are down
        (["1x10 _x90", "1x10 _x90", "1x10 _x90"], "30m", True),  # all servers are down, and no figure is left
        (["1x10 _x90", "1x10 _x90", "1x10 _x90"], "95m", False),  # the farm was taken away long ago
    ],
)
async def test_the_loss_of_the_leader_is_told(tmp_path: Path, figures: list[str], when: str, fires: bool) -> None:
    """The parameters are the minutes of `gf_i2p_has_leader` of three servers, by promtool's notation."""
    series = [
        {"series": f'gf_i2p_has_leader{{cluster="farm",server="{server}"}}', "values": values}
        for server, values in enumerate(figures, 1)
    ]
    alert = 'ALERTS{alertname="GarlicFarmLeaderLost",alertstate="firing",cluster="farm",severity="critical"}'
    expected = {"expr": alert, "eval_time": when, "exp_samples": [{"labels": alert, "value": 1}] if fires else []}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [expected]}
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps({"rule_files": [str(await rules(tmp_path))], "tests": [test]}))
    process = await asyncio.create_subprocess_exec(
        "promtool", "test", "rules", path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def rules(directory: Path) -> Path:
    path = directory / "alerts.yaml"
    path.write_text((await gf("monitoring", "alerts"))[1])
    return path


@needs_prometheus
@pytest.mark.slow  # twelve seconds; the quick tests above read the rules and the figures
async def test_a_real_prometheus_sees_a_farm_lose_its_majority(tmp_path: Path) -> None:
    ports = free_ports(3)
    # In production the rules wait for minutes before they fire.
    quick = await rules(tmp_path)
    quick.write_text("\n".join(line for line in quick.read_text().split("\n") if not line.strip().startswith("for: ")))
    with LocalFarm(tmp_path / "farm") as farm:
        for server, port in zip(farm.ids, ports, strict=True):
            with (farm.node(server) / CONFIG_FILE).open("a") as file:
                file.write(f'\n[monitoring]\nlisten = "127.0.0.1:{port}"\n')
        farm.start_all()
        leader = await farm.leader()
        async with prometheus(tmp_path, [f"127.0.0.1:{port}" for port in ports], quick) as watcher:

            async def all_seen() -> bool:
                try:
                    return set((await watcher.values("gf_i2p_has_leader == 1", "server")).values()) == {1.0} and len(
                        await watcher.values("gf_i2p_has_leader", "server")
                    ) == len(ports)
                except aiohttp.ClientError:
                    return False  # Prometheus starts

            await until("Prometheus sees all servers with a leader", PATIENCE, all_seen)
            assert await watcher.values("gf_i2p_is_leader == 1", "server") == {str(leader): 1.0}
            assert (await watcher.get("rules"))["groups"][0]["rules"]
            assert all(rule["health"] != "err" for rule in (await watcher.get("rules"))["groups"][0]["rules"])
            assert not {"GarlicFarmLeaderLost", "GarlicFarmMinority"} & await watcher.firing()
            last = next(server for server in farm.ids if server != leader)
            for server in farm.ids:
                if server != last:
                    farm.kill(server)

            async def fired() -> bool:
                return {"GarlicFarmMinority", "GarlicFarmServerLost"} <= await watcher.firing()

            await until("the alerts fire", PATIENCE, fired)
            assert (await watcher.values("gf_i2p_servers_reached", "server"))[str(last)] == 1.0

            async def leader_lost() -> bool:
                return "GarlicFarmLeaderLost" in await watcher.firing()

            await until("the lost leader is told", PATIENCE, leader_lost)
