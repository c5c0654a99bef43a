"""`gf-i2p find`: finds the servers of a farm and its leader with a client's file, from any machine."""

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.argument_types import load_client_file, seconds
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.terminal import printable, say_if_slow
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.farm_client import FoundFarm, FoundPlace

SECONDS: Final = 30.0
"""Default seconds for finding the leader."""
I2P_SECONDS: Final = 120.0
"""Default seconds when a server is inside I2P: the router may have to build tunnels first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="client-NAME.toml, from `gf-i2p init --client NAME`")
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="seconds for finding the leader (default: 30, or 120 for a farm inside I2P)",
    )


def run(options: argparse.Namespace) -> Answer:
    """Find the farm of this client's file. Raises `CommandError` for a wrong file, and when no server answers."""
    path, timeout = options.file, options.timeout
    configure("error", "text")  # the answer says what is wrong; the logs would say the same again
    file = load_client_file(path)
    if timeout is None:
        timeout = SECONDS if file.i2p is None else I2P_SECONDS
    farm = asyncio.run(_find(file, timeout, quiet=options.json))
    if not any(place.connected for place in farm.places):
        raise CommandError(f"{path}: {farm.trouble}")
    return Answer(
        _as_json(file.cluster, farm),
        _show(file.cluster, farm),
        Exit.OK if farm.trouble is None else Exit.DEGRADED,
        is_report=True,
    )


async def _find(file: ClientFile, seconds: float, *, quiet: bool) -> FoundFarm:
    async with file.open() as client:

        def say() -> None:
            if not quiet:
                tell(f"gf-i2p: looking for the leader of {file.cluster}, {seconds:g} s at most")

        return await say_if_slow(client.find(timeout=seconds), say)


def _as_json(cluster: str, farm: FoundFarm) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "leader": farm.leader,
        "trouble": farm.trouble,
        "log_index": farm.log_index,
        "servers": [
            {
                "id": place.server,
                "endpoint": place.endpoint,
                "leader": place.server == farm.leader,
                "in_file": place.configured,
                "in_farm": place.current,
                "connected": place.connected,
                "error": place.trouble,
            }
            for place in farm.places
        ],
    }


def _show(cluster: str, farm: FoundFarm) -> str:
    leader = "none is known" if farm.leader is None else f"server {farm.leader}"
    source = "by the file, because no server tells which servers belong to the farm"
    if farm.log_index is not None:
        source = f"as of entry {farm.log_index} of the log" if farm.log_index else "with which the farm began"
    lines = [f"farm     {cluster}", f"leader   {leader}", f"servers  {source}"]
    if farm.trouble is not None:
        lines.insert(2, f"trouble  {printable(farm.trouble)}")
    width = max(len(place.endpoint) for place in farm.places)
    return "\n".join(
        [*lines, *(f"  {place.server:>3}  {place.endpoint:<{width}}  {_place(place, farm)}" for place in farm.places)]
    )


def _place(place: FoundPlace, farm: FoundFarm) -> str:
    parts: list[str] = []
    if place.connected:
        parts.append("leader" if place.server == farm.leader and farm.trouble is None else "answers")
    elif place.trouble is None:
        parts.append("not asked")
    if place.current is False:
        parts.append("not in the farm any more, says the farm")
    elif not place.configured:
        parts.append("not in the file")
    if place.trouble is not None:
        parts.append(printable(place.trouble))
    return ", ".join(parts)
