"""A tunnel through an HTTP proxy: CONNECT (RFC 9110, 9.3.6), and then any protocol through the tunnel."""

import asyncio
import os
import re
from collections.abc import Callable
from typing import Final, cast

from gf_i2p.transport.stream_protocol import StreamProtocol
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import answer_text, response_of, values_of
from gf_i2p.wire.http_head import HeadReader
from gf_i2p.wire.proxy_login import AUTHENTICATE, AUTHORIZATION, ProxyAuthorization, ProxyLogin, no_login

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: ([^\r]*))?\r\n")


class TunnelRefused(Exception):  # noqa: N818 -- reads as what happened, as `HandshakeRefused` does
    """The proxy opens no tunnel; `str()` has the status code and the reason of the proxy's answer."""


class TunnelChallenged(Exception):  # noqa: N818 -- reads as what happened
    """The proxy asked for a login, and the login has taken the challenge: ask again on a new connection."""


class HttpTunnel(StreamProtocol):
    """Asks for a tunnel, and hands the open tunnel to the protocol that `factory` makes.

    The proxy gets the endpoint's name. About this node the proxy learns nothing but the login, and only if the proxy
    has asked for a login.

    The result of `opened` is None when the tunnel is open: then the protocol's `connection_made` has been called.
    Otherwise the result is the error. The error is a result and no exception of the future, because at times no task
    is left that awaits the future.
    """

    def __init__(
        self, endpoint: Endpoint, factory: Callable[[], StreamProtocol], login: ProxyLogin | None = None
    ) -> None:
        self._authority = str(endpoint).removeprefix("tcp://")
        self._factory = factory
        self._login = login
        self._authorization: ProxyAuthorization | None = None
        self._reader = HeadReader()
        self._transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the tunnel."""
        self._transport = cast("asyncio.Transport", transport)
        if self._login is not None:
            now = asyncio.get_running_loop().time()
            self._authorization = self._login.authorize("CONNECT", self._authority, now, os.urandom)
        authorization = "" if self._authorization is None else f"{AUTHORIZATION}: {self._authorization.value}\r\n"
        self._transport.write(
            f"CONNECT {self._authority} HTTP/1.1\r\nHost: {self._authority}\r\n{authorization}\r\n".encode("latin-1")
        )

    def data_received(self, data: bytes) -> None:
        """Read the answer, in any number of pieces."""
        if self.opened.done():
            return
        try:
            head = self._reader.feed(data)
        except RemoteProtocolError as error:
            self.opened.set_result(error)
            return
        if head is None:
            return
        status = _STATUS.match(head.text)
        if status is None:
            self.opened.set_result(RemoteProtocolError("no answer of HTTP/1.1"))
        elif status[1] == b"407":
            self.opened.set_result(self._challenged(head.text))
        elif not status[1].startswith(b"2"):
            reason = b" ".join(part for part in status.groups() if part)
            self.opened.set_result(TunnelRefused(reason.decode("latin-1")))
        else:
            self._hand_over(head.rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Set the result of `opened` to an error, if `opened` has no result yet."""
        if not self.opened.done():
            self.opened.set_result(exc or RemoteProtocolError("it closed the connection"))

    def _challenged(self, head: bytes) -> Exception:
        try:
            response = response_of(head)
            if self._login is None:
                return no_login(answer_text(response))
            now = asyncio.get_running_loop().time()
            self._login.challenged(values_of(response, AUTHENTICATE), now, self._authorization)
        except RemoteProtocolError as error:
            return error
        return TunnelChallenged()

    def _hand_over(self, rest: bytes) -> None:
        transport = self._transport
        assert transport is not None
        self.opened.set_result(None)  # the task that awaits this runs after this method
        protocol = self._factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if rest and not transport.is_closing():
            protocol.data_received(rest)
