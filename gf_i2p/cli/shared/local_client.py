"""Asks a running node over its local socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from gf_i2p.admin.socket_path import socket_address
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.layout import CONFIG_FILE, SOCKET_FILE


async def request(directory: Path, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
    """Send one request and return the JSON answer; it may take so many seconds.

    Raises `CommandError` with what to do next.
    """
    async with _asked(directory, method, path, seconds, body) as response:
        return await response.json()


async def download(
    directory: Path, path: str, *, max_bytes: int, on_bytes: Callable[[int], None], seconds: float = 60.0
) -> bytes:
    """Get bytes, up to so many; `on_bytes` hears how many there are so far.

    Raises `CommandError` with what to do next.
    """
    data = bytearray()
    async with _asked(directory, "GET", path, seconds, None) as response:
        async for piece in response.content.iter_chunked(1 << 18):
            data += piece
            if len(data) > max_bytes:
                raise CommandError(f"the node in {directory} sends more than {max_bytes} bytes: is it a newer version?")
            on_bytes(len(data))
    return bytes(data)


@asynccontextmanager
async def _asked(
    directory: Path, method: str, path: str, seconds: float, body: object
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a request; yields an answer that is none of an error, to be read at once."""
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
                if response.status == 200:
                    yield response
                    return
                answer = await response.json()
    except aiohttp.ClientConnectorError as error:
        raise CommandError(
            f"no node answers in {directory} ({error.strerror or error}). Start it: gf-i2p run {directory}"
        ) from error
    except TimeoutError as error:
        raise CommandError(f"the node in {directory} did not answer within {seconds:g} s", outcome="unknown") from error
    except aiohttp.ClientError as error:
        raise CommandError(f"the node in {directory} broke off: {error}", outcome="unknown") from error
    code = {400: Exit.USAGE, 413: Exit.USAGE, 503: Exit.DEGRADED}.get(response.status, Exit.FAILED)
    raise CommandError(answer["error"], code=code, outcome=answer["outcome"])
