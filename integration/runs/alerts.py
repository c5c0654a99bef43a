"""`make alerts`: a real Prometheus watches three servers under load, and then each fault that an alert is for.

    python -m integration.runs.alerts [--seconds 600] [--json]

Three servers on loopback take posts while Prometheus asks each of them every five seconds. No question may fail, and no
alert may fire. Then the run makes each fault. One alert must fire, and must go after the fault is gone. The rules are
those of `gf-i2p monitoring alerts`, with their own waiting times. The seconds of an alert count from the moment at
which the fault holds, and the waiting time of the rule (`for`) is a part of them.

There is no I2P here: the router beside each server is made up, and takes the sets for the network. A set lives for
300 s in place of 1,800 s, and is renewed every 60 s in place of 450 s. All else is as in a real farm: the programs, the
keys, the log, the disk.

The run takes half an hour. The exit code is 0 when all of this holds, else 1.
"""

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import aiohttp

from gf_i2p.cli.shared.errors import Exit
from integration.harness.commands import command
from integration.harness.local_farm import NotSeenError, until
from integration.harness.long_run import Figures, Say, between, say
from integration.harness.long_run import run as run_command
from integration.harness.made_up_router import MadeUpRouter
from integration.harness.prometheus import PROGRAM, Prometheus, prometheus
from integration.harness.watched_farm import BUDGET_MIB, WatchedFarm
from integration.load.steady_load import Paced

EVERY: Final = 5
"""Seconds between two questions of Prometheus, and between two looks at the rules."""
SET_SECONDS: Final = 300
RENEW_MS: Final = 60_000
WRITERS: Final = 3
POSTS: Final = 10.0
"""Posts of each writer in a second, of 1 KiB."""
PATIENCE: Final = 180.0
"""Most seconds that an alert may take beyond the waiting time of its rule, and most seconds until the alert goes."""
KEY_DAYS: Final = 3
_NEAR_SECONDS: Final = 120
"""Seconds before the end of a set at which the set counts as near its end."""
_MOST_UNTIL_HELD: Final = SET_SECONDS
"""Most seconds until a fault holds after its cause."""
_POLL_SECONDS: Final = 0.5
_LIMIT: Final = 3600.0
_FOR: Final = {
    "GarlicFarmLeaderLost": 60,
    "GarlicFarmMinority": 60,
    "GarlicFarmSetNearExpiry": 60,
    "GarlicFarmPublisherSilent": 180,
    "GarlicFarmKeysEnd": 0,
    "GarlicFarmDiskFilling": 300,
}
"""The alerts of this run, and how long each fault must hold before its rule fires, in seconds."""


