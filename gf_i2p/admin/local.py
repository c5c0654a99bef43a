"""The local interface: HTTP on a Unix socket in the node's directory, which only the node's user can open.

    GET  /v1/status                     what the node knows, leader or not
    POST /v1/entries?timeout=SECONDS    {"values": [TEXT, ...]} -> {"index": INDEX OF THE LAST}, when committed
    GET  /v1/entries?first=N&limit=N    committed entries; `stale=1` reads a server that does not lead

An entry's value is a text ("value") when it is one in UTF-8, otherwise "base64". Errors are
{"error": SENTENCE, "outcome": "no" | "unknown"} with a 4xx or 5xx status.
"""

import base64
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from gf_i2p.admin.limits import DEFAULT_TIMEOUT, MAX_PAGE, MAX_PAGE_BYTES, MAX_TIMEOUT
from gf_i2p.admin.socket_path import socket_address
from gf_i2p.node.driver import Driver, NotLeaderError, PostError, PostOutcomeUnknownError
from gf_i2p.storage.errors import StorageError
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ENTRIES_BYTES, MAX_INTEGER, MAX_VALUE_BYTES

logger = structlog.get_logger()

_BODY_BYTES: Final = 6 * MAX_ENTRIES_BYTES  # a JSON string may need six bytes for one


class LocalInterface:
    """Serves one node. `status` describes it."""

    def __init__(self, path: Path, driver: Driver, status: Callable[[], dict[str, Any]]) -> None:
        self._path = path
        self._driver = driver
        self._status = status
        app = web.Application(client_max_size=_BODY_BYTES, middlewares=[_errors_as_json])
        app.add_routes(
            [
                web.get("/v1/status", self._get_status),
                web.post("/v1/entries", self._post_entries),
                web.get("/v1/entries", self._get_entries),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._open_directory = contextlib.ExitStack()

    async def start(self) -> None:
        """Listen. A socket that a killed node left behind gives way; the lock on the database says who runs."""
        await self._runner.setup()
        self._path.unlink(missing_ok=True)
        name = self._open_directory.enter_context(socket_address(self._path))
        old = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, name).start()
        finally:
            os.umask(old)

    async def stop(self) -> None:
        """Close, and remove the socket."""
        await self._runner.cleanup()
        self._open_directory.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    async def _get_status(self, _request: web.Request) -> web.Response:
        return web.json_response(self._status())

    async def _post_entries(self, request: web.Request) -> web.Response:
        timeout = _number(request, "timeout", DEFAULT_TIMEOUT, 0.001, MAX_TIMEOUT)
        values = _values(await _json(request))
        try:
            index = await self._driver.post(values, seconds=timeout)
        except PostError as error:
            return _error(503, str(error), outcome="no")
        except PostOutcomeUnknownError as error:
            return _error(504, str(error), outcome="unknown")
        return web.json_response({"index": index})

    async def _get_entries(self, request: web.Request) -> web.Response:
        first = _whole(request, "first", 1, MAX_INTEGER)
        limit = _whole(request, "limit", 100, MAX_PAGE)
        if request.query.get("stale") == "1":
            last = self._driver.core.applicable
        else:
            try:
                last = await self._driver.read_barrier()
            except NotLeaderError as error:
                return _error(409, str(error), outcome="no")
            except PostError as error:
                return _error(503, str(error), outcome="no")
        entries = self._driver.core.log.slice(first, last, max_entries=limit, max_bytes=MAX_PAGE_BYTES)
        page = [_shown(index, entry) for index, entry in enumerate(entries, first)]
        return web.json_response({"entries": page, "commit": last})


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except (ValueError, LookupError, RecursionError) as error:  # no JSON, no such charset, too deep
        raise _bad_request(f"the body is not JSON: {error}") from error


def _number(request: web.Request, name: str, default: float, low: float, high: float) -> float:
    text = request.query.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise _bad_request(f"{name} must be a number from {low:g} to {high:g}")
    return value


def _whole(request: web.Request, name: str, default: int, high: int) -> int:
    text = request.query.get(name, str(default))
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(high)) else 0
    if not 1 <= value <= high:
        raise _bad_request(f"{name} must be a whole number from 1 to {high}")
    return value


def _values(body: Any) -> list[bytes]:
    if not isinstance(body, dict) or not isinstance(values := body.get("values"), list):
        raise _bad_request('expected {"values": [TEXT, ...]}')
    if not values or len(values) > MAX_ENTRIES or not all(isinstance(value, str) for value in values):
        raise _bad_request(
            f"{len(values)} values were given; one post takes 1 to {MAX_ENTRIES}, all of them texts: post in pieces"
        )
    encoded = [_encoded(number, value) for number, value in enumerate(values, 1)]
    if max(map(len, encoded)) > MAX_VALUE_BYTES or sum(map(len, encoded)) > MAX_ENTRIES_BYTES // 2:
        raise _bad_request(
            f"a value may have {MAX_VALUE_BYTES} bytes (the largest has {max(map(len, encoded))}), and all of one post "
            f"{MAX_ENTRIES_BYTES // 2} (these have {sum(map(len, encoded))}): post in pieces"
        )
    return encoded


def _encoded(number: int, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad_request(f"value {number} is no text that UTF-8 can write ({error.reason})") from error


def _shown(index: int, entry: Entry) -> dict[str, Any]:
    shown = {"index": index, "term": entry.term, "type": entry.value_type.name.lower()}
    if entry.value_type is ValueType.APPLICATION:
        with contextlib.suppress(UnicodeDecodeError):
            return {**shown, "value": entry.value.decode("utf-8")}
    return {**shown, "base64": base64.b64encode(entry.value).decode("ascii")}


def _error(status: int, sentence: str, *, outcome: str) -> web.Response:
    return web.json_response({"error": sentence, "outcome": outcome}, status=status)


def _bad_request(sentence: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=sentence)


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, error.text or error.reason, outcome="no")
    except StorageError as error:
        return _error(500, str(error), outcome="no")
    except Exception:
        logger.exception("a local request failed", method=request.method, path=request.path)
        return _error(500, "a defect of this program; see the node's log for where it is", outcome="unknown")
