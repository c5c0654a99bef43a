"""The client of the administration API for users on other machines, with the user's file (`admin-NAME.toml`).

The client asks one server after another until one answers. A server inside I2P that stays silent holds nothing up:
after some seconds the next one is asked, too, and the first answer counts. A change inside I2P goes first to the server
that has answered last. A server outside I2P is reached by TLS, and must have the certificate of the fingerprint in the
file, or one that the file's CA has signed. A server inside I2P is reached through the proxy of the file's router, and
its name is never looked up on this machine. When only the leader takes a request, the client asks the leader.

The user logs in as for every request to the farm's port, by a key or by Digest. Each request has a connection of its
own. A request with a body waits until the server's challenge is known, so the body is sent once.
"""

import asyncio
import json
import os
import ssl
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyType
from yarl import URL

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.errors import error_text
from gf_i2p.transport.i2p.i2p_transport import I2P_HANDSHAKE_SECONDS, ProxyMethod
from gf_i2p.transport.login_channel import channel_inside
from gf_i2p.transport.tls.certificates import fingerprint, parse_fingerprint
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import ADMINISTRATION, VERSION
from gf_i2p.wire.key_credentials import KeyCredentials
from gf_i2p.wire.limits import HANDSHAKE_SECONDS

MAX_ANSWER_BYTES: Final = 64 << 20
"""Most bytes of an answer. A page of entries has 4 MiB, which base64 and JSON make longer."""
_NOTHING_SENT: Final = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ServerFingerprintMismatch,
    ProxyConnectionError,
    ProxyError,
)
"""The errors before a request is sent."""
NEXT_SECONDS: Final = 4.0
"""Seconds of silence before the next server is asked, too. Through I2P, most answers come within a second; i2pd repeats
a lost packet after 9 s, and gives a dead server up after two minutes."""
_AGAIN_SECONDS: Final = 2.0
"""Seconds before all servers are asked again."""
_LEADERS: Final = 3
"""Most servers that are asked as the leader: the leader may change meanwhile."""
_SENDS: Final = 4
"""Most requests to one server for one answer: for a challenge, for a fresh nonce, and for a second key."""


