"""A client of the farm: finds the leader, starting from any server that runs, and posts values there."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from gf_i2p.transport.backoff import Backoff
from gf_i2p.transport.client.known_servers import KnownServers, Prepare, ServerEndpoint
from gf_i2p.transport.client.server_queries import Survey, ask_all, fetch_configuration
from gf_i2p.transport.delivery import NotTaken, deliver
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import I2P_HANDSHAKE_SECONDS, I2P_REQUEST_SECONDS
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.library_log import library_logger
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import NotCommittedError
from gf_i2p.wire.key_credentials import Login
from gf_i2p.wire.limits import HANDSHAKE_SECONDS
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

# Seconds between two tries: an election takes about a second, a full queue milliseconds.
_PAUSE_FLOOR: Final = 0.02
_PAUSE_CEILING: Final = 0.5
# A pause is about a quarter of the time that the delivery has taken so far: a new leader is found soon after its
# election, and a farm without a leader is asked ever more seldom.
_PAUSE_GROWTH: Final = 1.2
# Seconds for a first connection to the server of first choice; then the other servers are tried, too.
_PATIENCE_SECONDS: Final = 0.5
_I2P_PATIENCE_SECONDS: Final = 5.0
# Least time between two questions to one server for the Configuration: each question is a connection.
_REFRESH_SECONDS: Final = 2.0

_Way = tuple[ServerEndpoint, PeerLink]


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """One endpoint of a server, given to the client or told by the farm."""

    server: int
    endpoint: str
    configured: bool
    """Whether the caller gave this endpoint to the client."""
    current: bool | None
    """Whether the newest known Configuration has the endpoint; None when no server has told a Configuration."""
    connected: bool
    trouble: str | None
    """Why the endpoint cannot be dialled, or was not reached: a sentence. None also when no try was needed."""


@dataclass(frozen=True, slots=True)
class FoundFarm:
    """The servers and the leader of a farm, as the servers' answers describe the farm."""

    leader: int | None
    """The leader's id; None: no reached server knows a leader."""
    trouble: str | None
    """Why the leader itself has not answered; None: the leader has answered."""
    log_index: int | None
    """Index of the newest Configuration; None when no server has told a Configuration."""
    places: tuple[FoundPlace, ...]


def _trust_the_transport(_: Sequence[ServerEndpoint]) -> Mapping[ServerEndpoint, str]:
    """Object to no place: the transport refuses to dial a server without proof of identity."""
    return {}


def _trust_the_user(_: Request) -> str | None:
    """Object to no request: the server decides, and ends the connection of a user without the right."""
    return None


class _RejectedError(NotCommittedError):
    """All servers reject this client: to wait for another server is in vain."""


