"""A `RouterBridge` for programs in any language: an i2pcontrol endpoint with the router's methods and the extension's.

docs/reference/router-interface.md describes the endpoint from outside. A request with a bad token gets the same answer
for every method, whether the method exists or not.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol.extension import (
    CallParameters,
    Code,
    Method,
    ParameterError,
    encode_leaf,
    encode_status,
)
from bridges.i2pcontrol.jsonrpc_client import RpcError
from bridges.i2pcontrol.router_status import SAFE_TUNNELS, I2pControl
from bridges.i2pcontrol.strict_json import Json
from bridges.router_protocol import Publication, RouterBridge
from bridges.serving.caller_access import CallerAccess
from bridges.serving.entry_signer import AnotherPublishesError, EntrySigner
from bridges.serving.http_server import HttpCaller, HttpLimits, HttpServer
from bridges.serving.jsonrpc_server import Call, CallError, error_reply, read_call, reply
from bridges.serving.publications import Publications
from gf_i2p.netdb.errors import LimitError
from gf_i2p.netdb.meta_lease_set import MetaLease

logger = structlog.get_logger()
T = TypeVar("T")

API: Final = 1
"""Version of i2pcontrol's API."""
LOCAL_SECONDS: Final = 30.0
"""Seconds for the router's methods, and for the extension's methods without tunnels unless a call gives `Timeout`."""
REMOTE_SECONDS: Final = 180.0
"""Seconds for the extension's methods that build tunnels, unless a call gives a `Timeout`."""
MAX_MEASUREMENTS: Final = 2
"""Most measurements at once: each has tunnels of its own."""

_AUTHENTICATE: Final = "Authenticate"
_PASSWORD_METHOD: Final = "I2PControl"  # noqa: S105
_SERVICES: Final = "ClientServicesInfo"
_LONG_LISTS: Final = frozenset({"I2PTunnel", "SAM"})
_STANDARD: Final = frozenset({Code.REQUEST, Code.METHOD, Code.PARAMETERS, Code.DEFECT})
"""Error codes of the router that the caller gets unchanged. Codes about tokens concern this server's own token."""
_LOG_SECONDS: Final = 10.0
"""Pause between two log lines about wrong passwords."""


