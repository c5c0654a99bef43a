"""`StreamProtocol`: each protocol gets its own bytes. `tls/test_tls_connection.py` has the cases of TLS."""

import asyncio
import socket
import threading
from functools import partial

import pytest

from gf_i2p.transport.event_loop import loop_factory
from gf_i2p.transport.stream_protocol import StreamProtocol

BYTES = 16 << 20


class Reader(StreamProtocol):
    """Keeps the bytes, until the peer ends the connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


async def read_all(sock: socket.socket) -> bytes:
    _, reader = await asyncio.get_running_loop().create_connection(Reader, sock=sock)
    assert await reader.ended is None
    return bytes(reader.received)


@pytest.mark.parametrize("factory", [None, loop_factory()], ids=["asyncio", "uvloop"])
def test_event_loops_side_by_side_do_not_mix_their_bytes(factory: type[asyncio.AbstractEventLoop] | None) -> None:
    """Two loops in two threads read at once. One buffer for both would mix the bytes of the connections."""
    outcome: dict[int, bytes] = {}

    def read(number: int, sock: socket.socket) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            outcome[number] = runner.run(read_all(sock))

    def write(number: int, sock: socket.socket) -> None:
        with sock:
            sock.sendall(bytes([number]) * BYTES)

    threads = []
    for number in (1, 2):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        threads += [
            threading.Thread(target=partial(read, number, ours)),
            threading.Thread(target=partial(write, number, theirs)),
        ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in (1, 2):
        assert (len(outcome[number]), set(outcome[number])) == (BYTES, {number})
