"""Questions to servers for the farm's Configuration. Each question has a connection of its own."""

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, cast

from gf_i2p.transport.client.known_servers import KnownServers, ServerEndpoint
from gf_i2p.transport.errors import (
    DialError,
    PeerRefusedError,
    ProxyAccessError,
    TransportError,
    UnreachableError,
    challenged_again,
    dial_error_of,
)
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.login_channel import channel_to
from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.configuration_get import ConfigurationGet
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import Challenges, ClientGet, NotFound, OutcomeT, Retry
from gf_i2p.wire.limits import HANDSHAKE_SECONDS
from gf_i2p.wire.log_values import Configuration


async def fetch_configuration(
    transport: Transport,
    endpoint: Endpoint,
    cluster: str,
    credentials: Credentials,
    *,
    seconds: float = HANDSHAKE_SECONDS,
) -> Configuration | None:
    """Ask one server for the Configuration, by each way of the transport until one works.

    The answer is the newest Configuration in that server's log: it may be old, or not committed.

    Args:
        transport: the way to the endpoint.
        endpoint: the server.
        cluster: the farm's name.
        credentials: the client's credentials for this server. The object remembers the server's last challenge. So the
            credentials of a link to this server save one round trip.
        seconds: time limit for all ways together.

    Returns:
        The Configuration; None when the server answers 404: the server tells this user no Configuration, or has no farm
        of this name.

    Raises:
        TransportError: no answer came, or the answer is not a farm node's; the text says what to check.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    patience = transport.patience(endpoint)
    ways = 1 if math.isinf(patience) else 2
    for way in range(ways):
        share = min(patience, end - loop.time())
        inquiry = _Inquiry(transport, endpoint, cluster, credentials, way)
        try:
            return await inquiry.ask(share)
        except TransportError:
            if way + 1 == ways or loop.time() >= end:
                raise
    raise AssertionError("the last way either answers or fails")


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """A question to one server by one way."""

    transport: Transport
    endpoint: Endpoint
    cluster: str
    credentials: Credentials
    way: int

    async def ask(self, seconds: float) -> Configuration | None:
        end = asyncio.get_running_loop().time() + seconds
        try:
            challenges = Challenges(self.credentials.others)
            while isinstance(outcome := await self._request(end, seconds), Retry):
                if not challenges.admit(outcome):
                    raise challenged_again(outcome, str(self.endpoint), self.credentials.user)
        except NotFound:
            return None
        except RemoteProtocolError as error:
            raise dial_error_of(error)(f"{self.endpoint}: {error}") from error
        return outcome

    async def _request(self, end: float, seconds: float) -> Configuration | Retry:
        loop = asyncio.get_running_loop()
        caller = GetProtocol(
            ConfigurationGet(
                host=self.endpoint.authority,
                cluster=self.cluster,
                credentials=self.credentials,
                now=loop.time(),
                entropy=os.urandom,
                proxied=self.transport.proxied(self.endpoint, self.way),
                proxy_login=self.transport.proxy_login(self.endpoint, self.way),
            ),
            self.endpoint,
        )
        connection = await self.transport.dial(
            self.endpoint, lambda: caller, deadline=end - loop.time(), attempt=self.way
        )
        try:
            async with asyncio.timeout_at(end):
                outcome = await caller.outcome
        except TimeoutError:
            raise UnreachableError(
                f"{self.endpoint} did not answer the HTTP request within {round(seconds, 2):g} s: check that it runs, "
                "and that the port is a farm node's."
            ) from None
        finally:
            connection.abort()
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            raise UnreachableError(
                f"{self.endpoint}: the connection ended without an answer: check that the server runs, and "
                "that the port is a farm node's."
            )
        return outcome


class GetProtocol(StreamProtocol, Generic[OutcomeT]):
    """Sends one request and takes the answer."""

    def __init__(self, get: ClientGet[OutcomeT], endpoint: Endpoint) -> None:
        self._get = get
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self.asked_at = self.answered_at = 0.0
        """Times of the request and of the whole answer, by the loop's clock."""
        # An error is a result and no exception of the future: no task awaits the future when dialling has failed. None:
        # the connection has ended.
        self.outcome: asyncio.Future[OutcomeT | Retry | RemoteProtocolError | None] = self._loop.create_future()
        self.broken_by: Exception | None = None
        """The error that broke the connection; None while the connection is open, and when the peer closed it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self.asked_at = self._loop.time()
        cast("asyncio.Transport", transport).write(self._get.request(channel_to(self._endpoint, transport)))

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        if self.outcome.done():
            return
        try:
            outcome = self._get.receive(data, self._loop.time())
        except RemoteProtocolError as error:
            self.outcome.set_result(error)
            return
        if outcome is not None:
            self.answered_at = self._loop.time()
            self.outcome.set_result(outcome)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that no answer comes any more."""
        if not self.outcome.done():
            self.broken_by = exc
            self.outcome.set_result(None)