class FarmClient:
    """Knows the servers of one farm and keeps connections to the servers that are needed.

    One server that runs is enough to begin. The client asks a server for the Configuration when a connection has come
    up, and again when that server names no leader, or a leader that the client cannot reach. Servers that do not tell
    the Configuration (404) are used nevertheless.

    Use the client as an asynchronous context manager, or call `close`. Any number of posts may run side by side.
    """

    def __init__(
        self,
        transport: Transport,
        endpoints: Mapping[int, Endpoint],
        cluster: str,
        login: Login,
        *,
        prepare: Prepare = _trust_the_transport,
        objection: Callable[[Request], str | None] = _trust_the_user,
        request_seconds: float = 10.0,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        """Prepare; nothing is dialled before the first post.

        Args:
            transport: the way to the servers.
            endpoints: the servers by id, at least one; tried in this order while no server names a leader.
            cluster: the farm's name.
            login: the user, "client-NAME" as a rule, with the user's key or password.
            prepare: see `Prepare`; by default the transport dials told servers without preparation.
            objection: returns why this user may not change the servers, or None. After an objection the client does not
                send the change.
            request_seconds: most seconds for one answer; inside I2P at least `I2P_REQUEST_SECONDS`. An overdue answer
                ends the connection.
            handshake_seconds: most seconds for one attempt to connect; inside I2P at least `I2P_HANDSHAKE_SECONDS`.
            backoff: called for each endpoint; makes the delays between attempts to connect to that endpoint.
        """
        if not endpoints:
            raise ValueError("a client of a farm needs the endpoint of one server at least")
        self._transport = transport
        self._cluster = cluster
        self._login = login
        self._request_seconds = request_seconds
        self._handshake_seconds = handshake_seconds
        self._backoff = backoff
        self._objection = objection
        self._directory = KnownServers(endpoints, prepare)
        # By place, as the links: a login by a key is for one server, and two servers may be said to be at one endpoint.
        self._credentials: dict[ServerEndpoint, Credentials] = {}
        self._links: dict[ServerEndpoint, PeerLink] = {}
        self._leader: int | None = None
        self._refusal: str | None = None  # the latest refusal; None after a final answer
        self._preferred = self._directory.given_places[0]
        self._waiters: set[asyncio.Future[None]] = set()
        self._questions: dict[ServerEndpoint, asyncio.Task[None]] = {}  # the latest question for the Configuration
        self._question_times: dict[ServerEndpoint, float] = {}
        self._log = library_logger(__name__).bind(cluster=cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. A post whose values were sent ends with `OutcomeUnknownError`."""
        questions, self._questions = self._questions, {}
        for question in questions.values():
            question.cancel()
        if questions:
            await asyncio.wait(questions.values())
        links, self._links = self._links, {}
        for link in links.values():
            await link.stop()

    async def post(self, values: Sequence[bytes], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """Append Application values to the farm's log, together and in order.

        The client follows the leader, tries other servers, and waits while no server leads or the leader's queue is
        full.

        Args:
            values: at least one, at most `MAX_ENTRIES` with `MAX_ENTRIES_BYTES` in all.
            timeout: most seconds for the whole call. Inside I2P the first connection alone may take one or two minutes.

        Returns:
            The log index of the last value. All values are committed.

        Raises:
            NotCommittedError: no server took the values within the time. No value is or will be committed.
            OutcomeUnknownError: the values were sent and no answer came: the values may be committed now or later.
            LocalProtocolError: the values exceed a limit of the wire format.
        """
        if not values:
            raise ValueError("there is nothing to post: give one value at least")
        request = _client_request(tuple(Entry(0, ValueType.APPLICATION, value) for value in values))
        return (
            await self._deliver(request, timeout, final=lambda response: response.accepted, unknown=_unknown_outcome)
        ).next_index - 1

    async def change_servers(self, request: Request, *, timeout: float = 30.0) -> Response:  # noqa: ASYNC109
        """Send an AddServerRequest or a RemoveServerRequest to the leader, and return its answer.

        Accepted means that the change has begun; a refusal by the leader means that the change cannot begin now, or
        makes no sense. Only an administrator may change servers; the server ends the connection of any other user.
        Raises the errors of `post`, and `NotCommittedError` also when `objection` objects: then nothing is sent.
        """
        why_not = self._objection(request)
        if why_not is not None:
            raise NotCommittedError(why_not)
        return await self._deliver(
            request,
            timeout,
            final=lambda response: response.accepted or response.destination == response.source,
            unknown=_unknown_change,
        )

    @property
    def waits_for(self) -> str:
        """Why the present request has no final answer yet, as a clause: a refusal, no connection, or no answer."""
        if any(link.connected for link in self._links.values()):
            return self._refusal or "a server has the request, and has not answered yet"
        return f"no server is reached ({self._troubles()})"

    async def survey(self, *, timeout: float = 10.0) -> Survey:  # noqa: ASYNC109
        """Ask all servers, side by side, for the newest Configuration in their logs. `timeout`: seconds for each."""
        return await ask_all(self._transport, self._directory, self._cluster, self._credentials_for, seconds=timeout)

    async def _deliver(
        self,
        request: Request,
        seconds: float,
        *,
        final: Callable[[Response], bool],
        unknown: Callable[[int, str], str],
    ) -> Response:
        """Bring a request to the leader, and return the first answer that is final.

        `unknown`: makes the text of `OutcomeUnknownError` from the server's id and the reason.
        """

        def unanswered(way: _Way, late: bool) -> str:
            place, link = way
            why = f"no answer came within {seconds:g} s" if late else link.last_error or "the connection ended"
            return unknown(place.server, why)

        try:
            (place, _), response = await deliver(
                self._reach_server,
                partial(_send_request, request),
                self._note_refusal,
                final=final,
                unknown=unanswered,
                pause=_new_backoff(),
                seconds=seconds,
            )
        except _RejectedError:
            raise
        except NotCommittedError as error:
            why = str(error) or f"no server was reached ({self._troubles()})"
            raise NotCommittedError(f"Not committed within {seconds:g} s: {why}.") from None
        self._refusal = None
        if response.accepted:
            self._leader = place.server
        return response

    async def find(self, *, timeout: float = 30.0) -> FoundFarm:  # noqa: ASYNC109
        """Find the servers and the leader: ask until the leader itself has answered, or the time is over.

        The search ends early when the leader is known, but this client has no way to dial the leader. Nothing is
        written into the farm's log. `timeout`: as in `post`.
        """
        end = asyncio.get_running_loop().time() + timeout
        leader: int | None = None
        trouble: str | None = None

        async def learn(way: _Way, response: Response | None) -> NotTaken:
            nonlocal leader
            if response is None:
                place, link = way
                return NotTaken(f"server {place.server} did not answer: {link.last_error or 'the connection ended'}")
            leader = None if response.destination == NOBODY else response.destination
            refusal = await self._note_refusal(way, response)
            if leader in self._directory.troubles and not self._directory.of(leader):
                raise NotCommittedError(refusal.why)
            return refusal

        try:
            (place, _), response = await deliver(
                self._reach_server,
                partial(_send_request, _client_request(())),
                learn,
                final=lambda response: response.accepted,
                unknown=None,  # a question is harmless
                pause=_new_backoff(),
                seconds=timeout,
            )
        except NotCommittedError as error:
            trouble = str(error) or f"no server was reached ({self._troubles()})"
        else:
            self._leader, leader = place.server, response.source
            if (question := self._ask_configuration(place)) is not None:
                await asyncio.wait([question], timeout=end - asyncio.get_running_loop().time())
        return self._found_farm(leader, trouble)

    def _found_farm(self, leader: int | None, trouble: str | None) -> FoundFarm:
        directory = self._directory
        newest = directory.newest
        current = None if newest is None else {(server.id, server.endpoint) for server in newest.servers}
        places: list[FoundPlace] = []
        for place in directory.places:
            link = self._links.get(place)
            places.append(
                FoundPlace(
                    place.server,
                    str(place.endpoint),
                    configured=place in directory.given_places,
                    current=None if current is None else (place.server, str(place.endpoint)) in current,
                    connected=link is not None and link.connected,
                    trouble=None if link is None else link.last_error,
                )
            )
        endpoints = {server.id: server.endpoint for server in newest.servers} if newest is not None else {}
        places += [
            FoundPlace(server, endpoints[server], configured=False, current=True, connected=False, trouble=sentence)
            for server, sentence in directory.troubles.items()
        ]
        places.sort(key=lambda each: each.server)
        return FoundFarm(leader, trouble, None if newest is None else newest.log_index, tuple(places))

    # --- The server to ask --------------------------------------------------------------------------------

    async def _reach_server(self) -> _Way:
        """Return a connected server: the known leader if the leader is reached, else the first reached server in order.

        A server that is dialled for the first time gets some time alone (`_patience`). After that time all servers are
        dialled side by side, and the first connection counts.

        Raises `_RejectedError` when each server has rejected this client since the call. A connected client that is
        rejected later may be let in again, after a reload of the servers' users.
        """
        patient = True
        earlier = {place: link.failed_attempts for place, link in self._links.items()}
        while True:
            links = [(self._links.get(place), earlier.get(place, 0)) for place in self._directory.places]
            if all(link is not None and link.rejected and link.failed_attempts > before for link, before in links):
                raise _RejectedError(f"Not committed, and no server takes this client: {self._troubles()}.")
            seconds = _PATIENCE_SECONDS
            for place in self._dial_order():
                link = self._links.get(place) or self._dial(place)
                if link.connected:
                    return place, link
                if patient and link.last_error is None:
                    seconds = _patience(place)
                    break  # wait for this server first: most dials succeed soon, unless the server is down
            patient = await self._link_changed(seconds if patient else None)

    def _dial_order(self) -> Iterator[ServerEndpoint]:
        if self._leader is not None:
            yield from self._directory.of(self._leader)
        places = self._directory.places
        first = places.index(self._preferred) if self._preferred in places else 0
        yield from places[first:] + places[:first]

    def _prefer_after(self, place: ServerEndpoint) -> None:
        """Begin with the server after this place from now on, while no leader is known."""
        places = self._directory.places
        position = places.index(place) if place in places else -1
        self._preferred = places[(position + 1) % len(places)]

    def _dial(self, place: ServerEndpoint) -> PeerLink:
        is_i2p = place.endpoint.is_i2p
        link = PeerLink(
            self._transport,
            place.endpoint,
            self._cluster,
            self._credentials_for(place),
            on_up=partial(self._link_up, place),
            on_down=self._wake_waiters,
            backoff=self._backoff(),
            request_seconds=max(self._request_seconds, I2P_REQUEST_SECONDS if is_i2p else 0.0),
            handshake_seconds=self._attempt_seconds(place.endpoint),
        )
        self._links[place] = link
        link.start()
        return link

    def _credentials_for(self, place: ServerEndpoint) -> Credentials:
        if place not in self._credentials:
            self._credentials[place] = self._login.at(place.server)
        return self._credentials[place]

    def _attempt_seconds(self, endpoint: Endpoint) -> float:
        return max(self._handshake_seconds, I2P_HANDSHAKE_SECONDS if endpoint.is_i2p else 0.0)

    async def _link_changed(self, seconds: float | None) -> bool:
        """Wait until a connection comes up or ends, or an attempt fails; return whether that happened within `seconds`.

        `seconds` None: wait without a limit, and return False.
        """
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

    def _link_up(self, place: ServerEndpoint) -> None:
        self._ask_configuration(place)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _note_refusal(self, way: _Way, response: Response | None) -> NotTaken:
        """Note a server's refusal, and say why the request was not taken.

        If the refusal names no leader that can be asked at once, first ask the refusing server for the Configuration.
        """
        assert response is not None
        place, _ = way
        refusal = self._explain_refusal(place, response)
        if not refusal.at_once and await self._servers_changed(place, response):
            refusal = self._explain_refusal(place, response)
        self._refusal = refusal.why
        return refusal

    def _explain_refusal(self, place: ServerEndpoint, response: Response) -> NotTaken:
        server, leader = place.server, response.destination
        if leader == response.source:
            self._leader = server
            why = "its queue or disk is full, or this user posts more than [limits] there allows: post less, or wait"
            return NotTaken(f"server {server} leads, and takes nothing now: {why}")
        leader_places = [each for each in self._directory.of(leader) if each.endpoint != place.endpoint]
        if leader_places:
            self._leader = leader
            is_unreached = all(self._trouble(each) is not None for each in leader_places)
            if is_unreached:
                self._prefer_after(place)  # another server may know a better way
            return NotTaken(
                f"server {leader} leads, says server {server}" + (f", but {self._troubles()}" if is_unreached else ""),
                at_once=not is_unreached,
            )
        self._leader = None
        self._prefer_after(place)
        if leader == NOBODY:
            return NotTaken(f"server {server} knows no leader")
        why = self._directory.troubles.get(leader, "its endpoint is not configured here").rstrip(".")
        return NotTaken(f"server {leader} leads, says server {server}, and {why[0].lower()}{why[1:]}")

    def _trouble(self, place: ServerEndpoint) -> str | None:
        link = self._links.get(place)
        return None if link is None else link.last_error

    def _troubles(self) -> str:
        errors = (link.last_error for link in self._links.values())
        return "; ".join(error for error in errors if error is not None) or "none has answered yet"

    # --- The farm's servers -------------------------------------------------------------------------------

    async def _servers_changed(self, place: ServerEndpoint, refusal: Response) -> bool:
        """Ask the server that refused for the Configuration; return whether the known servers have changed since.

        A leader that refuses is not asked: no other server could take the request.
        """
        if refusal.destination == refusal.source:
            return False
        directory = self._directory
        old_servers = directory.places, directory.troubles
        question = self._ask_configuration(place)
        if question is not None:
            await asyncio.wait([question], timeout=_patience(place))
        return old_servers != (directory.places, directory.troubles)

    def _ask_configuration(self, place: ServerEndpoint) -> asyncio.Task[None] | None:
        """Ask a server for the Configuration, and return the question's task.

        A question that is open, or younger than `_REFRESH_SECONDS`, is returned instead of a new question.
        """
        latest = self._questions.get(place)
        now = asyncio.get_running_loop().time()
        if latest is not None and (not latest.done() or now - self._question_times[place] < _REFRESH_SECONDS):
            return latest
        self._question_times[place] = now
        question = asyncio.ensure_future(self._fetch_configuration(place))
        self._questions[place] = question
        return question

    async def _fetch_configuration(self, place: ServerEndpoint) -> None:
        try:
            configuration = await fetch_configuration(
                self._transport,
                place.endpoint,
                self._cluster,
                self._credentials_for(place),
                seconds=self._attempt_seconds(place.endpoint),
            )
        except TransportError as error:
            self._log.debug("not told who belongs to the farm", peer=str(place.endpoint), reason=str(error))
            return
        if configuration is not None:
            self._directory.learn(configuration)
            self._wake_waiters()
            await self._drop_old_links()

    async def _drop_old_links(self) -> None:
        """Drop the links to endpoints that the farm no longer has, except given endpoints and links that are connected.

        So a client that runs for months does not go on dialling every endpoint where a server has been.
        """
        known_places = set(self._directory.places)
        for place in [place for place in self._links if place not in known_places]:
            question = self._questions.get(place)
            if not self._links[place].connected and (question is None or question.done()):
                link = self._links.pop(place)
                for by_place in (self._credentials, self._question_times, self._questions):
                    by_place.pop(place, None)
                await link.stop()


def _client_request(entries: tuple[Entry, ...]) -> Request:
    """Make a request to append these entries. A request without entries only asks which server is the leader."""
    return Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, entries)


def _new_backoff() -> Backoff:
    return Backoff(floor=_PAUSE_FLOOR, ceiling=_PAUSE_CEILING, growth=_PAUSE_GROWTH)


def _send_request(request: Request, way: _Way) -> asyncio.Future[Response | None]:
    _, link = way
    answer: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
    link.send(request, partial(_set_response, answer))
    return answer


def _set_response(answer: asyncio.Future[Response | None], response: Response | None) -> None:
    if not answer.done():  # a post whose time is over has cancelled the future
        answer.set_result(response)


def _patience(place: ServerEndpoint) -> float:
    return _I2P_PATIENCE_SECONDS if place.endpoint.is_i2p else _PATIENCE_SECONDS


def _unknown_outcome(server: int, why: str) -> str:
    return (
        f"Server {server} got the values, but {why.rstrip('.')}: they may be committed or not. "
        "Look into the farm's log before you post the values again, unless a second copy does no harm."
    )


def _unknown_change(server: int, why: str) -> str:
    return (
        f"Server {server} was asked, but {why.rstrip('.')}: the change may have begun or not. See who belongs to the "
        "farm before asking again."
    )
