"""The keys with which a running node publishes: watches their expiry, and takes over a replaced key file."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Stage, load_publishing_keys

logger = structlog.get_logger()

CHECK_SECONDS: Final = 10.0
"""Seconds between two checks of the file."""
_MAKE_NEW_KEYS: Final = (
    "Make new ones where the master's own key is (gf-i2p keys delegate), and put that file in the place of this "
    "node's; it is taken over without a restart."
)

_Mark = tuple[int, int, int, int]
_ReadResult = tuple[_Mark | None, PublishingKeys | ConfigError]


class KeysWatch:
    """The present keys of one master. `run` keeps them up to date."""

    def __init__(
        self,
        keys: PublishingKeys,
        path: Path | None = None,
        *,
        router: str = "auto",
        server: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin with the keys just read from the file; without `path` the keys stay the same.

        `router`: "i2pd" or "java", or "auto" while unknown. `server`: id of this server. `clock`: seconds since the
        epoch.
        """
        self.keys = keys
        self.on_change: list[Callable[[], None]] = []
        """Each is called when the keys were replaced, or when `trouble` has changed."""
        self._path = path
        self._router = router
        self._server = server
        self._clock = clock
        self._mark: _Mark | None = (
            None  # None: the first check reads the file, which may have changed since `keys` was read
        )
        self._objection: str | None = None
        """Why the keys of the present file are not in use; None when these keys are in use."""
        self._logged_trouble: str | None = None

    @property
    def stage(self) -> Stage:
        """The stage of the keys' life."""
        return self.keys.stage(int(self._clock()))

    @property
    def ended(self) -> str | None:
        """Why these keys publish nothing any more, as a sentence; None while the keys are good."""
        if self.stage is not Stage.ENDED:
            return None
        return (
            f"nothing is published, because the keys are at the end of their life: {self._described}. {_MAKE_NEW_KEYS}"
        )

    @property
    def trouble(self) -> str | None:
        """Advice about the keys for the operator, as a sentence; None when all is well."""
        if self._objection is not None:
            return self._objection
        if self.ended is not None:
            return self.ended
        if self.stage is Stage.ENDING:
            return f"the keys for publishing end soon: {self._described}. {_MAKE_NEW_KEYS}"
        if self.keys.server is not None and self._server is not None and self.keys.server != self._server:
            return (
                f"the keys for publishing were made for server {self.keys.server}, and this is server {self._server}: "
                "they work here, too, but give each server keys of its own, to know a stolen file by its server"
            )
        return self.keys.objection(self._router)

    async def run(self) -> None:
        """Check the file every `CHECK_SECONDS` until cancelled."""
        while True:
            if self._path is not None:  # in a thread: a disk that hangs must not hold up the node
                self._take_over(self._path, await asyncio.to_thread(_read, self._path, self._mark))
            self._report_trouble()
            await asyncio.sleep(CHECK_SECONDS)

    def check(self) -> None:
        """Read the key file if it has changed, and log the trouble if its text has changed.

        While the keys end soon, the text has the time left. So the trouble is logged daily, at the end hourly.
        """
        if self._path is not None:
            self._take_over(self._path, _read(self._path, self._mark))
        self._report_trouble()

    def _notify(self) -> None:
        for tell in self.on_change:
            tell()

    def _report_trouble(self) -> None:
        trouble = self.trouble
        if trouble != self._logged_trouble:
            self._logged_trouble = trouble
            self._notify()
            if trouble is not None:
                logger.warning("the keys for publishing need attention", server=self._server, reason=trouble)

    def _take_over(self, path: Path, result: _ReadResult | None) -> None:
        """Take over the result of `_read`; None: the file has not changed."""
        if result is None:
            return
        mark, new_keys = result
        self._mark = None  # a file that was not taken over is tried again
        if isinstance(new_keys, ConfigError):
            why = str(new_keys).rstrip(".")
            self._objection = f"{why}. This node goes on with the keys that it has read before, until it stops."
            return
        if new_keys.destination != self.keys.destination:
            self._objection = (
                f"{path} now holds keys for another master, {new_keys.destination.b32}, and this node publishes for "
                f"{self.keys.destination.b32}: restart it to change the master, or put the right file there."
            )
            return
        self._mark, self._objection = mark, None
        if new_keys.encode() != self.keys.encode():
            self.keys = new_keys
            self._notify()
            logger.info("new keys for publishing", server=self._server, keys=self._described)

    @property
    def _described(self) -> str:
        return self.keys.described(int(self._clock()))


def _read(path: Path, known_mark: _Mark | None) -> _ReadResult | None:
    """Read the key file. Return None when the file's mark (`_mark`) is still `known_mark`.

    The mark is taken before the read, so that the next check notices a change during the read.
    """
    mark = _mark(path)
    if mark is not None and mark == known_mark:
        return None
    try:
        return mark, load_publishing_keys(path)
    except ConfigError as error:
        return mark, error


def _mark(path: Path) -> _Mark | None:
    """Return numbers that change when the file is replaced, written or made readable; None when `stat` fails."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
