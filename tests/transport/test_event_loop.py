"""The node's event loop closes a socket once, however early its connection breaks."""

import asyncio
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

import pytest

from gf_i2p.transport.stream_protocol import StreamProtocol
from tests.transport.harness import until

RESET = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: close() resets the connection."""


@pytest.fixture
def broken() -> Iterator[socket.socket]:
    """Yield a connected socket. Its peer has reset the connection, and no call has noticed the reset yet."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as sock:
        peer, _ = listening.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.close()
        waiting = select.poll()
        waiting.register(sock, 0)
        assert waiting.poll(10_000), "no reset has come"
        sock.setblocking(False)
        yield sock


class WritesAtOnce(StreamProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(b"GET /")


@pytest.mark.parametrize("name", [None, "peer.example"], ids=["plain", "TLS"])
async def test_a_connection_that_breaks_in_its_first_write_is_closed_once(
    broken: socket.socket, name: str | None
) -> None:
    """Otherwise the collection of the socket object closes the number again, which may be another file's by then."""
    tls = None if name is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with suppress(OSError):
        await asyncio.get_running_loop().create_connection(WritesAtOnce, sock=broken, ssl=tls, server_hostname=name)
    await until(lambda: broken.fileno() == -1)
