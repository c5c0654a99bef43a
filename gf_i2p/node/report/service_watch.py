"""Whether the operator's own service answers here: clients are not to be led to a server without it."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

logger = structlog.get_logger()

LOOK_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 3.0
MISSED: Final = 2
"""So many tries in a row must fail once it has answered: a service that is restarted at once is not given up."""


class TargetWatch:
    """Connects now and then, and hangs up. `run` does so for ever."""

    def __init__(self, place: tuple[str, int], *, on_change: Callable[[], None] = lambda: None) -> None:
        """`place`: host and port. `on_change`: called when `up` has changed."""
        self.place = place
        self.up = True
        """Whether it answers; until it was tried, it does."""
        self._missed = MISSED - 1  # the first try counts alone
        self.error: str | None = None
        """What came of the last try, when it did not answer."""
        self._on_change = on_change

    @property
    def name(self) -> str:
        """For people."""
        host, port = self.place
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def trouble(self) -> str | None:
        """What the operator should do, None while it answers."""
        if self.up:
            return None
        return (
            f"the service at {self.name} does not answer ({self.error}), so another server is to be chosen: start it, "
            "or correct target in [publish.service]"
        )

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Try once."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(*self.place)
        except (OSError, TimeoutError) as error:
            self._missed += 1
            self.error = getattr(error, "strerror", None) or str(error) or "no answer in time"
        else:
            self._missed, self.error = 0, None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        up = self._missed < MISSED
        if up != self.up:
            self.up = up
            logger.info("the local service", target=self.name, up=up)
            self._on_change()
