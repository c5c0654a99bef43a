"""The part of a connection to another server that the driver of the core needs."""

from collections.abc import Callable
from typing import Protocol

from gf_i2p.wire.messages import Request, Response

Done = Callable[[Response | None], None]
"""Takes the answer to one request. None: no answer comes, and the fate of the request is unknown."""


class Peer(Protocol):
    """A connection to another server, which is made again whenever it breaks."""

    @property
    def connected(self) -> bool:
        """Whether a request can be sent now."""

    def send(self, request: Request, done: Done, *, seconds: float | None = None) -> None:
        """Send a request. `done` is called later, exactly once. `seconds`: time limit for the answer."""

    def reset(self, reason: str) -> None:
        """Drop the connection and dial again; requests on the way get None as their answer."""
