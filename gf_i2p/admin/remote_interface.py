"""The remote interface: the administration API on the farm's own port, for users on other machines.

    GET /GarlicFarm/CLUSTER/1/admin/v1/status      Digest, or a key, as for every request to the farm (wire/upgrade.py)

The farm's port has authenticated the user before this module sees a request. A stranger learns nothing that the farm's
port does not tell already, and no second port, certificate or destination is needed. Each connection carries one
request, so no proxy can mix the requests of two users.

An administrator may ask and change, and a viewer may ask. A newcomer may show its ticket, and nothing else. Other users
get the 404 of a path that does not exist. Each user has `REQUESTS_PER_SECOND` on average, `REQUESTS_UNDER_WAY` at the
same time, and `MOST_SECONDS` for each: some answers are long, and a user may not take them.

A browser sends the login that a person has typed into it, also when another site's page makes the browser send a
request. So a change must have a body of the type JSON, which no form can send, and no request may name another origin.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, cast

from aiohttp import web

from gf_i2p.admin.api import ASKER, NEWCOMERS_PATH, Api, error_answer, errors_as_json
from gf_i2p.admin.quiet_answers import SILENT, without_banner
from gf_i2p.node.access.roles import Role, User
from gf_i2p.raft.token_bucket import TokenBucket
from gf_i2p.transport.served import AuthenticatedConnection

REQUESTS_PER_SECOND: Final = 10.0
"""Requests of one user from other machines, on average."""
REQUESTS_AT_ONCE: Final = 50
"""Most requests of such a user at once, after a time without requests."""
REQUESTS_UNDER_WAY: Final = 4
"""Most requests of such a user that are not answered yet."""
MOST_SECONDS: Final = 180.0
"""Seconds after which a connection is closed, whatever is under way. A question for entries may wait for a minute."""
_TAKING_SECONDS: Final = 60.0
"""Seconds after the answer in which the user takes the rest and closes. TLS would cut the rest off after two seconds
(`transport/tls`)."""
_BODY_BYTES: Final = 64 << 10
"""Most bytes of a body. An administrator's entry has less, and large posts have limits at the farm's protocol."""
_SHORT_BYTES: Final = 64 << 10
"""Bytes that even a slow line takes within two seconds."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RemoteInterface:
    """Answers the requests that users of one farm send to the farm's port."""

    def __init__(self, api: Api) -> None:
        """Prepare; `start` comes before the first request."""
        app = web.Application(
            client_max_size=_BODY_BYTES,
            middlewares=[errors_as_json, self._with_asker, _not_for_other_sites, _within_rights],
        )
        app.on_response_prepare.extend([without_banner, _private])
        app.add_routes([*api.remote_routes, api.newcomer_route])
        self._runner = web.AppRunner(app, access_log=None, logger=SILENT, shutdown_timeout=1.0)
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
        if server is None or user.role not in {Role.ADMIN, Role.VIEWER, Role.NEWCOMER}:
            return None
        protocol = server()
        self._askers[protocol] = user
        return _Connection(protocol, self._askers)

    @web.middleware
    async def _with_asker(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        user = self._askers[request.protocol]
        request[ASKER] = user
        if sum(other is not user and other.name == user.name for other in self._askers.values()) >= REQUESTS_UNDER_WAY:
            return error_answer(
                429, f"{user.name} has {REQUESTS_UNDER_WAY} requests under way: wait for an answer first", outcome="no"
            )
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
        self._patient: _Patient | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._patient = _Patient(cast("asyncio.Transport", transport))
        self._protocol.connection_made(cast("asyncio.Transport", self._patient))

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patient is not None:
            self._patient.end()
        self._askers.pop(self._protocol, None)
        self._protocol.connection_lost(exc)


class _Patient:
    """A transport that after a long answer leaves the closing to the peer, who has the whole answer then.

    The peer has `_TAKING_SECONDS` for that. After `MOST_SECONDS` the transport is aborted in any case.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._closes = False
        self._written = 0
        self._loop = asyncio.get_running_loop()
        self._timers = [self._loop.call_later(MOST_SECONDS, transport.abort)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closes or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.write(b"".join(pieces))

    def close(self) -> None:
        if self._written <= _SHORT_BYTES:
            self._transport.close()
        elif not self.is_closing():
            self._closes = True
            self._timers.append(self._loop.call_later(_TAKING_SECONDS, self._transport.abort))

    def end(self) -> None:
        """Note that the connection has ended."""
        for timer in self._timers:
            timer.cancel()


@web.middleware
async def _within_rights(request: web.Request, handler: _Handler) -> web.StreamResponse:
    user: User = request[ASKER]
    if (user.role is Role.NEWCOMER) != (request.path == NEWCOMERS_PATH):
        raise web.HTTPNotFound
    if user.role is Role.NEWCOMER:
        return await handler(request)
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
    if request.method == "POST" and request.content_type != "application/json":
        return error_answer(415, "send the body with the header Content-Type: application/json", outcome="no")
    return await handler(request)


async def _private(_: web.Request, response: web.StreamResponse) -> None:
    """Keep the answer out of caches."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
