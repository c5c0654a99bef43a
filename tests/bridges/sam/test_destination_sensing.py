"""Destination sensing, as far as sensing affects the router's health."""

import asyncio
import socket
from typing import cast

import pytest

from bridges.i2cp.settings import I2cpSettings
from bridges.sam import destination_sensing
from bridges.sam.client import Sam
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.transport.harness import PATIENCE

PEER = DestinationKeys.generate().destination


class Session:
    """Stands in for a SAM session with one stream, whose other end the test holds."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.stream_had_ended: bool | None = None

    async def connect(self, _address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(sock=self.theirs)

    def close(self) -> None:
        try:
            self.ours.recv(1 << 16)  # the request
            self.stream_had_ended = self.ours.recv(1) == b""
        except BlockingIOError:
            self.stream_had_ended = False
        except ConnectionResetError:  # ended with much of the answer unread
            self.stream_had_ended = True
        self.ours.close()


class Router:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def session(self, _keys: DestinationKeys) -> Session:
        return self._session


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the router find every lease set."""

    async def find(_settings: I2cpSettings, _hash: bytes) -> bool:
        return True

    monkeypatch.setattr(destination_sensing, "has_lease_set", find)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.0 200 OK\r\n\r\n", b"x" * (100 << 10), b""], ids=["short", "endless", "none"]
)
async def test_the_session_ends_after_its_stream(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise i2pd 2.45.1 may crash: seen after some ten measurements."""
    monkeypatch.setattr(destination_sensing, "_END_SECONDS", 0.05)
    session = Session()
    session.ours.send(answer)
    measured = await destination_sensing.measure(
        cast("Sam", Router(session)), I2cpSettings(), PEER.hash, seconds=PATIENCE if answer else 0.05
    )
    assert (measured.error is None) == bool(answer)
    assert session.stream_had_ended


async def test_an_answer_that_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination_sensing, "_END_SECONDS", 3600.0)
    session = Session()
    session.ours.send(b"hello")
    session.ours.shutdown(socket.SHUT_WR)
    async with asyncio.timeout(10):
        measured = await destination_sensing.measure(cast("Sam", Router(session)), I2cpSettings(), PEER.hash)
    assert measured.error is None