class Watch:
    """The faults of one run, and the alerts that Prometheus shows for them."""

    def __init__(self, farm: WatchedFarm, watcher: Prometheus, tell: Say) -> None:
        self.rows: list[dict[str, Any]] = []
        """One row for each fault: the alert, the cause, and the seconds until the alert fired and went."""
        self.wrong: list[str] = []
        self._farm = farm
        self._watcher = watcher
        self._say = tell

    async def firing(self, alert: str) -> bool:
        """Return whether this alert fires."""
        return alert in await self._watcher.firing()

    async def fires(self, alert: str, cause: str, held: Callable[[], Awaitable[float]] | None = None) -> dict[str, Any]:
        """Wait until the alert fires; return its row.

        `held`: asked when the alert fires, and returns the time since when the fault holds; None: since now.
        """
        began, most = time.time(), _MOST_UNTIL_HELD * (held is not None) + _FOR[alert] + PATIENCE
        row: dict[str, Any] = {"alert": alert, "cause": cause, "fired after s": None, "gone after s": None}
        self.rows.append(row)
        if await self._seen(f"{alert} fires", partial(self.firing, alert), most):
            seen = time.time()
            row["fired after s"] = round(seen - (began if held is None else await held()), 1)
        self._say(f"{alert}: fired {row['fired after s']} s after: {cause}")
        return row

    async def goes(self, row: dict[str, Any], held: Callable[[], Awaitable[float]] | None = None) -> None:
        """Wait until the alert of a row fires no more. `held`: returns the time of the fault's end; None: now."""
        began, alert = time.time() if held is None else await held(), row["alert"]

        async def gone() -> bool:
            return not await self.firing(alert)

        if await self._seen(f"{alert} goes", gone, max(began - time.time(), 0.0) + PATIENCE):
            row["gone after s"] = round(time.time() - began, 1)
        self._say(f"{alert}: gone {row['gone after s']} s after the fault")

    async def _seen(self, what: str, seen: Callable[[], Awaitable[bool]], most: float) -> bool:
        """Wait until something is seen; return False, and note the fault of the run, when nothing is seen."""
        try:
            await until(what, most, seen, poll=_POLL_SECONDS)
        except NotSeenError as error:
            self.wrong.append(str(error))
            return False
        return True

    # Faults ---------------------------------------------------------------------------------------------------------

    async def keys_end(self, server: int) -> None:
        """Give a server keys that end in days, and then keys that end in months."""
        await self._farm.new_keys(server, KEY_DAYS)
        row = await self.fires("GarlicFarmKeysEnd", f"server {server} got keys that end in {KEY_DAYS} days")
        await self._farm.new_keys(server, 90)
        await self.goes(row)

    async def disk_fills(self, server: int) -> None:
        """Put a large packed file into a server's history, and take the file out again."""
        file = self._farm.packed_file(server)
        mib = BUDGET_MIB * 95 // 100
        with file.open("wb") as made:
            made.truncate(mib << 20)  # no blocks on the disk: the node counts the length
        row = await self.fires("GarlicFarmDiskFilling", f"{mib} of {BUDGET_MIB} MiB were used on server {server}")
        file.rename(self._farm.directory / file.name)
        await self.goes(row)

    async def sets_end(self, router: MadeUpRouter) -> None:
        """Have the publisher's router refuse all sessions until the last set has ended, and then take sets again."""
        router.refuse_sessions()
        taken = router.sets
        near = await self.fires(
            "GarlicFarmSetNearExpiry",
            "the publisher's router refused; counted from 120 s before the set's end",
            self._near,
        )
        ends = await self._end()

        async def at_the_end() -> float:
            return ends

        _, silent = await asyncio.gather(
            self.goes(near, at_the_end),
            self.fires(
                "GarlicFarmPublisherSilent",
                "the publisher gave no new set; counted from the last set's end",
                at_the_end,
            ),
        )
        router.take_sessions()
        await self.goes(silent)
        if router.sets == taken:
            self.wrong.append("the router has got no set again")

    async def _near(self) -> float:
        return await self._end() - _NEAR_SECONDS

    async def _end(self) -> float:
        """Return the end of the newest set, in seconds since the epoch."""
        return max((await self._watcher.values("gf_i2p_set_expires_seconds", "server")).values())

    async def servers_die(self, alert: str, cause: str, servers: Sequence[int]) -> None:
        """Kill servers, one after the other, and start these servers again."""
        for server in servers:
            self._farm.kill(server)
        row = await self.fires(alert, cause)
        for server in servers:
            self._farm.start(server)
        await self.goes(row)
        await until("no alert of this run fires", PATIENCE, self.is_quiet, poll=_POLL_SECONDS)
        await self._farm.leader()
        await self._farm.whole()

    async def is_quiet(self) -> bool:
        """Return whether none of this run's alerts fires."""
        return not _FOR.keys() & await self._watcher.firing()


