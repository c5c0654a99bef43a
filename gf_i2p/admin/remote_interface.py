"""The remote interface: the administration API on the farm's own port, for users on other machines.

    GET /GarlicFarm/CLUSTER/1/admin/v1/status      Digest, or a key, as for every request to the farm (wire/upgrade.py)

The farm's port has authenticated the user before this module sees a request. A stranger learns nothing that the farm's
port does not tell already, and no second port, certificate or destination is needed. Each connection carries one
request, so no proxy can mix the requests of two users.

An administrator may ask and change, and a viewer may ask. Other users get the 404 of a path that does not exist. Each
user has `REQUESTS_PER_SECOND` on average: some answers are long.

A browser sends the login that a person has typed into it, also when another site's page makes the browser send a
request. So a change must have a body of the type JSON, which no form can send, and no request may name another origin.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gf_i2p.admin.api import ASKER, Api, error_answer, errors_as_json
from gf_i2p.node.access.roles import Role, User
from gf_i2p.raft.token_bucket import TokenBucket
from gf_i2p.transport.served import AuthenticatedConnection

REQUESTS_PER_SECOND: Final = 10.0
REQUESTS_AT_ONCE: Final = 50
_BODY_BYTES: Final = 64 << 10
"""Most bytes of a body. An administrator's entry has less, and large posts have limits at the farm's protocol."""
_SILENT: Final = logging.getLogger(f"{__name__}.unread")
_SILENT.disabled = True
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RemoteInterface:
    """Answers the requests that users of one farm send to the farm's port."""

    def __init__(self, api: Api) -> None:
        """Prepare; `start` comes before the first request."""
        app = web.Application(
            client_max_size=_BODY_BYTES,
            middlewares=[errors_as_json, self._with_asker, _not_for_other_sites, _viewers_change_nothing],
        )
        app.on_response_prepare.append(_private)
        app.add_routes(api.remote_routes)
        # aiohttp logs each request that it cannot read, with a traceback: any user could fill the log.
        self._runner = web.AppRunner(app, access_log=None, logger=_SILENT, shutdown_timeout=1.0)
        self._askers: dict[object, User] = {}
        """By the protocol of a connection, the user at its other end."""
        self._allowances: dict[str, TokenBucket] = {}

    async def start(self) -> None:
        """Be ready for requests."""
        await self._runner.setup()

    async def stop(self) -> None:
        """Close the connections."""
        await self._runner.cleanup()

    def serve(self, caller: AuthenticatedConnection) -> asyncio.Protocol | None:
        """Return the protocol for one request of this user; None for a user who may not use the API."""
        server = self._runner.server
        try:
            user = User(caller.user)
        except ValueError:
            return None
        if server is None or user.role not in {Role.ADMIN, Role.VIEWER}:
            return None
        protocol = server()
        self._askers[protocol] = user
        return _Connection(protocol, self._askers)

    @web.middleware
    async def _with_asker(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        user = self._askers[request.protocol]
        request[ASKER] = user
        now = asyncio.get_running_loop().time()
        allowance = self._allowances.get(user.name)
        if allowance is None:
            allowance = self._allowances[user.name] = TokenBucket(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND, now)
        if allowance.content(now) < 1:
            return error_answer(
                429, f"{user.name} asks more than {REQUESTS_PER_SECOND:g} times a second: ask less often", outcome="no"
            )
        allowance.spend(1)
        return await handler(request)


class _Connection(asyncio.Protocol):
    """aiohttp's protocol for one connection, whose user is forgotten at the end."""

    def __init__(self, protocol: asyncio.Protocol, askers: dict[object, User]) -> None:
        self._protocol = protocol
        self._askers = askers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._askers.pop(self._protocol, None)
        self._protocol.connection_lost(exc)


@web.middleware
async def _viewers_change_nothing(request: web.Request, handler: _Handler) -> web.StreamResponse:
    user: User = request[ASKER]
    if request.method != "GET" and user.role is not Role.ADMIN:
        return error_answer(
            403, f"{user.name} is a viewer, and only an administrator may change the farm", outcome="no"
        )
    return await handler(request)


@web.middleware
async def _not_for_other_sites(request: web.Request, handler: _Handler) -> web.StreamResponse:
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != request.host:  # a browser writes both in the same way
        return error_answer(403, "the request comes from a page of another site, and is refused", outcome="no")
    if request.method != "GET" and request.content_type != "application/json":
        return error_answer(415, "send the body with the header Content-Type: application/json", outcome="no")
    return await handler(request)


async def _private(_: web.Request, response: web.StreamResponse) -> None:
    """Take out the headers that name the program and the clock, and keep the answer out of caches."""
    for name in ("Server", "Date"):
        response.headers.pop(name, None)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
