"""Runs several nodes in one process: the end of one node does not end the others.

One event loop runs all nodes. Each node has its own directory, log, socket and farm; the nodes share the listener
(`listener`). When a node halts, because of its disk or a defect, only that node is stopped. The process reports the
node when the process ends.
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
    """A node, and all that starts and stops with the node."""

    async def start(self) -> None:
        """Start the node. Raises an exception when the node cannot start; then no part of the node runs on."""
        ...

    async def stop(self) -> None:
        """Stop the node in an orderly way. Called once, after `start` has returned."""
        ...


class Supervisor:
    """Runs nodes side by side, each under its name; use an instance once."""

    def __init__(self) -> None:
        self.troubles: dict[str, BaseException] = {}
        """By name: the error with which a node could not start, has ended early, or could not stop properly."""
        self._halted = asyncio.Event()

    def halts(self, name: str) -> Callable[[BaseException], None]:
        """Return the callback by which the node of this name reports that it cannot go on."""

        def halt(error: BaseException) -> None:
            self.troubles.setdefault(name, error)
            self._halted.set()

        return halt

    async def run(
        self,
        nodes: Mapping[str, SupervisedNode],
        stopped: "asyncio.Future[BaseException | None]",
        *,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """Start all nodes, and wait until `stopped` is done or no node is left; then stop all nodes, and return.

        `on_start` is called after the attempts to start every node. The log lines of each node carry its name ("node").
        Afterwards `troubles` has each node that failed.
        """
        running: dict[str, SupervisedNode] = {}
        endings: dict[str, asyncio.Task[None]] = {}
        contexts = {name: _context(name) for name in nodes}
        loop = asyncio.get_running_loop()

        async def end(name: str, node: SupervisedNode) -> None:
            try:
                await node.stop()
            except Exception as error:
                logger.exception("a defect in stopping", node=name)
                self.troubles.setdefault(name, error)

        def start_ending(name: str) -> None:
            # In a copy of the context: two tasks cannot be in one context at the same time.
            endings[name] = loop.create_task(end(name, running.pop(name)), context=contexts[name].copy())

        halting = loop.create_task(self._halted.wait())
        try:
            for name, node in nodes.items():
                if stopped.done():
                    break
                try:
                    await loop.create_task(node.start(), context=contexts[name])
                except Exception as error:  # noqa: BLE001 -- the other nodes must run, whatever the error
                    self.troubles.setdefault(name, error)
                    self._log_trouble("not served", name, len(nodes) - 1)
                else:
                    running[name] = node
            on_start()
            while running and not stopped.done():
                for name in [name for name in running if name in self.troubles]:
                    self._log_trouble("served no more", name, len(running) - 1)
                    start_ending(name)
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
                start_ending(name)
            await asyncio.gather(*endings.values())

    def _log_trouble(self, event: str, name: str, others: int) -> None:
        error = self.troubles[name]
        # A sentence tells the operator what to mend; a traceback is for defects of this program.
        trace = None if isinstance(error, _MENDABLE) else error
        logger.critical(event, node=name, reason=str(error), others=others, exc_info=trace)


def _context(name: str) -> contextvars.Context:
    """Make a context whose log lines have this name."""
    context = contextvars.copy_context()
    context.run(bind_contextvars, node=name)
    return context