async def ask_for_newer(
    transport: Transport, servers: Mapping[Endpoint, Credentials], cluster: str, *, newer_than: int, seconds: float
) -> Configuration | None:
    """Ask these servers side by side, until one tells a Configuration whose `log_index` is above `newer_than`.

    A server that was away calls this with the `log_index` of its own newest Configuration. A newer Configuration shows
    whether the calling server still belongs to the farm. A server that was away just as long has no newer
    Configuration, so its answer does not end the search. The caller must judge whether the Configuration is committed.

    Returns:
        The newer Configuration; None when all servers were asked in vain. `seconds` limits the whole search.
    """
    waiting = {
        asyncio.ensure_future(fetch_configuration(transport, server, cluster, credentials, seconds=seconds))
        for server, credentials in servers.items()
    }
    try:
        while waiting:
            finished, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                with contextlib.suppress(TransportError):  # a server that does not tell is no answer
                    configuration = task.result()
                    if configuration is not None and configuration.log_index > newer_than:
                        return configuration
    finally:
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
    return None


@dataclass(frozen=True, slots=True)
class Survey:
    """The Configurations that servers tell, by server id."""

    configurations: Mapping[int, Configuration]
    """The newest Configuration in each server's log, committed or not."""
    troubles: Mapping[int, str]
    """Why the other servers have told nothing: a sentence each."""
    undiallable: Mapping[int, str]
    """By server id, why a told endpoint cannot be dialled, such as for want of a known certificate: a sentence each."""
    refused: frozenset[int] = frozenset()
    """The servers in `troubles` that refused the client, or have no such farm: a further question is of no use."""


async def ask_all(
    transport: Transport,
    directory: KnownServers,
    cluster: str,
    credentials: Callable[[ServerEndpoint], Credentials],
    *,
    seconds: float,
) -> Survey:
    """Ask all servers of the directory side by side, then the servers that the answers name. `seconds`: for each."""
    configurations: dict[int, Configuration] = {}
    troubles: dict[int, str] = {}
    refused: set[int] = set()

    async def ask(place: ServerEndpoint) -> None:
        try:
            configuration = await fetch_configuration(
                transport, place.endpoint, cluster, credentials(place), seconds=seconds
            )
        except TransportError as error:
            troubles[place.server] = str(error)
            not_asked = (UnreachableError, PeerRefusedError, ProxyAccessError)
            if isinstance(error, DialError) and not isinstance(error, not_asked):
                refused.add(place.server)
            return
        if configuration is None:
            troubles[place.server] = f"{place.endpoint} does not tell who belongs to {cluster} (404)."
            refused.add(place.server)
            return
        directory.learn(configuration)
        if place.server not in configurations or configurations[place.server].log_index < configuration.log_index:
            configurations[place.server] = configuration

    asked_places: tuple[ServerEndpoint, ...] = ()
    while new_places := [place for place in directory.places if place not in asked_places]:
        asked_places += tuple(new_places)
        await asyncio.gather(*map(ask, new_places))
    undiallable = directory.troubles
    remaining_troubles = {
        server: why for server, why in (troubles | undiallable).items() if server not in configurations
    }
    return Survey(configurations, remaining_troubles, undiallable, frozenset(refused & remaining_troubles.keys()))
