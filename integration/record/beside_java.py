"""The common part of recorders that need a Java router: find the network, record, and write the file."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from integration.testnet.router_network import RouterNetwork

Record = Callable[[RouterNetwork], Awaitable[dict[str, Any]]]


def write_recording(file: Path, record: Record, *, usage: str | None) -> int:
    """Record on the network around this process, and write the file; return the exit code.

    `usage`: printed when there is no network around this process.
    """
    network = RouterNetwork.here()
    if network is None:
        print(usage)
        return 1
    found = asyncio.run(_recorded(network, record))
    if found is None:
        print("this network has no Java router: bring it up with --java 2")
        return 1
    file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 0


async def _recorded(network: RouterNetwork, record: Record) -> dict[str, Any] | None:
    """Return the recording; None when no router is a Java router."""
    async with network:
        return await record(network) if network.of("java") else None
