"""Exports the log: every committed entry goes to the history, once and in order.

Like `FarmView`, the exporter follows the log. The history's files show which entry comes next, also after a restart. A
process of its own writes and packs the files (`RemoteHistory`). The node takes pages of entries out of the log, and
sends these pages to that process.

The exporter waits for a moment (`_GATHER_SECONDS`) and writes the entries of that time together. So the history costs
the disk a few fsyncs a second, and not one for each commit. The time "received" may be late by that moment.

The history's process takes the processor time that nobody else wants. The entries become urgent, and the process
competes with the others, when the history lacks more than `_PATIENT_ENTRIES`, or has lacked some for
`_PATIENCE_SECONDS`.

The farm never stops for the history. When the disk is full, or the files are damaged or gone, the node goes on without
the history, tells the operator once, and tries again. The same happens when the process ends.
"""

import asyncio
import errno
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import structlog

from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.history.remote_history import HistoryProcess, RemoteHistory, StartProcess
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_reader import HistoryError
from gf_i2p.storage.history_writer import Rotation
from gf_i2p.transport.backoff import Backoff
from gf_i2p.wire.messages import NOBODY

logger = structlog.get_logger()

HELD_ENTRIES: Final = 1 << 18
"""Most entries that the log keeps for a history that cannot be written: ten days of status records of three servers."""
_PAGE_ENTRIES: Final = 1024
_PAGE_BYTES: Final = 1 << 20
_GATHER_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 5.0
"""On a machine that is busy for longer, the log would grow meanwhile."""
_PATIENT_ENTRIES: Final = 4096
"""With more, entries leave the log's memory before they are exported. To read them from the disk costs the node time:
a follower caught up on 100,000 entries in 2.8 s instead of 1.6 s."""
_CHECK_SECONDS: Final = 60.0
"""Seconds between two checks of an idle history, and between attempts to rotate.

A check looks whether the file is still there, and whether the file is so old that it must be rotated.
"""
_AGAIN_SECONDS: Final = 1.0
_MAX_AGAIN_SECONDS: Final = 60.0


