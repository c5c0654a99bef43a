"""A router of no network, for a node process on loopback: its SAM and I2CP take sets, and refuse sets on demand."""

import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.i2cp.fake_router import Clock
from tests.cli.routers import ScriptedRouter
from tests.transport.harness import Identity

_CREATE_SESSION: Final = 1
"""Type of the message CreateSession (I2CP)."""


class _LiveClock(Clock):
    """The time of this machine."""

    def __init__(self) -> None:
        pass

    @property
    def now(self) -> float:  # type: ignore[override]
        """Seconds since the epoch."""
        return time.time()


class MadeUpRouter:
    """The router. Use it as an asynchronous context manager."""

    def __init__(self, directory: Path, name: str) -> None:
        """`directory`: for the router's certificate. `name`: of its files there."""
        self.leaf = DestinationKeys.generate()
        """Keys of the leaf that the router runs, and whose lease set is current."""
        self._router = ScriptedRouter(Identity.make(directory, name), without=("proxy", "i2pcontrol"))
        self._router.i2cp.clock = _LiveClock()
        self._router.i2cp.netdb[self.leaf.destination.hash] = self.leaf.destination

    @property
    def settings(self) -> str:
        """The lines of a node's table `[router]`."""
        ports = self._router.ports
        return "\n".join(
            [
                "[router]",
                f'i2cp = "127.0.0.1:{ports["i2cp"]}"',
                f'sam = "127.0.0.1:{ports["sam"]}"',
                f'proxy = "127.0.0.1:{ports["proxy"]}"',
                'kind = "i2pd"',
            ]
        )

    @property
    def sets(self) -> int:
        """Number of the Meta lease sets that the router has taken."""
        return len(self._router.i2cp.stored)

    def refuse_sessions(self) -> None:
        """End all sessions, and open no session from now on. The router answers everything else."""
        self._router.i2cp.deaf.add(_CREATE_SESSION)
        self._router.i2cp.hang_up()

    def take_sessions(self) -> None:
        """Open sessions again."""
        self._router.i2cp.deaf.discard(_CREATE_SESSION)

    async def __aenter__(self) -> Self:
        await self._router.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._router.__aexit__(kind, error, trace)