class ApiError(Exception):
    """The API refuses a request, or no server answers. The text says what to do.

    `status`: the HTTP status; None: no server has answered. `outcome`: "unknown" when a change may have happened
    nevertheless, otherwise "no". `leader`: the id of the only server that takes the request, if the answer names it.
    """

    def __init__(self, text: str, status: int | None = None, *, outcome: str = "no", leader: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.outcome = outcome
        self.leader = leader


class _UnreachedError(Exception):
    """One server could not be asked; another server may answer. The text is a clause about the server."""

    server = 0
    """Id of the server."""


class _StrangeAnswerError(Exception):
    """The answer is none of a farm node. The text is a clause about the server."""


class _NotReachedError(_UnreachedError):
    """No request has come through to one server. Another attempt may come through."""


class _NobodyAnswersError(Exception):
    """No server was reached."""

    def __init__(self, troubles: Sequence[_UnreachedError]) -> None:
        super().__init__()
        self.troubles = troubles
        """One for each server."""


class RemoteApi:
    """The administration API of a farm's servers, for the user of one file."""

    def __init__(self, file: ClientFile) -> None:
        self._file = file
        self._cluster = file.cluster
        self._endpoints = {server.id: Endpoint.parse(server.endpoint) for server in file.servers}
        self._pins = {
            server.id: parse_fingerprint(server.fingerprint)
            for server in file.servers
            if server.fingerprint is not None
        }
        self._credentials: dict[int, KeyCredentials] = {}
        self._first = next(iter(self._endpoints))
        """The server that is asked first: the one that has answered last."""
        self._has_answered = False
        self._has_changed = False
        """Whether this client has sent a change. Another server may not have the change yet."""

    @property
    def inside_i2p(self) -> bool:
        """Whether a router's proxy leads to the servers."""
        return self._file.inside_proxy is not None

    async def request(self, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
        """Ask a server of the farm; return the JSON of the answer.

        `path`: as in `gf_i2p.admin.api`, with the query. `seconds`: time for the answer of one server; dialling through
        I2P has more. Through I2P, all servers are asked again for some time: a router finds a lease set, and builds
        tunnels, only when it is asked for an address. Raises `ApiError`.
        """
        if method != "GET" and self.inside_i2p and len(self._endpoints) > 1 and not self._has_answered:
            await self.request("GET", "/v1/status")  # a change that was sent must not be sent to another server
        self._has_changed |= method != "GET"
        end = time.monotonic() + (I2P_HANDSHAKE_SECONDS if self.inside_i2p else 0.0)
        while True:
            troubles: dict[str, list[int]] = {}
            again = False
            try:
                return await self._first_answer(method, path, seconds, body)
            except _NobodyAnswersError as nobody:
                for error in nobody.troubles:
                    of_reason = troubles.setdefault(str(error), [])
                    of_reason += [] if error.server in of_reason else [error.server]
                    again = again or isinstance(error, _NotReachedError)
            if not again or time.monotonic() >= end:
                reasons = (f"server {', '.join(map(str, sorted(each)))} {why}" for why, each in troubles.items())
                raise ApiError(f"no server answers the question: {'; '.join(reasons)}")
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _first_answer(self, method: str, path: str, seconds: float, body: object) -> Any:
        """Ask the servers until one answers. Raises `ApiError` or `_NobodyAnswersError`.

        The next server is asked when one was not reached, or is silent (`_patience`). A refusal counts when no other
        server is still asked.
        """
        left = deque(sorted(self._endpoints, key=lambda each: each != self._first))
        silence = self._patience(path)
        asked: set[asyncio.Task[Any]] = set()
        troubles: list[_UnreachedError] = []
        refusal: ApiError | None = None
        try:
            while asked or (left and refusal is None):
                if left and refusal is None:
                    asked.add(asyncio.create_task(self._follow(left.popleft(), method, path, seconds, body)))
                done, _ = await asyncio.wait(
                    asked, timeout=silence if left else None, return_when=asyncio.FIRST_COMPLETED
                )
                asked -= done
                for task in done:
                    try:
                        return task.result()
                    except _UnreachedError as error:
                        troubles.append(error)
                    except ApiError as error:
                        refusal = refusal or error
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise refusal or _NobodyAnswersError(troubles)

    def _patience(self, path: str) -> float | None:
        """Return the seconds of silence before the next server is asked, too; None: the next server is not asked.

        Silence counts only inside I2P, and only for questions that any server may answer at once: not for a change, not
        after a change, and not for a question that waits for an entry.
        """
        return NEXT_SECONDS if self.inside_i2p and not self._has_changed and "wait=" not in path else None

    async def _follow(self, server: int, method: str, path: str, seconds: float, body: object) -> Any:
        """Ask this server, and the leader when only the leader takes the request."""
        for _ in range(_LEADERS):
            try:
                answer = await self._ask(server, method, path, seconds, body)
            except _UnreachedError as error:
                error.server = server
                raise
            except ApiError as error:
                if error.leader is None or error.leader == server:
                    raise
                if error.leader not in self._endpoints:
                    raise ApiError(
                        f"{error}. The file does not have server {error.leader}: add its [[servers]] table",
                        error.status,
                    ) from error
                server = error.leader
                continue
            self._first = server
            self._has_answered = True
            return answer
        raise ApiError("the leader changes too often: try again in a moment", 503)

    async def _ask(self, server: int, method: str, path: str, seconds: float, body: object) -> Any:
        endpoint = self._endpoints[server]
        inside = endpoint.is_i2p
        target = f"/GarlicFarm/{self._cluster}/{VERSION}/{ADMINISTRATION}{path}"
        credentials = self._credentials.setdefault(server, self._file.login.at(server))
        channel = channel_inside(endpoint) if inside else await self._certificate_of(server, endpoint)
        url = URL(f"{'http' if inside else 'https'}://{endpoint.host}:{endpoint.port}{target}", encoded=True)
        dialling = I2P_HANDSHAKE_SECONDS if inside else HANDSHAKE_SECONDS
        limit = aiohttp.ClientTimeout(total=seconds + dialling, connect=dialling)
        for _ in range(_SENDS):
            untried, turn = credentials.untried, credentials.turn
            authorization = credentials.authorize_at(channel, method, target, time.monotonic(), os.urandom)
            # Without credentials only the challenge is wanted, and the body stays here.
            sent = method if authorization is not None else "GET"
            headers = {} if authorization is None else {"Authorization": authorization}
            try:
                async with (
                    aiohttp.ClientSession(connector=self._connector(endpoint, channel), timeout=limit) as session,
                    session.request(
                        sent,
                        url,
                        json=body if authorization is not None else None,
                        headers=headers,
                        allow_redirects=False,
                        **self._proxy(endpoint),
                    ) as response,
                ):
                    if response.status == 401:
                        challenges = response.headers.getall("WWW-Authenticate", [])
                        stale = credentials.challenged(challenges, time.monotonic())
                    elif response.status == 404 and authorization is None:
                        raise _UnreachedError(f"has no farm {self._cluster} with an administration API")
                    else:
                        return await _json_of(response, credentials.user)
            except (*_NOTHING_SENT, RemoteProtocolError) as error:
                raise _NotReachedError(_why(error)) from error
            except (TimeoutError, aiohttp.ClientError, _StrangeAnswerError) as error:
                if sent == "GET":
                    raise _NotReachedError(_why(error)) from error
                raise ApiError(
                    f"server {server} {_why(error)}, and may have made the change: look before you repeat the command",
                    outcome="unknown",
                ) from error
            if untried and authorization is not None and not stale and not credentials.next_proof(turn):
                raise ApiError(
                    f"server {server} refuses user {credentials.user} or its {credentials.kind}: use the newest file "
                    "of this user, or compare it with the server's secrets.toml",
                    401,
                )
        raise _UnreachedError("asks for a login again and again")

    async def _certificate_of(self, server: int, endpoint: Endpoint) -> str:
        """Return the fingerprint that the server's certificate must have: the file's, or that of the CA's."""
        pin = self._pins.get(server)
        if pin is not None:
            return pin
        if self._file.ca is None:
            raise _UnreachedError("has no fingerprint in the file, and the file has no ca: add one of the two")
        try:
            context = ssl.create_default_context(cafile=Path(self._file.ca))
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                _, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
        except (OSError, TimeoutError) as error:
            raise _UnreachedError(_why(error)) from error
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return fingerprint(certificate)

    def _connector(self, endpoint: Endpoint, channel: str) -> aiohttp.BaseConnector:
        if not endpoint.is_i2p:
            digest = bytes.fromhex(channel.rpartition(":")[2])
            return aiohttp.TCPConnector(ssl=aiohttp.Fingerprint(digest), force_close=True)
        proxy = self._file.proxy
        assert proxy is not None, "the file's own check"
        if proxy.way is ProxyMethod.GET:
            return aiohttp.TCPConnector(force_close=True)
        return ProxyConnector(
            proxy_type=ProxyType.SOCKS5 if proxy.way is ProxyMethod.SOCKS5 else ProxyType.HTTP,
            host=proxy.host,
            port=proxy.port,
            username=proxy.user,
            password=proxy.password,
            rdns=True,
            force_close=True,
        )

    def _proxy(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the arguments of a request that goes to an HTTP proxy itself."""
        proxy = self._file.proxy
        if not endpoint.is_i2p or proxy is None or proxy.way is not ProxyMethod.GET:
            return {}
        login = None if proxy.user is None else aiohttp.BasicAuth(proxy.user, proxy.password or "", "utf-8")
        host = f"[{proxy.host}]" if ":" in proxy.host else proxy.host
        return {"proxy": f"http://{host}:{proxy.port}", "proxy_auth": login}


async def _json_of(response: aiohttp.ClientResponse, user: str) -> Any:
    """Read an answer.

    Raises `ApiError` for an error of the API, `_UnreachedError` if this user has no API there, and
    `_StrangeAnswerError` for an answer that is not the API's.
    """
    if response.content_type != "application/json":
        if response.status == 404:
            raise _UnreachedError(f"has no administration API for {user}: only administrators and viewers may use it")
        if response.url.host is not None and response.url.host.endswith(".i2p"):
            raise _StrangeAnswerError(f"is not reached by the router's proxy, which answers {response.status}")
        raise _StrangeAnswerError(f"answers {response.status} {response.reason}, as no farm node does")
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > MAX_ANSWER_BYTES:
            raise _StrangeAnswerError(f"sends more than {MAX_ANSWER_BYTES} bytes")
    try:
        answer = json.loads(data)
        if response.status == 200:
            return answer
        raise ApiError(answer["error"], response.status, outcome=answer["outcome"], leader=answer.get("leader"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _StrangeAnswerError(f"sends an answer {response.status} that is not a farm node's") from error


def _why(error: Exception) -> str:
    """Return the reason of an error as a clause."""
    if isinstance(error, _StrangeAnswerError):
        return str(error)
    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        return (
            "has not the certificate of the fingerprint in the file: if its certificate is new, put the new "
            "fingerprint into the file"
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached ({error_text(error.os_error) or 'the connection was closed'})"
    if isinstance(error, TimeoutError):
        return "has not answered in time"
    return f"is not reached ({str(error) or type(error).__name__})"
