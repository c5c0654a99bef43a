"""A client of the farm: posts values to whoever leads."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Self

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.base import Transport
from gf_i2p.transport.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.transport.link import Link
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import HANDSHAKE_SECONDS
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

# Between two tries when a try has told nothing new: an election takes about a second, a full queue milliseconds.
_PAUSE_FLOOR: Final = 0.02
_PAUSE_CEILING: Final = 0.5
# For a first connection to the server that should be asked; then the others get their chance.
_PATIENCE_SECONDS: Final = 0.5


class FarmClient:
    """Knows the servers of one farm and keeps connections to those that it needs.

    Use it as an asynchronous context manager, or call `close`. Any number of posts may run side by side.
    """

    def __init__(
        self,
        transport: Transport,
        endpoints: Mapping[int, Endpoint],
        cluster: str,
        user: str,
        password: str,
        *,
        request_seconds: float = 10.0,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        """Prepare; nothing is dialled before the first post.

        Args:
            transport: how the servers are reached.
            endpoints: the servers by id, at least one; tried in this order while nobody says who leads.
            cluster: the farm's name.
            user: "client-NAME" as a rule.
            password: the user's.
            request_seconds: for one answer; then the connection is given up.
            handshake_seconds: for one attempt to connect.
            backoff: makes the delays between attempts to connect, one for each server.
        """
        if not endpoints:
            raise ValueError("a client of a farm needs the endpoint of one server at least")
        self._transport = transport
        self._endpoints = dict(endpoints)
        self._cluster = cluster
        self._credentials = {server: Credentials(user, password) for server in endpoints}
        self._request_seconds = request_seconds
        self._handshake_seconds = handshake_seconds
        self._backoff = backoff
        self._links: dict[int, Link] = {}
        self._leader: int | None = None
        self._preferred = next(iter(endpoints))
        self._waiters: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; posts that run end with `OutcomeUnknownError`."""
        links, self._links = self._links, {}
        for link in links.values():
            await link.stop()

    async def post(self, values: Sequence[bytes], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """Append Application values to the farm's log, together and in order.

        Follows the leader, waits while there is none and while its queue is full, tries other servers.

        Args:
            values: at least one, at most `MAX_ENTRIES` with `MAX_ENTRIES_BYTES` in all.
            timeout: seconds for everything.

        Returns:
            The log index of the last value. All of them are committed.

        Raises:
            NotCommittedError: no server took them within the time; surely none of them is or will be committed.
            OutcomeUnknownError: they were sent and no answer came: they may be committed, or may be later.
            LocalProtocolError: the values are beyond a limit of the wire.
        """
        if not values:
            raise ValueError("there is nothing to post: give one value at least")
        entries = tuple(Entry(0, ValueType.APPLICATION, value) for value in values)
        request = Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, entries)
        pause = Backoff(floor=_PAUSE_FLOOR, ceiling=_PAUSE_CEILING)
        refusal: str | None = None
        asked: int | None = None  # the server that has our request now
        followed = False  # the last refusal told us where to go, and we went there at once
        try:
            async with asyncio.timeout(timeout):
                while True:
                    server, link = await self._reach()
                    answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
                    link.send(request, partial(_settle, answer))
                    asked = server
                    response = await answer
                    if response is None:
                        raise OutcomeUnknownError(_unknown(server, link.last_error or "the connection ended"))
                    asked = None
                    if response.accepted:
                        self._leader = server
                        return response.next_index - 1
                    refusal, worth_following = self._learn(server, response)
                    followed = worth_following and not followed
                    if not followed:
                        await asyncio.sleep(pause.next())
        except TimeoutError:
            if asked is not None:
                raise OutcomeUnknownError(_unknown(asked, f"no answer came within {timeout:g} s")) from None
            why = refusal or f"no server was reached ({self._troubles()})"
            raise NotCommittedError(f"Not committed within {timeout:g} s: {why}.") from None

    # --- Whom to ask --------------------------------------------------------------------------------------

    async def _reach(self) -> tuple[int, Link]:
        """Return a connected server: the leader if it is known and can be reached, else the next in order."""
        patient = True
        while True:
            for server in self._order():
                link = self._links.get(server) or self._dial(server)
                if link.connected:
                    return server, link
                if patient and link.last_error is None:
                    break  # being dialled: it takes milliseconds, unless nobody is there
            patient = await self._changed(_PATIENCE_SECONDS if patient else None)

    def _order(self) -> Iterator[int]:
        if self._leader is not None:
            yield self._leader
        servers = list(self._endpoints)
        start = servers.index(self._preferred)
        yield from servers[start:] + servers[:start]

    def _dial(self, server: int) -> Link:
        link = Link(
            self._transport,
            self._endpoints[server],
            self._cluster,
            self._credentials[server],
            on_up=self._wake,
            on_down=self._wake,
            backoff=self._backoff(),
            request_seconds=self._request_seconds,
            handshake_seconds=self._handshake_seconds,
        )
        self._links[server] = link
        link.start()
        return link

    async def _changed(self, seconds: float | None) -> bool:
        """Wait until a connection has come up or ended, or an attempt has failed; return whether one has in time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return seconds is not None

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _learn(self, server: int, response: Response) -> tuple[str, bool]:
        """Take in a refusal: return it as a clause, and whether it says whom to ask at once."""
        leader = response.destination
        if leader == response.source:
            self._leader = server
            return f"server {server} leads, and its queue is full", False
        if leader in self._endpoints and leader != server:
            self._leader = leader
            link = self._links.get(leader)
            troubled = link is not None and link.last_error is not None
            return (
                f"server {leader} leads, says server {server}" + (f", but {self._troubles()}" if troubled else ""),
                not troubled,
            )
        self._leader = None
        servers = list(self._endpoints)
        self._preferred = servers[(servers.index(server) + 1) % len(servers)]
        if leader == NOBODY:
            return f"server {server} knows no leader", False
        return f"server {leader} leads, says server {server}, and its endpoint is not configured here", False

    def _troubles(self) -> str:
        errors = (link.last_error for link in self._links.values())
        return "; ".join(error for error in errors if error is not None) or "none has answered yet"


def _settle(answer: asyncio.Future[Response | None], response: Response | None) -> None:
    if not answer.done():  # it is when the time for the post was over before
        answer.set_result(response)


def _unknown(server: int, why: str) -> str:
    return (
        f"Server {server} got the values, but {why.rstrip('.')}: they may be committed or not. "
        "Look into the farm's log before posting them again, or do it if twice does no harm."
    )
