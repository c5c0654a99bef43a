"""Tries the farm's destinations through the network from time to time, and passes the results to the reporter.

Each destination is tried once in an interval, one destination at a time, at random times. A try costs tunnels, and
tries of all destinations at fixed times would show an observer that the router belongs to this farm.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import structlog

from bridges.errors import RouterError
from bridges.router_protocol import RouterBridge, SetFinding
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination
from gf_i2p.farm.record.status_record import MAX_REMOTE_DESTINATIONS
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.clock import now_ms
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView

logger = structlog.get_logger()

FORGET: Final = 3
"""Intervals after which a result is no longer reported."""
TRY_SECONDS: Final = 300.0
"""Most seconds for one try; building tunnels takes minutes."""
LEAST_PAUSE: Final = 20.0
"""Least seconds between two tries, however many destinations there are."""
_STORE_TYPES: Final = {"meta": 7, "failover": 3}


class DestinationSensing:
    """Tries one destination after the other, until cancelled."""

    def __init__(
        self,
        server_id: int,
        view: FarmView,
        reporter: Reporter,
        bridge: RouterBridge,
        *,
        mode: str,
        minutes: int,
        uniform: Callable[[float, float], float] | None = None,
    ) -> None:
        """`mode`: mode of publishing. `minutes`: the interval. `uniform`: returns a random float between two floats."""
        self.trouble: str | None = None
        """Why the last search for the master's set failed; None when it succeeded, or before the first search."""
        self._id = server_id
        self._view = view
        self._reporter = reporter
        self._bridge = bridge
        self._mode = mode
        self._seconds = minutes * 60.0
        self._uniform = random.SystemRandom().uniform if uniform is None else uniform
        self._results: dict[bytes, RemoteDestination] = {}
        self._last: bytes | None = None
        self._log = logger.bind(server=server_id)

    async def run(self) -> None:
        """Try one destination after another, with a random pause before each, until cancelled."""
        while True:
            await asyncio.sleep(self.pause())
            await self.step()

    def pause(self) -> float:
        """Return the seconds until the next try, so that every destination is tried once in an interval."""
        share = self._seconds / max(len(self.targets()), 1)
        return max(self._uniform(0.5 * share, 1.5 * share), LEAST_PAUSE)

    def targets(self) -> list[bytes]:
        """Return the sorted targets: listed leaves of other servers, and the master while another server publishes."""
        listed = {entry.hash for entry in self._view.choice.listed if entry.owner != self._id}
        return sorted(listed | self._masters)

    async def step(self) -> None:
        """Try the next destination, and put the result into the reporter's records."""
        targets = self.targets()
        if targets:
            following = [target for target in targets if self._last is None or target > self._last]
            target = self._last = (following or targets)[0]
            await (self._look_for(target) if target in self._masters else self._try(target))
        self._forget(set(targets))

    async def _try(self, target: bytes) -> None:
        try:
            async with asyncio.timeout(TRY_SECONDS):
                status = await self._bridge.remote_measured_status(target)
        except (RouterError, TimeoutError) as error:
            # This says nothing about the destination: the fault is in this server's router.
            self._log.info("not sensed", destination=to_b32_address(target), reason=str(error) or "it took too long")
            return
        self._results[target] = RemoteDestination(
            target,
            status.connect_seconds is not None,
            _ms(status.lease_set_seconds),
            _ms(status.connect_seconds),
            now_ms(),
        )

    async def _look_for(self, master: bytes) -> None:
        bridge: Any = self._bridge
        if not isinstance(bridge, SetFinding):
            self.trouble = "the bridge to this router cannot search for lease sets"
            return
        try:
            async with asyncio.timeout(TRY_SECONDS):
                seconds = await bridge.find_set(master, _STORE_TYPES[self._mode])
        except (RouterError, TimeoutError) as error:
            self.trouble = str(error) or "it took too long"
            return
        self.trouble = None
        self._reporter.meta_sensing = MetaSensing(None, _ms(seconds), now_ms())
        self._reporter.changed()

    @property
    def _masters(self) -> set[bytes]:
        """Hashes of the masters for which other servers report that they publish: one as a rule, or none."""
        if self._mode not in _STORE_TYPES:
            return set()
        metas = [record.meta for server, record in self._view.state.records.items() if server != self._id]
        return {hash_ for meta in metas if meta is not None and meta.publishing and (hash_ := meta.hash) is not None}

    def _forget(self, targets: set[bytes]) -> None:
        oldest = now_ms() - int(FORGET * self._seconds * 1000)
        self._results = {
            target: result for target, result in self._results.items() if target in targets and result.date_ms >= oldest
        }
        newest = sorted(self._results.values(), key=lambda result: -result.date_ms)[:MAX_REMOTE_DESTINATIONS]
        self._reporter.remote_destinations = tuple(newest)
        sensing = self._reporter.meta_sensing
        if sensing is not None and sensing.date_ms < oldest:
            self._reporter.meta_sensing = None


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