class Exporter:
    """Feeds the history of one node. `run` keeps the history up to date; call `close` after `run` has ended.

    `begins_after`: index of the last entry dropped from the log, 0 when the log is whole. `start_process`: starts what
    writes the files.
    """

    def __init__(
        self,
        directory: Path,
        cluster: str,
        server_id: int,
        driver: Driver,
        *,
        rotation: Rotation,
        begins_after: int = 0,
        start_process: StartProcess = HistoryProcess.start,
    ) -> None:
        self.durable_index = 0
        """All entries up to this index are durable in the history; 0 until the history is open."""
        self._directory = directory
        self._owner = (cluster, server_id)
        self._core = driver.core
        self._rotation = rotation
        self._start_process = start_process
        self._begins_after = begins_after
        self._log_end = driver.core.log.last_index
        self._history: RemoteHistory | None = None
        self._more = asyncio.Event()
        self._backoff = Backoff(floor=_AGAIN_SECONDS, ceiling=_MAX_AGAIN_SECONDS)
        self._trouble: str | None = None
        self._packing_trouble: str | None = None
        self._paused = False
        self._rotation_failed = False
        self._rotate_at = 0.0
        self._complete_at = time.monotonic()  # when the history last had every committed entry
        driver.on_applicable.append(self._more.set)

    @property
    def lag(self) -> int:
        """Number of committed entries that are not durable in the history yet."""
        return max(self._core.applicable - self.durable_index, 0)

    # For the log ----------------------------------------------------------------------------------------------------

    @property
    def releasable(self) -> int:
        """Index up to which the history lets the log be compacted.

        While the history can be written, this is the last durable index. Otherwise the log keeps at most `HELD_ENTRIES`
        entries for the history. Entries that are compacted before they are exported become a gap in this node's
        history. Other servers' histories still have those entries, unless those disks are full, too.
        """
        if not self._paused:
            return self.durable_index
        return max(self.durable_index, self._core.applicable - HELD_ENTRIES)

    def log_begins_after(self, index: int) -> None:
        """Note that the log no longer has the entries up to `index`, after a compaction or an installed snapshot.

        The entries that were not exported before become a gap. Call this in the turn of the event loop in which the log
        has changed, before `run` looks at the log.
        """
        if index > self._begins_after:
            self._begins_after = index
            self._more.set()

    # Life -----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the log until cancelled."""
        while True:
            try:
                await self._step()
            except (StorageError, OSError) as error:
                self._fail(error)
                await self._leave()
                await asyncio.sleep(self._backoff.next())
            except Exception:
                await self._leave()  # the defect may have left any state behind
                raise

    async def close(self) -> None:
        """Finish the present write. Entries not yet exported and files not yet packed wait for the next start."""
        await self._leave()

    async def _leave(self) -> None:
        if self._history is not None:
            await self._history.close()
            self._history = None

    async def _step(self) -> None:
        """Do the next piece of work: open, rotate or write the history. Wait while there is nothing to do."""
        history = self._history
        if history is None:
            history = await self._open()
        history.check_process()
        self._tell_of_packing(history)
        first = history.durable_index + 1
        if await self._rotate(history):
            return
        if (last := self._log_base) >= first:
            logger.warning("the history has a gap: the log no longer has these entries", first=first, last=last)
            await self._write(history, history.gap(last, self._servers_after(last)))
        elif first <= self._core.applicable:
            page = self._core.log.slice(first, self._core.applicable, max_entries=_PAGE_ENTRIES, max_bytes=_PAGE_BYTES)
            urgent = self.lag > _PATIENT_ENTRIES or time.monotonic() - self._complete_at > _PATIENCE_SECONDS
            await self._write(history, history.append(page, self._term_and_leader, urgent=urgent))
        else:
            self._note_success()
            self._more.clear()
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._more.wait()
                await asyncio.sleep(_GATHER_SECONDS)
            except TimeoutError:
                await self._write(history, history.check_place())
            self._complete_at = time.monotonic()

    @property
    def _log_base(self) -> int:
        """Index of the last entry dropped from the log.

        The log may be shortened before its entries are exported: when the log could not be held back any longer, or
        when the exported files were removed.
        """
        return max(self._begins_after, self._core.log.base)

    @property
    def _term_and_leader(self) -> tuple[int, int] | None:
        """The present term and its leader; None when the leader is not known. The core forgets earlier leaders."""
        core = self._core
        return None if core.leader == NOBODY else (core.term, core.leader)

    def _servers_after(self, index: int) -> list[int] | None:
        """Return the ids of the farm's servers after the entry `index`, which the log has dropped; None when not known.

        After a damaged snapshot, perhaps only the initial Configuration of a new farm is left. That Configuration
        has index 0, and says nothing about the servers at `index`.
        """
        configuration = self._core.configuration_at(index)
        return [server.id for server in configuration.servers] if configuration.log_index else None

    async def _open(self) -> RemoteHistory:
        # Set before the history is open: when a stop cancels `_open`, `close` still ends the process.
        history = self._history = RemoteHistory(await self._start_process(), self._directory, self._more.set)
        await history.open(*self._owner, self._rotation)
        if history.cut_bytes:
            logger.info("an unsynced end of the history's newest file was cut off", cut_bytes=history.cut_bytes)
        self._compare(history)
        self.durable_index = history.durable_index
        return history

    def _compare(self, history: RemoteHistory) -> None:
        """Refuse a history that was exported from another log. Raises `HistoryError`."""
        end, log = max(self._log_end, self._core.applicable), self._core.log
        difference = None
        if history.durable_index > end:
            difference = f"has the entry {history.durable_index}, and the log ends with {end}"
        elif history.last_term is not None and history.last_term[0] > self._log_base:
            index, term = history.last_term
            if log.term(index) != term:
                difference = f"has the entry {index} in term {term}, and the log has it in term {log.term(index)}"
        if difference is not None:
            raise HistoryError(
                f"{history.directory} {difference}: it was exported from another log. If this server's log was "
                "replaced by an older copy, stop the node at once: the copy lacks votes and acknowledged entries. If "
                "this is a new farm, move the directory away, and a new history begins."
            )

    async def _rotate(self, history: RemoteHistory) -> bool:
        """Begin a new file of the history when that is due; return whether a new file was begun.

        After a failure, the next attempt follows after `_CHECK_SECONDS`.

        A backlog of entries does not delay the rotation: a backlog may last for hours, and the file would grow on.
        """
        if not history.is_due or (self._rotation_failed and time.monotonic() < self._rotate_at):
            return False
        self._rotation_failed = True
        self._rotate_at = time.monotonic() + _CHECK_SECONDS
        try:
            await self._write(history, history.rotate())
        except HistoryError:
            self._rotation_failed = False  # the file is gone: the next file may be rotated at once
            raise
        self._rotation_failed = False
        return True

    def _tell_of_packing(self, history: RemoteHistory) -> None:
        """Tell the operator once when packing fails, and when packing goes on."""
        error = history.packing_error
        text = None if error is None else _advice(self._directory, error)
        if text != self._packing_trouble:
            self._packing_trouble = text
            if text is not None:
                logger.error("the history's ended files cannot be packed, the history goes on", reason=text)
            else:
                logger.info("packing the history's ended files goes on")

    async def _write(self, history: RemoteHistory, request: Awaitable[None]) -> None:
        try:
            await request
        finally:
            self.durable_index = history.durable_index
        self._note_success()

    # Trouble --------------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether no entry can be exported now."""
        return self._paused

    @property
    def trouble(self) -> str | None:
        """Why the history is paused or its files are not packed, and what to do; None when all is well."""
        return self._trouble or self._packing_trouble

    def _fail(self, error: StorageError | OSError) -> None:
        """Tell the operator, once for each reason."""
        self._paused = True
        text = _advice(self._directory, error)
        if text != self._trouble:
            self._trouble = text
            logger.error("the history is paused, the node goes on", reason=text)

    def _note_success(self) -> None:
        self._backoff.reset()
        self._paused = False
        if self._trouble is not None and not self._rotation_failed:
            self._trouble = None
            logger.info("the history goes on", index=self.durable_index)


def _advice(directory: Path, error: StorageError | OSError) -> str:
    if isinstance(error, StorageError):
        return str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return (
            f"the disk under {directory} is full: free some space, or set history.keep_days. Nothing is lost while the "
            "log can hold the entries; the history then goes on by itself"
        )
    return (
        f"{error.filename or directory}: {error.strerror}. The history needs a disk that works, and files that belong "
        "to the user that runs this node; the history then goes on by itself"
    )
