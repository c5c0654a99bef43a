"""The callers' publications. A publication goes on after the call is answered, and after the caller is gone."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.i2pcontrol.extension import Code, PublicationPhase, PublicationState
from bridges.protocol import MetaPublishing, Publication
from bridges.serving.jsonrpc_server import CallError
from gf_i2p.netdb.encoding import to_b32_address

logger = structlog.get_logger()

MAX_MASTERS: Final = 16
"""Most masters at once: each has tunnels of its own."""
RENEW_SECONDS: Final = 900.0
"""Seconds after which a publication that was not renewed ends: routers take no set that is ten minutes old."""


@dataclass(slots=True)
class _Kept:
    """The publication of one master."""

    state: PublicationState
    task: "asyncio.Task[None] | None" = None
    """Gives the router a set; None while no set is on its way."""
    error: Exception | None = None
    """The error of the last set."""
    end: asyncio.TimerHandle | None = None
    """Timer that ends a publication that is not renewed."""


class Publications:
    """Publishes through a bridge, in the background."""

    def __init__(self, bridge: MetaPublishing, renew_seconds: float = RENEW_SECONDS) -> None:
        self._bridge = bridge
        self._renew_seconds = renew_seconds
        self._kept: dict[bytes, _Kept] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def state(self, master: bytes) -> PublicationState:
        """Return the state of a master's publication."""
        kept = self._kept.get(master)
        if kept is None:
            return PublicationState()
        if kept.task is None and kept.state.state is PublicationPhase.SENT:
            trouble = self._bridge.publication_trouble(master)
            if trouble is not None:
                return replace(kept.state, state=PublicationPhase.LOST, reason=trouble)
        return kept.state

    async def publish(self, publication: Publication, seconds: float) -> PublicationState:
        """Give the router a set. After `seconds` return; the state says opening while the work goes on.

        Raises `RouterError` for a failure within that time. Raises `CallError` when a set of this master is on its way,
        or when there are `MAX_MASTERS` other masters.
        """
        master = publication.lease_set.destination.hash
        kept = self._room(master)
        kept.error = None
        if self.state(master).state is not PublicationPhase.SENT:
            kept.state = replace(kept.state, state=PublicationPhase.OPENING, reason=None)
        task = kept.task = self._start(self._give(kept, publication))
        self._renewed(master, kept)
        await asyncio.wait([task], timeout=seconds)
        if kept.error is not None and task.done():
            raise kept.error
        return kept.state if self._kept.get(master) is kept else self.state(master)

    async def stop(self, master: bytes) -> None:
        """Publish nothing for this master any more; a set on its way is given up. Raises `RouterError`."""
        kept = self._kept.pop(master, None)
        if kept is not None and kept.end is not None:
            kept.end.cancel()
        # Shielded from the end of the call: a caller that hangs up must not leave the stop half done.
        await asyncio.shield(self._start(self._bridge.stop_publishing_meta_lease_set(master)))

    async def close(self) -> None:
        """Give up all sets on their way. The caller closes the bridge."""
        for kept in self._kept.values():
            if kept.end is not None:
                kept.end.cancel()
        self._kept.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _room(self, master: bytes) -> _Kept:
        kept = self._kept.get(master)
        if kept is not None and kept.task is not None:
            raise CallError(
                Code.BUSY, "the router is getting a set of this master: wait until GetMetaLSStatus tells the outcome"
            )
        if kept is not None:
            return kept
        if len(self._kept) >= MAX_MASTERS:
            lost = [each for each in self._kept if self.state(each).state is PublicationPhase.LOST]
            if not lost:
                raise CallError(Code.BUSY, f"{MAX_MASTERS} masters have publications here: stop one of them first")
            self._forget(lost[0])
        kept = self._kept[master] = _Kept(PublicationState())
        return kept

    async def _give(self, kept: _Kept, publication: Publication) -> None:
        lease_set = publication.lease_set
        try:
            await self._bridge.publish_meta_lease_set(publication)
        except RouterError as error:
            kept.error = error
            kept.state = replace(kept.state, state=PublicationPhase.LOST, reason=str(error))
        except Exception as error:
            kept.error = error
            kept.state = replace(
                kept.state, state=PublicationPhase.LOST, reason="a defect of the endpoint; see its log"
            )
            logger.exception("a publication failed", master=lease_set.destination.b32)
        else:
            kept.state = PublicationState(PublicationPhase.SENT, None, lease_set.published, lease_set.expires_at)
        finally:
            kept.task = None

    def _renewed(self, master: bytes, kept: _Kept) -> None:
        if kept.end is not None:
            kept.end.cancel()
        kept.end = asyncio.get_running_loop().call_later(self._renew_seconds, self._abandon, master, kept)

    def _abandon(self, master: bytes, kept: _Kept) -> None:
        logger.warning("a publication was not renewed, and has ended", master=to_b32_address(master))
        if kept.state.state is not PublicationPhase.LOST:
            reason = f"the publication was not renewed for {self._renew_seconds:.0f} s, and has ended"
            kept.state = replace(kept.state, state=PublicationPhase.LOST, reason=reason)
        self._start(self._bridge.stop_publishing_meta_lease_set(master))

    def _forget(self, master: bytes) -> None:
        end = self._kept.pop(master).end
        if end is not None:
            end.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:  # reading the exception keeps asyncio quiet
            logger.debug("a task ended", reason=str(task.exception()))
