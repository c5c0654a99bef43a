"""Asks a node by the administration API; also makes a node reload files that a command has changed.

The place of a node is its directory, on the node's own machine. On any machine, the place is the file of an
administrator or of a viewer, and one of the farm's servers answers (`gf_i2p.admin.client`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.admin.local_socket import socket_address
from gf_i2p.admin.socket_client import NoListenerError, SocketClosedError, SocketResponse, open_response
from gf_i2p.cli.shared.argument_types import load_client_file
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.meant import no_node_directory
from gf_i2p.cli.shared.terminal import printable, say_if_slow
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, SOCKET_FILE
from gf_i2p.node.files.start_command import start_command
from gf_i2p.storage.private_files import holder

if TYPE_CHECKING:
    from gf_i2p.admin.client import RemoteApi

AGAIN_SECONDS: Final = 1.0
APPLY_SECONDS: Final = 15.0
"""Most seconds to wait until the asked node has applied a committed entry: two heartbeats are enough."""
_CODES: Final[dict[int | None, Exit]] = {400: Exit.USAGE, 413: Exit.USAGE, 503: Exit.DEGRADED}
"""Exit codes by the HTTP status of an error."""
_remotes: Final[dict[Path, "RemoteApi"]] = {}
"""By file, the client that has the login: all requests of one command log in once."""
_told: Final[set[Path]] = set()
"""Files for which the operator was told that the command waits."""


class NoAnswerError(CommandError):
    """No node answers, or the node has closed the connection."""


def ask(place: Path, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
    """Ask the node of this place; see `request_aloud`."""
    return asyncio.run(request_aloud(place, method, path, seconds=seconds, body=body))


def ask_on(place: Path, path: str, *, seconds: float = 10.0) -> Any:
    """Ask the node, and ask again every second while no node answers, because the node may restart.

    The operator is told once. Raises `CommandError` for an answer that is an error.
    """
    told = False
    while True:
        try:
            return ask(place, "GET", path, seconds=seconds)
        except NoAnswerError as error:
            if not told:
                tell(f"gf-i2p: {error}. Asking again.")
                told = True
            time.sleep(AGAIN_SECONDS)


async def request_aloud(place: Path, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
    """Send a request as `request` does. When servers on other machines are slow to answer, say so once on stderr."""
    is_elsewhere = place.is_file()  # noqa: ASYNC240 -- on this machine; first, for it fails in a place that is closed
    asking = request(place, method, path, seconds=seconds, body=body)
    return await (say_if_slow(asking, lambda: _say_waiting(place)) if is_elsewhere else asking)


def _say_waiting(file: Path) -> None:
    remote = _remotes.get(file)
    if remote is None or file in _told:
        return
    _told.add(file)
    how_long = " Through I2P, the first answer may take two minutes." if remote.inside_i2p else ""
    tell(f"gf-i2p: waiting for an answer of the farm's servers.{how_long}")


async def request(place: Path, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
    """Send one request and return the JSON answer within `seconds`; through I2P, dialling has more time.

    Raises `CommandError`, whose text says what to do next.
    """
    if place.is_file():  # noqa: ASYNC240 -- on this machine
        return await _request_from_afar(place, method, path, seconds, body)
    async with _open_response(place, method, path, seconds, body) as response:
        return await response.json()


async def _request_from_afar(file: Path, method: str, path: str, seconds: float, body: object) -> Any:
    from gf_i2p.admin.client import ApiError, RemoteApi  # noqa: PLC0415 -- slow, and only for this way

    try:
        remote = _remotes[file]
    except KeyError:
        remote = _remotes[file] = RemoteApi(load_client_file(file))
    try:
        return await remote.request(method, path, seconds=seconds, body=body)
    except ApiError as error:
        text = printable(str(error))
        if error.status is None and error.outcome == "no":
            raise NoAnswerError(text) from error
        raise CommandError(text, code=_CODES.get(error.status, Exit.FAILED), outcome=error.outcome) from error


async def download(
    directory: Path, path: str, *, max_bytes: int, on_bytes: Callable[[int], None], seconds: float = 60.0
) -> bytes:
    """Download at most `max_bytes` bytes. `on_bytes` is called with the number of bytes so far.

    Raises `CommandError`, whose text says what to do next.
    """
    data = bytearray()
    async with _open_response(directory, "GET", path, seconds, None) as response:
        async for piece in response.pieces():
            data += piece
            if len(data) > max_bytes:
                raise CommandError(
                    f"the node in {directory} sends more than {max_bytes} bytes. If the node is a newer "
                    "version, use the gf-i2p of that version"
                )
            on_bytes(len(data))
    return bytes(data)


@asynccontextmanager
async def _open_response(
    directory: Path, method: str, path: str, seconds: float, body: object
) -> AsyncIterator[SocketResponse]:
    """Send a request; yield the answer, to be read at once. Raises `CommandError`, also for an answer with an error."""
    if not (directory / CONFIG_FILE).exists():
        raise CommandError(no_node_directory(directory))
    try:
        with socket_address(directory / SOCKET_FILE) as name:
            async with asyncio.timeout(seconds), open_response(name, method, path, body) as response:
                if response.status == 200:
                    yield response
                    return
                answer = await response.json()
    except NoListenerError as error:
        start = start_command(directory)
        raise NoAnswerError(f"no node answers in {directory} ({error}). Start it: {start}") from error
    except TimeoutError as error:
        raise NoAnswerError(
            f"the node in {directory} did not answer within {seconds:g} s: see the node's output", outcome="unknown"
        ) from error
    except SocketClosedError as error:
        raise NoAnswerError(
            f"the node in {directory} closed the connection early ({error}): see the node's output", outcome="unknown"
        ) from error
    code = _CODES.get(response.status, Exit.FAILED)
    raise CommandError(answer["error"], code=code, outcome=answer["outcome"])


Ask = Callable[..., Any]
"""Asks the node of a place. Arguments: place, method, path; `seconds` and `body` by name."""


def reload_node(directory: Path, ask: Ask) -> tuple[str, bool | None, list[str]]:
    """Have a running node reload its files.

    Returns a clause for the operator, whether the node has reloaded (None: unknown), and the settings that need a
    restart. Raises `CommandError` when the node says that it has not reloaded.
    """
    pid = holder(directory / DATABASE_FILE)
    if pid is None:
        return "no node runs here now", False, []
    # No signal: when the node runs in a container, `pid` may be the number of another process here.
    try:
        outcome = ask(directory, "POST", "/v1/reload", body={})
    except CommandError:
        return (
            f"process {pid} holds the log here, and does not answer as a node: if that is a node, reload it (SIGHUP)",
            None,
            [],
        )
    if outcome["error"] is not None:
        raise CommandError(
            f"accepted, but the running node (process {pid}) has not reloaded: {outcome['error']}. Mend that fault, "
            f"then reload the node: kill -HUP {pid}",
            outcome="unknown",
        )
    pending = list(outcome["needs_restart"])
    restart = f"; a restart is needed for {', '.join(pending)}" if pending else ""
    return f"the running node (process {pid}) has reloaded{restart}", True, pending
