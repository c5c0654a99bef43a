"""Signs sets with a node's keys for programs that may not sign (`bridges.serving.entry_signer.EntrySigner`)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from bridges.errors import RouterRefusedError
from bridges.router_protocol import Publication
from gf_i2p.farm.set_versions import rising_version
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.errors import LimitError
from gf_i2p.netdb.limits import MAX_EXPIRES_SECONDS
from gf_i2p.netdb.meta_lease_set import MetaLease, MetaLeaseSet
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose, Stage, date, load_publishing_keys

logger = structlog.get_logger()

MOST_WAIT_SECONDS: Final = 5.0
"""Most seconds that a call waits for the clock to pass the date of the last set."""


async def _never() -> Callable[[], bool]:
    return lambda: True


class FileSigner:
    """Signs with the key file of a node's directory. Each call reads the file again, so a new file needs no restart."""

    def __init__(
        self,
        path: Path,
        *,
        router: str = "auto",
        check_node: Callable[[], Awaitable[Callable[[], bool]]] = _never,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read nothing yet.

        Args:
            path: the key file.
            router: "i2pd", "java" or "auto".
            check_node: raises `RouterError` while a node beside the endpoint may publish the master. Otherwise
                `check_node` returns a function, which returns True as long as no such node may publish the master.
            clock: seconds since the epoch.
            sleep: waits for so many seconds.
        """
        self._path = path
        self._router = router
        self._check_node = check_node
        self._clock = clock
        self._sleep = sleep
        self._began = int(clock())
        self._newest: dict[bytes, int] = {}
        """`published` of the last signed set, by master."""

    async def sign(self, master: bytes, entries: Sequence[MetaLease], newest: int | None) -> Publication:
        """Make and sign a set with these entries, and a SessionConfig, as `EntrySigner.sign` says.

        No entry of the set ends later than the keys.
        """
        keys = await asyncio.to_thread(self._load)  # in a thread: a disk that hangs must not hold up other calls
        self._check(keys, master, int(self._clock()))
        may_give = await self._check_node()
        published = await self._version(master, newest or 0)
        lease_set = MetaLeaseSet.build(keys.keys, published=published, entries=_ended(entries, published, keys.ends))
        self._newest[master] = published
        session = keys.fresh_session(Purpose.META, int(self._clock() * 1000))
        return Publication(lease_set, session, keys.signed_session(Purpose.META), may_give=may_give)

    async def _version(self, master: bytes, newest: int) -> int:
        """Return the `published` of the next set, once the clock shows that time.

        No version is ahead of the clock. So the first version after a restart, which is later than the restart, is
        greater than every version before, and floodfills do not drop the set. Raises `RouterRefusedError` when the
        clock would need more than `MOST_WAIT_SECONDS`.
        """
        while True:
            now = self._clock()
            last = max(self._newest.get(master, self._began), newest)
            published = rising_version(last, int(now * 1000))
            if published <= now:
                return published
            if published - now > MOST_WAIT_SECONDS:
                raise RouterRefusedError(
                    f"this endpoint signs nothing now, because the last set, or the endpoint's start, is dated "
                    f"{last - now:.0f} s later than this machine's clock shows, and floodfills drop a set with an "
                    "earlier date: check that clock, or wait"
                )
            await self._sleep(published - now)

    def _load(self) -> PublishingKeys:
        """Read the keys. Raises `RouterRefusedError` for missing or unusable keys.

        The error, which the endpoint's caller gets, does not name the file. The endpoint's log has the file and the
        reason.
        """
        try:
            return load_publishing_keys(self._path)
        except ConfigError as error:
            logger.warning("entries of a caller were not signed", reason=str(error))
            raise RouterRefusedError(
                "this endpoint cannot sign, because its keys are missing or unusable: the operator finds the reason in "
                "the endpoint's log, and puts the right file at publish.keys"
            ) from None

    def _check(self, keys: PublishingKeys, master: bytes, now: int) -> None:
        """Raise `RouterRefusedError` when these keys may not sign for this master now."""
        if keys.destination.hash != master:
            raise RouterRefusedError(
                f"this endpoint does not sign for {to_b32_address(master)}: it has the keys of another master"
            )
        if keys.stage(now) is Stage.ENDED:
            assert keys.ends is not None
            raise RouterRefusedError(
                f"this endpoint cannot sign, because its keys are at the end of their life, {date(keys.ends)}: the "
                "operator makes new ones where the master's own key is (gf-i2p keys delegate), and puts that file at "
                "publish.keys"
            )
        objection = keys.objection(self._router)
        if objection is not None:
            raise RouterRefusedError(f"this endpoint cannot sign: {objection}")


def _ended(entries: Sequence[MetaLease], published: int, ends: int | None) -> list[MetaLease]:
    """Return the entries, and let no entry end later than the signing key. Raises `LimitError` for a wrong end.

    `published`: date of the set. `ends`: end of the signing key; None: the key never ends. Times are in seconds since
    the epoch.
    """
    for number, entry in enumerate(entries, 1):
        if not published < entry.end <= published + MAX_EXPIRES_SECONDS:
            raise LimitError(
                f"entry {number}: Expires: {entry.end} is not after the set's date, {published}, or is more than "
                f"{MAX_EXPIRES_SECONDS} s after that date"
            )
    return list(entries) if ends is None else [replace(entry, end=min(entry.end, ends)) for entry in entries]
