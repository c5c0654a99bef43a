"""The callers' publications. A publication goes on after the answer of the call, and after the caller's end."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.i2pcontrol.extension import Code, PublicationPhase, PublicationState
from bridges.router_protocol import MetaPublishing, Publication
from bridges.serving.jsonrpc_server import CallError
from gf_i2p.netdb.encoding import to_b32_address

logger = structlog.get_logger()

MAX_MASTERS: Final = 16
"""Most masters at once: each has tunnels of its own."""
RENEW_SECONDS: Final = 900.0
"""Seconds after which a publication that was not renewed ends: routers take no set that is ten minutes old."""


@dataclass(slots=True)
class _RunningPublication:
    """The publication of one master."""

    state: PublicationState
    task: "asyncio.Task[None] | None" = None
    """Gives the router a set; None while no set is on its way."""
    error: Exception | None = None
    """The error with which the last set failed; None while there is no error."""
    end: asyncio.TimerHandle | None = None
    """Timer that ends a publication that is not renewed."""


class Publications:
    """Publishes through a bridge, in the background."""

    def __init__(self, bridge: MetaPublishing, renew_seconds: float = RENEW_SECONDS) -> None:
        self._bridge = bridge
        self._renew_seconds = renew_seconds
        self._slots: dict[bytes, _RunningPublication] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def state(self, master: bytes) -> PublicationState:
        """Return the state of a master's publication."""
        slot = self._slots.get(master)
        if slot is None:
            return PublicationState()
        if slot.task is None and slot.state.state is PublicationPhase.SENT:
            trouble = self._bridge.publication_trouble(master)
            if trouble is not None:
                return replace(slot.state, state=PublicationPhase.LOST, reason=trouble)
        return slot.state

    async def publish(self, publication: Publication, seconds: float) -> PublicationState:
        """Give the router a set; return the state, after `seconds` at the latest.

        While the work goes on, the state is `OPENING`, or `SENT` when the router has an earlier set.

        Raises `RouterError` for a failure within that time. Raises `CallError` as `check_free` does.
        """
        master = publication.lease_set.destination.hash
        slot = self._free_slot(master)
        slot.error = None
        if self.state(master).state is not PublicationPhase.SENT:
            slot.state = replace(slot.state, state=PublicationPhase.OPENING, reason=None)
        task = slot.task = self._start(self._give(slot, publication))
        self._restart_timer(master, slot)
        await asyncio.wait([task], timeout=seconds)
        if slot.error is not None and task.done():
            raise slot.error
        return slot.state if self._slots.get(master) is slot else self.state(master)

    async def stop(self, master: bytes) -> None:
        """Publish nothing for this master any more; a set on its way is given up. Raises `RouterError`."""
        slot = self._slots.pop(master, None)
        if slot is not None and slot.end is not None:
            slot.end.cancel()
        # Shielded from the end of the call: a caller that hangs up must not leave the stop half done.
        await asyncio.shield(self._start(self._bridge.stop_publishing_meta_lease_set(master)))

    async def close(self) -> None:
        """Give up all sets on their way. The caller closes the bridge."""
        for slot in self._slots.values():
            if slot.end is not None:
                slot.end.cancel()
        self._slots.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check_free(self, master: bytes) -> None:
        """Raise `CallError` while a set of this master is on its way, or when there are `MAX_MASTERS` other masters."""
        slot = self._slots.get(master)
        if slot is not None and slot.task is not None:
            raise CallError(
                Code.BUSY, "the router is getting a set of this master: wait until GetMetaLSStatus tells the outcome"
            )
        if slot is None and len(self._slots) >= MAX_MASTERS and not self._lost_masters():
            raise CallError(Code.BUSY, f"{MAX_MASTERS} masters have publications here: stop one of them first")

    def _free_slot(self, master: bytes) -> _RunningPublication:
        self.check_free(master)
        slot = self._slots.get(master)
        if slot is None:
            if len(self._slots) >= MAX_MASTERS:
                self._forget(self._lost_masters()[0])
            slot = self._slots[master] = _RunningPublication(PublicationState())
        return slot

    def _lost_masters(self) -> list[bytes]:
        return [each for each in self._slots if self.state(each).state is PublicationPhase.LOST]

    async def _give(self, slot: _RunningPublication, publication: Publication) -> None:
        lease_set = publication.lease_set
        try:
            await self._bridge.publish_meta_lease_set(publication)
        except RouterError as error:
            slot.error = error
            slot.state = replace(slot.state, state=PublicationPhase.LOST, reason=str(error))
        except Exception as error:
            slot.error = error
            slot.state = replace(
                slot.state, state=PublicationPhase.LOST, reason="a defect of the endpoint; see its log"
            )
            logger.exception("a publication failed", master=lease_set.destination.b32)
        else:
            slot.state = PublicationState(PublicationPhase.SENT, None, lease_set.published, lease_set.expires_at)
        finally:
            slot.task = None

    def _restart_timer(self, master: bytes, slot: _RunningPublication) -> None:
        if slot.end is not None:
            slot.end.cancel()
        slot.end = asyncio.get_running_loop().call_later(self._renew_seconds, self._abandon, master, slot)

    def _abandon(self, master: bytes, slot: _RunningPublication) -> None:
        logger.warning("a publication was not renewed, and has ended", master=to_b32_address(master))
        if slot.state.state is not PublicationPhase.LOST:
            reason = f"the publication was not renewed for {self._renew_seconds:.0f} s, and has ended"
            slot.state = replace(slot.state, state=PublicationPhase.LOST, reason=reason)
        self._start(self._bridge.stop_publishing_meta_lease_set(master))

    def _forget(self, master: bytes) -> None:
        end = self._slots.pop(master).end
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
