"""The router info that the router has published last, from the router's own file.

No router tells its router info by I2CP, SAM or i2pcontrol. Both routers write the file `router.info` when they sign a
new router info. The router publishes most of them at once, and the others with the next publication.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import structlog

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.router_info import RouterInfo
from gf_i2p.node.files.checked_read import ConfigError, read_regular

logger = structlog.get_logger()

LOOK_SECONDS: Final = 30.0
"""Seconds between two looks at the file: the time between two status records."""
MAX_BYTES: Final = 4096
"""Most bytes of a router info in a record. i2pd writes up to 3,072, and Java I2P takes no more than 4,096."""
MAX_AGE_MS: Final = 3 * 3_600_000
"""Greatest age of a router info that is reported. A running router signs a new router info after 75 minutes at most
(i2pd 2.58; Java I2P 2.8: 53)."""
MAX_AHEAD_MS: Final = 120_000
"""Most milliseconds that a router info may be ahead of this machine's clock."""
_MOST_SECONDS: Final = 100 * 365 * 86_400
"""The longest time, in seconds, that a message shows."""
LACK: Final = "this server's records lack the router info"
"""The beginning of each `RouterInfoFile.trouble`."""
AGAIN_SECONDS: Final = 0.2
"""Seconds before a broken file is read once more: routers write the file in place."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A file that was read. `mark`: changes when the file changes."""

    mark: tuple[int, int, int]
    published_ms: int
    text: str


class RouterInfoFile:
    """Reads the router's file, again after each change. `run` does so until cancelled."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Read nothing yet. `path`: the router's `router.info`. `clock`: seconds since the epoch."""
        self.base64: str | None = None
        """The router info that the router has published last, in base64; None: not known."""
        self.trouble: str | None = None
        """Why the router info is not known: advice for the operator; None while the router info is known."""
        self._path = path
        self._clock = clock
        self._last: _Read | None = None

    async def run(self) -> None:
        """Look at the file at intervals until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look at the file once. The disk and the signature keep a thread busy, and not the event loop."""
        if self._last is not None and self._objection(self._last) is not None:
            self.base64 = None  # too old by now, also when the disk hangs
        try:
            try:
                self._last = await asyncio.to_thread(_read, self._path, self._last)
            except NetDbError:  # the router may be writing the file just now
                await asyncio.sleep(AGAIN_SECONDS)
                self._last = await asyncio.to_thread(_read, self._path, self._last)
            trouble = self._objection(self._last)
        except ConfigError as error:
            fault = str(error).rstrip(".")
            trouble = f"{fault}: correct info_file in [router], and let the user of this node read that file"
        except NetDbError as error:
            trouble = f"{self._path} is no router info, because {error}: name the router's own router.info in info_file"
        self.base64 = self._last.text if trouble is None and self._last is not None else None
        if trouble is not None:
            trouble = f"{LACK}: {trouble}"
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble is None:
                logger.info("the router info is in the records", file=str(self._path))
            else:
                logger.warning("the router info is not in the records", reason=trouble)

    def _objection(self, read: _Read) -> str | None:
        """Say why this router info is not the one that the router has published last; None: no reason was found."""
        age_ms = int(self._clock() * 1000) - read.published_ms
        away = timedelta(seconds=min(abs(age_ms) // 1000, _MOST_SECONDS))
        if age_ms > MAX_AGE_MS:
            return (
                f"the router info in {self._path} is {away} old, and a running router "
                "renews its router info: start the router, or name the file of this router in info_file"
            )
        if age_ms < -MAX_AHEAD_MS:
            return (
                f"the router info in {self._path} is {away} ahead of this machine's "
                "clock: correct the clocks of router and node"
            )
        return None


def _read(path: Path, last: _Read | None) -> _Read:
    """Read and check the file; return `last` if the file has not changed. Raises `ConfigError` or `NetDbError`."""
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    if last is not None and last.mark == (status.st_mtime_ns, status.st_size, status.st_ino):
        return last
    data, status = read_regular(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} has more than {MAX_BYTES} bytes, and a router info has not.")
    info = RouterInfo.parse(data)
    if not info.verified:
        raise ConfigError(f"{path} has a signature of type {info.identity.signature_type}, which is unknown here.")
    return _Read((status.st_mtime_ns, status.st_size, status.st_ino), info.published, to_base64(data))
