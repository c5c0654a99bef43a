"""The life of several nodes in one process: the end of one node does not end the others.

One event loop runs all nodes. Each node has its own directory, log, socket and farm; the nodes share the listener
(`listener`). A node that halts, because of its disk or of a defect, is stopped alone. The process reports that node
when the process ends.
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


class SupervisedNode(Protocol):
    """One node and its parts, from start to end."""

    async def start(self) -> None:
        """Begin. Raises when the node cannot start; then nothing of the node is left."""
        ...

    async def stop(self) -> None:
        """End in order. Called once, after `start` has returned."""
        ...


class Supervisor:
    """Runs lives side by side, each under its name; use an instance once."""

    def __init__(self) -> None:
        self.troubles: dict[str, BaseException] = {}
        """By name: why a life has ended early, or never began."""
        self._halted = asyncio.Event()

    def halts(self, name: str) -> Callable[[BaseException], None]:
        """Return the callback by which a node says that it cannot go on."""

        def halt(error: BaseException) -> None:
            self.troubles.setdefault(name, error)
            self._halted.set()

        return halt

    async def run(
        self,
        lives: Mapping[str, SupervisedNode],
        stopped: "asyncio.Future[BaseException | None]",
        *,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """Start all lives; return when `stopped` is set or no life is left, and all lives have ended.

        `on_start` is called after every life has been tried. The log lines of each life carry its name ("node").
        Afterwards `troubles` names the lives that have not ended in order.
        """
        running: dict[str, SupervisedNode] = {}
        endings: dict[str, asyncio.Task[None]] = {}
        contexts = {name: _context(name) for name in lives}
        loop = asyncio.get_running_loop()

        async def end(name: str, life: SupervisedNode) -> None:
            try:
                await life.stop()
            except Exception as error:
                logger.exception("a defect in stopping", node=name)
                self.troubles.setdefault(name, error)

        def begin_to_end(name: str) -> None:
            # In a copy: only one task at a time enters the context itself.
            endings[name] = loop.create_task(end(name, running.pop(name)), context=contexts[name].copy())

        halting = loop.create_task(self._halted.wait())
        try:
            for name, life in lives.items():
                if stopped.done():
                    break
                try:
                    await loop.create_task(life.start(), context=contexts[name])
                except Exception as error:  # noqa: BLE001 -- whatever the error, the other lives shall run
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
        # A sentence tells the operator what to mend; a traceback is for defects of this program.
        trace = None if isinstance(error, _MENDABLE) else error
        logger.critical(event, node=name, reason=str(error), others=others, exc_info=trace)


def _context(name: str) -> contextvars.Context:
    """Make a context whose log lines have this name."""
    context = contextvars.copy_context()
    context.run(bind_contextvars, node=name)
    return context
