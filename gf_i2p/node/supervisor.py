"""The life of several nodes in one process: what ends one of them does not end the others.

One event loop runs them all. Each has its own directory, log, socket and farm; what they share is the door (`door`).
A node that stops by itself, for its disk or for a defect of ours, is stopped alone, and the process tells at its end.
"""

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import structlog
from structlog.contextvars import bind_contextvars

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.storage.errors import StorageError
from gf_i2p.transport.errors import TransportError

logger = structlog.get_logger()

_MENDABLE: Final = (ConfigError, StorageError, TransportError, OSError)


class Life(Protocol):
    """One node and what belongs to it, from its start to its end."""

    async def start(self) -> None:
        """Begin. Raises when it cannot; then nothing of it is left."""
        ...

    async def stop(self) -> None:
        """End in order. Called once, after `start` has returned."""
        ...


class Several:
    """Runs lives side by side, each by its name; use it once."""

    def __init__(self) -> None:
        self.troubles: dict[str, BaseException] = {}
        """Why those that do not run any more have ended, or never began; by name."""
        self._halted = asyncio.Event()

    def halts(self, name: str) -> Callable[[BaseException], None]:
        """Return what a node is given to say that it cannot go on."""

        def halt(error: BaseException) -> None:
            self.troubles.setdefault(name, error)
            self._halted.set()

        return halt

    async def run(
        self,
        lives: Mapping[str, Life],
        stopped: "asyncio.Future[BaseException | None]",
        *,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """Start all and return when `stopped` is set, or none of them lives, and all have ended.

        `on_start` is called once all that can be started have been. What each of them does is logged with its name
        ("node"). Afterwards `troubles` says who has not ended as it should.
        """
        running: dict[str, Life] = {}
        endings: dict[str, asyncio.Task[None]] = {}
        contexts = {name: _context(name) for name in lives}
        loop = asyncio.get_running_loop()

        async def end(name: str, life: Life) -> None:
            try:
                await life.stop()
            except Exception as error:
                logger.exception("a defect in stopping", node=name)
                self.troubles.setdefault(name, error)

        def begin_to_end(name: str) -> None:
            # In a copy: the context itself is only entered by one task after the other.
            endings[name] = loop.create_task(end(name, running.pop(name)), context=contexts[name].copy())

        halting = loop.create_task(self._halted.wait())
        try:
            for name, life in lives.items():
                if stopped.done():
                    break
                try:
                    await loop.create_task(life.start(), context=contexts[name])
                except Exception as error:  # noqa: BLE001 -- whatever it is, the others are to run
                    self.troubles.setdefault(name, error)
                    self._tell("not served", name, len(lives) - 1)
                else:
                    running[name] = life
            on_start()
            while running and not stopped.done():
                for name in [name for name in running if name in self.troubles]:
                    self._tell("served no more", name, len(running) - 1)
                    begin_to_end(name)
                if not running:
                    break
                events: list[asyncio.Future[Any]] = [stopped, halting]
                await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
                if halting.done():
                    self._halted.clear()
                    halting = loop.create_task(self._halted.wait())
        finally:
            halting.cancel()
            for name in list(running):
                begin_to_end(name)
            await asyncio.gather(*endings.values())

    def _tell(self, event: str, name: str, others: int) -> None:
        error = self.troubles[name]
        # Where the operator can mend it, the sentence says how; a traceback is for our own defects.
        trace = None if isinstance(error, _MENDABLE) else error
        logger.critical(event, node=name, reason=str(error), others=others, exc_info=trace)


def _context(name: str) -> contextvars.Context:
    """Make a context whose log lines have this name."""
    context = contextvars.copy_context()
    context.run(bind_contextvars, node=name)
    return context
