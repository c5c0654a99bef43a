"""A real Prometheus that watches nodes, and its answers."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from integration.harness.processes import Processes, free_ports

PROGRAM: Final = "prometheus"
"""Debian's package has the same name, and has `promtool`, too."""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self._address = address
        self._session = session

    async def get(self, path: str) -> Any:
        """Return the data of an answer of the API. Raises `aiohttp.ClientError`, as while Prometheus starts."""
        async with self._session.get(f"{self._address}/api/v1/{path}") as response:
            return (await response.json())["data"]

    async def values(self, query: str, label: str) -> Mapping[str, float]:
        """Return the present values of a query, by the value of one label."""
        result = (await self.get(f"query?query={quote(query)}"))["result"]
        return {each["metric"].get(label, ""): float(each["value"][1]) for each in result}

    async def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = (await self.get("alerts"))["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@asynccontextmanager
async def prometheus(
    directory: Path, targets: Sequence[str], rule_file: Path, *, seconds: int = 1
) -> AsyncIterator[Prometheus]:
    """Run a Prometheus that asks these targets ("HOST:PORT"), and looks at the rules, every `seconds`."""
    (port,) = free_ports(1)
    config = {
        "global": {
            "scrape_interval": f"{seconds}s",
            "scrape_timeout": f"{seconds}s",
            "evaluation_interval": f"{seconds}s",
        },
        "rule_files": [str(rule_file)],
        "scrape_configs": [{"job_name": "gf-i2p", "static_configs": [{"targets": list(targets)}]}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        PROGRAM,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with Processes() as processes:
        processes.start("prometheus", command, directory / "prometheus.log")
        async with aiohttp.ClientSession() as session:
            yield Prometheus(f"http://127.0.0.1:{port}", session)
