"""Words about the servers of an old farm, and commands for new servers, when one server begins the farm anew."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.node.files.config import Config
from gf_i2p.node.files.start_command import start_command
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.log_values import ClusterServer

UNKNOWN: Final = "ENDPOINT"
"""In a command, in the place of an endpoint that cannot be read: the operator writes the endpoint there."""
_INTO: Final = "new-servers"
_NEW: Final = "New servers have new certificates, and inside I2P new addresses"


def must_not_run_again(others: Sequence[int], *, further: str = "") -> str:
    """Say that these servers must never run again, as a line of a list; "" for no servers.

    `further`: more servers that must not, as in "any other server of the old farm".
    """
    noun = "server" if len(others) == 1 else "servers"
    named = [f"{noun} {_listed(others)}"] if others else []
    subject = " and ".join((*named, *([further] if further else [])))
    if not subject:
        return ""
    its = "its" if len(others) + bool(further) == 1 else "their"
    forgets = "that server" if its == "its" else "those servers"
    return (
        f"- {subject[0].upper()}{subject[1:]} must never run again with {its} present data: there would be two farms "
        f"of this name. This server forgets the keys and passwords of {forgets}. So {forgets} cannot log in here, but "
        f"clients could still find {forgets}.\n"
    )


def invitations(directory: Path, servers: Iterable[ClusterServer]) -> tuple[str, ...]:
    """Return a command for each new server that takes the place of an old one.

    `directory`: of the server that begins the farm anew. `servers`: of the old farm, perhaps with that server. A new
    server gets a new id. Raises `ConfigError` when the settings in `directory` cannot be read.
    """
    config = Config.load(directory)
    own, listed = config.node.id, list(servers)
    known = (
        *(each.id for each in listed),
        *(each.id for each in config.servers),
        *(each.id for each in config.removed),
    )
    beside = directory.parent if directory.name else directory.absolute().parent  # the parent of "." is "."
    administrators = sorted(beside.glob("admin-*.toml"))
    if administrators:
        place, way = administrators[0], "--code"
    else:
        place, way = directory, f"--into {_INTO}"
    commands: list[str] = []
    number = max(own, *known)
    for server in sorted(listed, key=lambda each: each.id):
        endpoint = _endpoint(server.endpoint)
        if server.id == own or endpoint == str(config.own_endpoint):
            continue
        number += 1
        commands.append(f"gf-i2p members invite {shlex.quote(str(place))} {shlex.quote(f'{number}={endpoint}')} {way}")
    return tuple(commands)


def next_steps(directory: Path, commands: Sequence[str]) -> str:
    """Say how the farm goes on: run its only server, then take new servers in. `commands`: of `invitations`."""
    lines = [f"  {start_command(directory)}"]
    if commands:
        lines += [
            "Then take new servers in, one after the other, each with an empty directory:",
            *(f"  {command}" for command in commands),
            f"{_NEW}: change each client's file that names the old ones.",
        ]
    return "\n".join(lines)


def _endpoint(text: str) -> str:
    """Return how `members invite` takes an endpoint of the old farm. Inside I2P, a new server has a new address."""
    try:
        endpoint = Endpoint.parse(text)
    except EndpointError:
        return UNKNOWN
    return "i2p" if endpoint.is_i2p else str(endpoint)


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, sorted(numbers))
    return f"{', '.join(most)} and {last}" if most else last
