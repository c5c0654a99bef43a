"""Watches whether the operator's own service answers here: clients must not be led to a server without the service."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from gf_i2p.farm.record.destinations import Leaf

logger = structlog.get_logger()

SERVED: Final = "target in [publish.service]"
"""The setting of the service behind the master's address."""
BEHIND_LEAF: Final = "leaf_service in [publish]"
"""The setting of the service behind this router's leaf."""
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
        setting: str = SERVED,
        effect: str = "the farm chooses another server",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Try nothing yet.

        Args:
            place: host and port.
            setting: the setting that names the service, for advice.
            effect: the effect of a service that does not answer: a clause for the operator.
            on_change: see `on_change`.
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
        """Try at intervals until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
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
            self.on_change()


def leaf_service(place: tuple[str, int]) -> ServiceWatch:
    """Make the watch of the service behind this router's leaf. `place`: host and port."""
    return ServiceWatch(place, setting=BEHIND_LEAF, effect="this router's leaf is not listed")


def answering(leaf: Leaf | None, service: ServiceWatch | None) -> Leaf | None:
    """Return the leaf, as down while the service behind the leaf does not answer."""
    if leaf is None or service is None or service.up:
        return leaf
    return replace(leaf, up=False)