async def under_load(farm: WatchedFarm, watcher: Prometheus, seconds: float, watch: Watch) -> Figures:
    """Post for so many seconds; return what Prometheus has seen meanwhile."""
    async with AsyncExitStack() as stack:
        loads = [await stack.enter_async_context(Paced(farm.client_file, POSTS)) for _ in range(WRITERS)]
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 10.0))
            farm.check()
            for load in loads:
                load.check()
        posted = sum(len(load.since(0)) for load in loads)
        unanswered = sum(load.unanswered for load in loads)
    window = f"[{int(seconds)}s]"
    asked = await watcher.values(f"count_over_time(up{window})", "instance")
    failed = await watcher.values(f"count_over_time(up{window}) - sum_over_time(up{window})", "instance")
    slowest = await watcher.values(f"max_over_time(scrape_duration_seconds{window})", "instance")
    fired = await watcher.values(
        f'count by (alertname) (count_over_time(ALERTS{{alertstate="firing"}}{window}))', "alertname"
    )
    if any(failed.values()):
        watch.wrong.append(f"questions of Prometheus have failed: {failed}")
    watch.wrong += [f"{alert} fired under load, without a fault" for alert in fired]
    return {
        "seconds_under_load": seconds,
        "posts_acknowledged": posted,
        "posts_unanswered": unanswered,
        "scrapes": int(sum(asked.values())),
        "failed_scrapes": int(sum(failed.values())),
        "slowest_scrape_seconds": round(max(slowest.values()), 3),
        "alerts_under_load": sorted(fired),
    }


async def run(directory: Path, *, seconds: float, tell: Say) -> Figures:
    """Run all of it; return the findings."""
    rules = directory / "alerts.yaml"
    rules.write_text(resources.files("gf_i2p.admin.monitoring").joinpath("alerts.yaml").read_text("utf-8"))
    async with AsyncExitStack() as stack:
        farm = stack.enter_context(WatchedFarm(directory / "farm", set_seconds=SET_SECONDS))
        routers = {
            server: await stack.enter_async_context(MadeUpRouter(directory, f"router-{server}")) for server in farm.ids
        }
        await farm.place(routers)
        farm.start_all()
        await farm.calm()
        await farm.whole()
        changes = [f"republishMinMs={RENEW_MS}", f"republishMaxMs={RENEW_MS}"]
        await command("farm", "set", farm.node(1), *changes, may_be=(Exit.OK, Exit.DEGRADED))
        await until("the publisher's router has a set", PATIENCE, partial(_has_set, routers[1]))
        watcher = await stack.enter_async_context(prometheus(directory, farm.targets, rules, seconds=EVERY))
        await until(
            "Prometheus sees all servers", PATIENCE, partial(_sees_all, watcher, len(farm.ids)), poll=_POLL_SECONDS
        )
        watch = Watch(farm, watcher, tell)
        tell(f"{WRITERS} writers post {POSTS:g} entries a second each, for {seconds:g} s")
        figures = await under_load(farm, watcher, seconds, watch)
        tell(f"{figures['failed_scrapes']} of {figures['scrapes']} scrapes have failed")
        await asyncio.gather(watch.keys_end(2), watch.disk_fills(3), watch.sets_end(routers[1]))
        leader = await farm.leader()
        one, other = (server for server in farm.ids if server != leader)
        lost = "GarlicFarmLeaderLost"
        await watch.servers_die(lost, "one follower and then the leader of three were killed", [one, leader])
        await watch.servers_die(lost, "all three servers were killed", [one, other, leader])
        leader = await farm.leader()
        followers = [server for server in farm.ids if server != leader]
        await watch.servers_die("GarlicFarmMinority", "two followers of three were killed", followers)
    return {**figures, "alerts": watch.rows, "wrong": watch.wrong}


async def _has_set(router: MadeUpRouter) -> bool:
    return router.sets > 0


async def _sees_all(watcher: Prometheus, servers: int) -> bool:
    try:
        return list((await watcher.values("up", "instance")).values()) == [1.0] * servers
    except aiohttp.ClientError:
        return False  # Prometheus starts


def main() -> int:
    """Parse the options, run, and print the figures; return 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=between(30, 7200), default=600, help="time under load (default: 600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if shutil.which(PROGRAM) is None:
        print(f"alerts: {PROGRAM} not found. To have it: sudo apt-get install {PROGRAM}", file=sys.stderr)
        return 1
    work = partial(run, seconds=options.seconds, tell=say)
    return run_command(options, "alerts", work, limit=options.seconds + _LIMIT)


if __name__ == "__main__":
    sys.exit(main())
