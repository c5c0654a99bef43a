"""`gf-i2p monitoring`, and a real Prometheus that watches a farm of real processes."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from gf_i2p.node.files.file_names import CONFIG_FILE
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import free_ports
from tests.cli.program import PATIENCE, gf, gf_json

needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


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


async def rules(directory: Path) -> Path:
    path = directory / "alerts.yaml"
    path.write_text((await gf("monitoring", "alerts"))[1])
    return path


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self._address = address
        self._session = session

    async def get(self, path: str) -> Any:
        async with self._session.get(f"{self._address}/api/v1/{path}") as response:
            return (await response.json())["data"]

    async def values(self, query: str, label: str) -> Mapping[str, float]:
        """Return the present values of a query, by the value of one label."""
        result = (await self.get(f"query?query={quote(query)}"))["result"]
        return {each["metric"].get(label, ""): float(each["value"][1]) for each in result}

    async def firing(self) -> set[str]:
        alerts = (await self.get("alerts"))["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@asynccontextmanager
async def prometheus(directory: Path, targets: list[str], rule_file: Path) -> AsyncIterator[Prometheus]:
    """Run a Prometheus that asks these targets every second."""
    (port,) = free_ports(1)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rule_file)],
        "scrape_configs": [{"job_name": "gf-i2p", "static_configs": [{"targets": targets}]}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            yield Prometheus(f"http://127.0.0.1:{port}", session)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


@needs_prometheus
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
