"""The failure detector: a leader reports silent servers at once, before their records become too old."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import MAX_REMOTE_ROUTERS
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView
from gf_i2p.raft.configurations import majority
from gf_i2p.raft.settings import Timing

logger = structlog.get_logger()

CHECK_SECONDS: Final = 0.5
LEAST_SECONDS: Final = 2.0
"""Least seconds of silence before a server counts as out of reach: a busy machine may pause for a second."""
HEARTBEATS: Final = 3


def patience(timing: Timing) -> float:
    """Return the seconds of silence after which a server counts as out of reach.

    Three heartbeats, but not less than an election time-out, which adapts to the length of tunnel stalls.
    """
    return max(HEARTBEATS * timing.heartbeat, timing.election_min, LEAST_SECONDS)


class FailureDetector:
    """Checks the servers' silences while this server leads, and has the reporter post changes."""

    def __init__(
        self, driver: Driver, view: FarmView, reporter: Reporter, *, clock: Callable[[], float] | None = None
    ) -> None:
        """`clock`: the driver's clock, in seconds; without it, the event loop's clock."""
        self._driver = driver
        self._view = view
        self._reporter = reporter
        self._clock = asyncio.get_running_loop().time if clock is None else clock
        self._checked_at = float("-inf")
        self._awake_since = float("-inf")
        self._newest_records: dict[int, tuple[int, float]] = {}
        """By server, the date of its newest record, and the time when this server first saw the record."""
        self._log = logger.bind(server=driver.core.id)
        reporter.before_record = self.check  # an older result might accuse a server that has just come back

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(CHECK_SECONDS)

    def check(self) -> None:
        """Compare the silent servers with the last report, and have the reporter post a change."""
        now, core = self._clock(), self._driver.core
        if now > self._checked_at + 2 * CHECK_SECONDS:
            self._awake_since = now  # this node stood still or has just begun: messages may still wait
        self._checked_at = now
        heard = self._last_heard(core.heard, now)
        before = {router.id: router.reachable for router in self._reporter.remote_routers}
        if not core.is_leader:
            after: dict[int, bool] = {}
        else:
            limit = now - patience(core.timing)
            silent = {server for server, at in heard.items() if at < limit}
            if len(heard) + 1 - len(silent) < majority(len(heard) + 1):
                return  # the fault may be this server's; and without a majority no report would be committed
            # A server that is back is reported as reachable while this server leads. Other servers need no report.
            after = {server: server not in silent for server in sorted(heard) if server in silent or server in before}
        if after == before:
            return
        reports = tuple(RemoteRouter(server, reachable) for server, reachable in after.items())
        self._reporter.remote_routers = reports[:MAX_REMOTE_ROUTERS]
        gone = [server for server, reachable in after.items() if not reachable and before.get(server, True)]
        back = [server for server, reachable in after.items() if reachable and not before.get(server, True)]
        if gone or back:
            self._log.info("servers", out_of_reach=gone, heard_again=back)
            self._reporter.changed()

    def _last_heard(self, heard_at: Mapping[int, float], now: float) -> dict[int, float]:
        """Return when each server was last heard, in seconds of `clock`. A new record counts as much as an answer."""
        records = self._view.state.records
        for server in heard_at.keys() & records.keys():
            date = records[server].date_ms
            if self._newest_records.get(server, (None, 0.0))[0] != date:
                self._newest_records[server] = (date, now if server in self._newest_records else float("-inf"))
        self._newest_records = {server: record for server, record in self._newest_records.items() if server in heard_at}
        return {
            server: max(at, self._awake_since, self._newest_records.get(server, (0, float("-inf")))[1])
            for server, at in heard_at.items()
        }
