"""Asks a running node over its local socket."""

from pathlib import Path
from typing import Any

import aiohttp

from gf_i2p.admin.socket_path import socket_address
from gf_i2p.cli.errors import CommandError, Exit
from gf_i2p.node.layout import CONFIG_FILE, SOCKET_FILE


async def request(directory: Path, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
    """Send one request and return the JSON answer; it may take so many seconds.

    Raises `CommandError` with what to do next.
    """
    if not (directory / CONFIG_FILE).exists():
        raise CommandError(f"{directory} is no node's directory: there is no {CONFIG_FILE} in it")
    limit = aiohttp.ClientTimeout(total=seconds)
    try:
        with socket_address(directory / SOCKET_FILE) as name:
            connector = aiohttp.UnixConnector(name)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit) as session,
                session.request(method, f"http://node{path}", json=body) as response,
            ):
                answer = await response.json()
    except aiohttp.ClientConnectorError as error:
        raise CommandError(
            f"no node answers in {directory} ({error.strerror or error}). Start it: gf-i2p run {directory}"
        ) from error
    except TimeoutError as error:
        raise CommandError(f"the node in {directory} did not answer within {seconds:g} s", outcome="unknown") from error
    except aiohttp.ClientError as error:
        raise CommandError(f"the node in {directory} broke off: {error}", outcome="unknown") from error
    if response.status != 200:
        code = {400: Exit.USAGE, 413: Exit.USAGE, 503: Exit.DEGRADED}.get(response.status, Exit.FAILED)
        raise CommandError(answer["error"], code=code, outcome=answer["outcome"])
    return answer
