"""Watches whether the operator's own service answers here: clients must not be led to a server without the service."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from gf_i2p.transport.errors import error_text

logger = structlog.get_logger()

CHECK_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 3.0
MISSED: Final = 2
"""Failed tries in a row after which a service that has answered counts as down. A quick restart does not count."""


class ServiceWatch:
    """Connects to the service at intervals and disconnects. `run` does so until cancelled."""

    def __init__(
        self,
        place: tuple[str, int],
        *,
        setting: str = "target in [publish.service]",
        effect: str = "the farm chooses another server",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Try nothing yet.

        Args:
            place: host and port.
            setting: name of the setting that gives `place`, for messages.
            effect: the effect of a service that does not answer: a clause for the operator.
            on_change: called when `up` has changed.
        """
        self.place = place
        self._setting = setting
        self._effect = effect
        self.up = True
        """Whether the service answers; True until the first try."""
        self._missed = MISSED - 1  # a failure of the first try is enough
        self.error: str | None = None
        """Why the last try failed; None when it succeeded."""
        self.on_change = on_change
        """Called when `up` has changed."""

    @property
    def name(self) -> str:
        """Host and port, for messages."""
        host, port = self.place
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def trouble(self) -> str | None:
        """Advice for the operator; None while the service answers."""
        if self.up:
            return None
        return (
            f"the service at {self.name} does not answer ({self.error}), so {self._effect}: start the service, or "
            f"correct {self._setting}"
        )

    async def run(self) -> None:
        """Connect to the local service at intervals until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Connect to the local service once, and note the result."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(*self.place)
        except (OSError, TimeoutError) as error:
            self._missed += 1
            self.error = error_text(error) or "no answer in time"
        else:
            self._missed, self.error = 0, None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        up = self._missed < MISSED
        if up != self.up:
            self.up = up
            logger.info("the local service", target=self.name, up=up)
            self.on_change()
