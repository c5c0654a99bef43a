"""Joining a farm: the new server finds the leader and asks the leader to add it (proposal 150, "Establishment")."""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.consensus.peer import Peer
from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

logger = structlog.get_logger()

AGAIN_SECONDS: Final = 5.0
"""Seconds between two requests; a farm adds one server at a time."""
AGAIN_MOST_SECONDS: Final = 300.0
"""Longest pause, in seconds, after a request that the leader has accepted. When the leader then cannot reach this
server, the pause doubles each time, because no other server can join or leave while the leader tries."""
SOON_SECONDS: Final = 0.1
"""Shortest pause, in seconds, between two searches for a leader; the pauses grow. A node that has just started has no
connections yet, but has all of them a moment later."""
ANSWER_SECONDS: Final = 60.0
NOBODY_FOUND: Final = (
    "no leader is found yet: is the farm up, and have its servers accepted this one (`gf-i2p members accept`)?"
)


class Joiner:
    """Asks the leader until this server is a member. `links` leads to the servers in this server's file, by id."""

    # `transport.delivery.deliver` ends with the first accepted request. Here each accepted request only begins a change
    # that may fail later. So the joiner has a search and pauses of its own, and asks until the change is in the log.

    def __init__(self, driver: Driver, links: Mapping[int, Peer], endpoint: str) -> None:
        """`endpoint`: the endpoint of this server."""
        self._driver = driver
        self._links = links
        self._endpoint = endpoint
        self._logged: str | None = None
        self._accepted = 0  # how often a leader has accepted the request
        self._log = logger.bind(server=driver.core.id)

    async def run(self) -> None:
        """Ask until this server is a member. Return at once when this server has been a member before."""
        core = self._driver.core
        search = Backoff(floor=SOON_SECONDS, ceiling=AGAIN_SECONDS)
        while not core.was_voter:
            link = await self._leader()
            if link is None:
                self._log_result(NOBODY_FOUND)
                await asyncio.sleep(search.next())
            else:
                accepted_before = self._accepted
                self._log_result(await self._ask(*link))
                doublings = self._accepted - 1 if self._accepted > accepted_before else 0
                await asyncio.sleep(min(AGAIN_SECONDS * 2**doublings, AGAIN_MOST_SECONDS))
        if core.is_voter:
            self._log.info("this server belongs to the farm now")

    async def _leader(self) -> tuple[int, Peer] | None:
        """Return the leader and the link to it; None when no leader is known, or the leader is not connected."""
        leader = self._driver.core.leader
        if leader == NOBODY:
            leader = await self._find()
        link = self._links.get(leader)
        return (leader, link) if link is not None and link.connected else None

    async def _ask(self, leader: int, link: Peer) -> str:
        """Ask the leader once; return the result as a clause for the log."""
        core = self._driver.core
        value = ClusterServer(core.id, self._endpoint).encode()
        response = await self._send(
            link, MessageType.ADD_SERVER_REQUEST, leader, Entry(0, ValueType.CLUSTER_SERVER, value)
        )
        if response is None:
            return f"server {leader}, the leader, has not answered"
        if not response.accepted:
            return (
                f"server {leader}, the leader, cannot add this server now: "
                "another change is under way, or that server no longer leads"
            )
        self._accepted += 1
        if self._accepted == 1:
            return f"server {leader}, the leader, is adding this server"
        return (
            f"server {leader}, the leader, is adding this server again: the last time the leader gave up, because "
            "this server was too slow or out of reach. The leader's log says which; check this server's endpoint, "
            f"{self._endpoint}, and its fingerprint in the leader's files"
        )

    async def _find(self) -> int:
        """Ask the connected servers one by one; return the first leader that a server names, or `NOBODY`."""
        for server, link in tuple(self._links.items()):
            if not link.connected:
                continue
            response = await self._send(link, MessageType.CLIENT_REQUEST, server)
            if response is not None and response.destination != NOBODY:
                return response.destination
        return NOBODY

    async def _send(self, link: Peer, kind: MessageType, server: int, *entries: Entry) -> Response | None:
        answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()

        def done(response: Response | None) -> None:
            if not answer.done():
                answer.set_result(response)

        request = Request(kind, self._driver.core.id, server, 0, 0, 0, 0, entries)
        link.send(request, done, seconds=ANSWER_SECONDS)
        return await answer

    def _log_result(self, result: str) -> None:
        if result != self._logged:
            self._logged = result
            self._log.info("joining", what=result)
