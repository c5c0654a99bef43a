"""Tells systemd how this process does, as sd_notify(3) describes: ready, alive, reloading, stopping.

systemd names a datagram socket in NOTIFY_SOCKET, and the watchdog's time in WATCHDOG_USEC. Without these variables
nothing is sent. The event loop itself sends the sign of life: a loop that is stuck sends none, and systemd kills it.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final, Self

_SIGNS: Final = 3
"""Signs of life in the watchdog's time: one late sign does no harm."""


class ServiceManager:
    """The way to the service manager of this process. No method raises: a node runs on when its manager is deaf."""

    def __init__(self, address: str | None = None, watchdog_seconds: float | None = None) -> None:
        """`address`: of a UNIX datagram socket, with "@" before an abstract name; None: there is no manager.

        `watchdog_seconds`: most seconds between two signs of life, above 0; None: the manager wants none.
        """
        self._address = address.replace("@", "\0", 1) if address and address.startswith("@") else address
        self._every = None if watchdog_seconds is None else watchdog_seconds / _SIGNS
        self._timer: asyncio.TimerHandle | None = None
        self._is_ready = False
        """Whether the manager takes this process for ready: after `ready`, and before `stopping`."""

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """Take the variables out of the environment: they are for this process, and for none of its children."""
        address = environment.pop("NOTIFY_SOCKET", None)
        micros, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        ours = pid in {"", str(os.getpid())}
        return cls(address, int(micros) / 1e6 if ours and micros.isdecimal() and int(micros) > 0 else None)

    def ready(self) -> None:
        """Tell that all has started; from now on the running event loop gives signs of life. Call it once."""
        self._is_ready = True
        self._tell("READY=1")
        if self._every is not None and self._address is not None:
            self._sign_of_life(asyncio.get_running_loop(), self._every)

    def stopping(self) -> None:
        """Tell that the stop has begun. The signs of life go on: a stop can be stuck, too."""
        self._is_ready = False
        self._tell("STOPPING=1")

    def close(self) -> None:
        """Give no more signs of life."""
        if self._timer is not None:
            self._timer.cancel()

    @contextlib.contextmanager
    def reloading(self) -> Iterator[None]:
        """Tell that the files are read anew, and at the end of the block that this is done.

        Nothing is told before `ready` and after `stopping`: the end of a reload is the word "ready", too.
        """
        if not self._is_ready:
            yield
            return
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
        try:
            yield
        finally:
            self._tell("READY=1")

    def wrap_reload(self, reload: Callable[[], None]) -> Callable[[], None]:
        """Return `reload` inside `reloading`."""

        def told() -> None:
            with self.reloading():
                reload()

        return told

    def _sign_of_life(self, loop: asyncio.AbstractEventLoop, every: float) -> None:
        self._tell("WATCHDOG=1")
        self._timer = loop.call_later(every, self._sign_of_life, loop, every)

    def _tell(self, message: str) -> None:
        if self._address is None:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)  # a full queue of the manager must not hold the loop
            sender.sendto(message.encode(), self._address)