class BridgeServer:
    """Serves one router. Use `start`, then `stop`; the caller closes the bridge.

    Args:
        bridge: does the work of the extension's methods.
        control: the router's own i2pcontrol; None: the endpoint has only the extension's methods.
        password: the password of callers.
        tls: a server's context with its certificate; None speaks plain HTTP, and then listens on loopback only.
        allow_long_lists: whether questions about the router's tunnels and sessions are passed on. `I2pControl` says how
            such a question can crash an i2pd.
        signer: signs plain entries for callers; None: the operator has not allowed that.
    """

    def __init__(
        self,
        bridge: RouterBridge,
        control: I2pControl | None,
        password: str,
        tls: ssl.SSLContext | None,
        *,
        allow_long_lists: bool = False,
        signer: EntrySigner | None = None,
        limits: HttpLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.http = HttpServer(self._answer, tls, limits)
        self.publications = Publications(bridge)
        self._bridge = bridge
        self._control = control
        self._access = CallerAccess(password, clock)
        self._allow_long_lists = allow_long_lists
        self._signer = signer
        self._measuring = 0
        self._logged_at = float("-inf")
        self._methods: dict[str, Callable[[CallParameters], Awaitable[dict[str, Json]]]] = {
            Method.ROUTER_STATUS: self._router_status,
            Method.LEAF_HASH: self._leaf_hash,
            Method.LEAF_STATUS: self._leaf_status,
            Method.MEASURE: self._measure,
            Method.PUBLISH: self._publish,
            Method.STOP: self._stop,
            Method.PUBLICATION: self._publication,
        }

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises `OSError`."""
        return await self.http.start(host, port)

    async def stop(self) -> None:
        """Listen no more; break running calls off."""
        await self.http.stop()
        await self.publications.close()

    # One call ---------------------------------------------------------------------------------------------------------

    async def _answer(self, body: bytes, caller: HttpCaller) -> bytes:
        try:
            call = read_call(body)
        except CallError as error:
            return error_reply(error.id, error.code, str(error))
        try:
            return reply(call.id, await self._result(call, caller))
        except CallError as error:
            return error_reply(call.id, error.code, str(error))
        except ParameterError as error:
            return error_reply(call.id, Code.PARAMETERS, str(error))
        except RouterError as error:
            return error_reply(call.id, _code(error), str(error))
        except Exception:
            logger.exception("a call failed", method=call.method)
            return error_reply(call.id, Code.DEFECT, "a defect of this endpoint: see the endpoint's log")

    async def _result(self, call: Call, caller: HttpCaller) -> dict[str, Json]:
        if call.method == _AUTHENTICATE:
            return await self._authenticate(call, caller)
        self._access.check(call.token)
        caller.authenticated = True
        method = self._methods.get(call.method)
        if method is None:
            return await self._pass_on(call.method, call.params)
        return await method(CallParameters(call.params))

    async def _authenticate(self, call: Call, caller: HttpCaller) -> dict[str, Json]:
        try:
            token = await self._access.authenticate(call.params.get("Password"), caller.source)
        except CallError:
            now = time.monotonic()
            if now - self._logged_at >= _LOG_SECONDS:
                self._logged_at = now
                logger.warning("a wrong password was given", source=caller.source)
            raise
        api = call.params.get("API")
        if api is None:
            raise CallError(Code.NO_API, "API is missing: API must be 1")
        if type(api) is not int or api != API:
            raise CallError(Code.OTHER_API, "this API version is unknown: API must be 1")
        return {"API": API, "Token": token}

    # The router's own methods -----------------------------------------------------------------------------------------

    async def _pass_on(self, method: str, params: dict[str, Json]) -> dict[str, Json]:
        if self._control is None:
            raise CallError(Code.METHOD, f"{method} is unknown: this endpoint has no access to a router's i2pcontrol")
        if method == _PASSWORD_METHOD:
            raise CallError(
                Code.REFUSED,
                f"{method} is not passed on: it would change the password that this endpoint gives the router",
            )
        if method == _SERVICES and not _LONG_LISTS.isdisjoint(params):
            self._check_lists(params)
        control = self._control
        return await _within(LOCAL_SECONDS, control.call(method, params))

    def _check_lists(self, params: dict[str, Json]) -> None:
        if not self._allow_long_lists:
            raise CallError(
                Code.REFUSED,
                "tunnels and sessions are not asked for: i2pd would write a long list past the end of a buffer, and "
                f"crash. For an i2pd with at most {SAFE_TUNNELS} tunnels, the operator of this endpoint may allow the "
                "question",
            )
        if len(params) > 1:
            raise CallError(Code.REFUSED, "ask for one service at a time: i2pd's buffer for the answer is small")

    # The extension ----------------------------------------------------------------------------------------------------

    async def _router_status(self, params: CallParameters) -> dict[str, Json]:
        seconds = params.timeout(LOCAL_SECONDS)
        params.finish()
        return encode_status(await _within(seconds, self._bridge.local_router_status()))

    async def _leaf_hash(self, params: CallParameters) -> dict[str, Json]:
        master, place, seconds = params.hash("MasterHash"), params.place(), params.timeout(LOCAL_SECONDS)
        params.finish()
        return encode_leaf(await _within(seconds, self._bridge.local_leaf_hash(master, place)))

    async def _leaf_status(self, params: CallParameters) -> dict[str, Json]:
        leaf, seconds = params.hash("LeafHash"), params.timeout(LOCAL_SECONDS)
        params.finish()
        return encode_status(await _within(seconds, self._bridge.local_leaf_status(leaf)))

    async def _measure(self, params: CallParameters) -> dict[str, Json]:
        target, seconds = params.hash("Hash"), params.timeout(REMOTE_SECONDS)
        params.finish()
        if self._measuring >= MAX_MEASUREMENTS:
            raise CallError(Code.BUSY, f"{MAX_MEASUREMENTS} measurements are under way: wait for one of them")
        self._measuring += 1
        try:
            return encode_status(await _within(seconds, self._bridge.remote_measured_status(target)))
        finally:
            self._measuring -= 1

    async def _publish(self, params: CallParameters) -> dict[str, Json]:
        if not params.has_entries:
            publication, seconds = params.publication(), params.timeout(REMOTE_SECONDS)
            params.finish()
            return encode_status(await self.publications.publish(publication, seconds))
        master, entries, seconds = params.hash("MasterHash"), params.entries(), params.timeout(REMOTE_SECONDS)
        params.finish()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        publication = await _within(seconds, self._signed(master, entries))
        return encode_status(await self.publications.publish(publication, max(0.0, end - loop.time())))

    async def _signed(self, master: bytes, entries: list[MetaLease]) -> Publication:
        """Sign the plain entries of a call."""
        if self._signer is None:
            raise CallError(
                Code.REFUSED,
                "this endpoint signs no entries, because the operator has not allowed it: sign the set, and give "
                "LeaseSet and SessionConfig; or ask the operator for sign_entries = true in [bridge]",
            )
        self.publications.check_free(master)  # before the signing, which uses a version up
        newest = self.publications.state(master).published
        try:
            return await self._signer.sign(master, entries, newest)
        except LimitError as error:
            raise ParameterError(f"Entries: {error}") from error
        except AnotherPublishesError:
            await self.publications.stop(master)  # a router gives a destination to one client only
            raise

    async def _stop(self, params: CallParameters) -> dict[str, Json]:
        master, seconds = params.hash("MasterHash"), params.timeout(LOCAL_SECONDS)
        params.finish()
        await _within(seconds, self.publications.stop(master))
        return encode_status(self.publications.state(master))

    async def _publication(self, params: CallParameters) -> dict[str, Json]:
        master = params.hash("MasterHash")
        params.finish()
        return encode_status(self.publications.state(master))


async def _within(seconds: float, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        raise CallError(Code.TIMEOUT, f"not done within {seconds:g} s") from error


def _code(error: RouterError) -> int:
    if isinstance(error, RpcError) and error.code in _STANDARD:
        return error.code
    if isinstance(error, RouterRefusedError):
        return Code.REFUSED
    return Code.UNREACHABLE if isinstance(error, RouterUnreachableError) else Code.ROUTER
