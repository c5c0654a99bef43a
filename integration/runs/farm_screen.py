"""Runs and shows the farm of `make farm`, as the first process of its namespaces: three nodes beside real I2P routers.

A private I2P network comes up in namespaces of its own. The nodes reach each other through this network, elect a
leader, share their status and choose a publisher. Then the signed Meta lease set reaches the floodfills. With ONESHOT=1
the run kills the publisher with -9, and ends when the next publisher's set is on the floodfills. `make lab` gives a
shell among the routers and nodes, and ends with the shell.
"""

import argparse
import asyncio
import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from gf_i2p.storage.errors import StorageError
from integration.harness.local_farm import NotSeenError
from integration.harness.step_progress import StepProgress
from integration.harness.web_server import web_server
from integration.runs.lab_shell import lab_shell
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.namespace import Ending
from integration.testnet.network import Testnet
from integration.testnet.router_console import StoredLeaseSet
from integration.testnet.router_network import RouterPlace

ROUTERS: Final = 8
SERVERS: Final = 3
ENOUGH: Final = 3
"""The number of floodfills that must hold the set."""
META: Final = 7
"""The store type of a Meta lease set."""
SERVICE_PORT: Final = 8080
STEP_SECONDS: Final = 480.0
_POLL_SECONDS: Final = 0.5
_TICK_SECONDS: Final = 0.1
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

Condition = Callable[[], Awaitable[str | None]]
"""Returns a description of what was seen, or None if there was nothing to see yet."""


class Show:
    """The network and the farm, and the messages about both."""

    def __init__(self, directory: Path, *, oneshot: bool, lab: bool, ending: Ending) -> None:
        """Create `directory`, which the caller removes later. Raises `OSError` when that fails."""
        self._directory = directory
        self._lab = lab
        self._ending = ending
        directory.mkdir(mode=0o700)
        self._progress = StepProgress()
        self._oneshot = oneshot
        self._net = Testnet(
            directory / "network",
            routers=ROUTERS,
            waiting_for=self._progress.doing,
            happened=self._progress.say,
        )
        self._beside = self._net.routers[-SERVERS:]
        places = [RouterPlace(r.number, r.address, r.directory, r.floodfill) for r in self._beside]
        self._farm = I2pFarm(directory / "farm", places, password=self._net.password)
        self._publisher = 0, 0
        """The publisher's id, and the newest time of publication in seconds since 1970."""

    async def run(self) -> None:
        """Run and show everything. Raises `NotSeenError`."""
        ticker = asyncio.create_task(self._tick())
        try:
            self._progress.doing(f"{ROUTERS} i2pd routers start")
            for server_id, router in self._farm.routers.items():
                self._net.offer(self._net.routers[router.number], "leaf", self._farm.leaves[server_id], SERVICE_PORT)
            async with self._net, self._services():
                self._progress.done(f"a private network of {ROUTERS} i2pd routers: tunnels built, bytes crossed it")
                self._farm.place()
                with self._farm:
                    await self._show()
        finally:
            ticker.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._progress.tick()

    @contextlib.asynccontextmanager
    async def _services(self) -> Any:
        """Serve a page for each leaf."""
        async with contextlib.AsyncExitStack() as stack:
            for router in self._beside:
                app = web.Application()
                app.router.add_get("/", _page)
                await stack.enter_async_context(web_server(app, router.address, SERVICE_PORT))
            yield

    async def _show(self) -> None:
        farm = self._farm
        farm.start_all()
        self._progress.done(f"{SERVERS} farm nodes run, each beside a router of its own")
        await self._until("the nodes can be reached inside I2P", self._reachable)
        await self._until("a leader is elected, through I2P", self._led)
        await self._until("the farm has chosen a publisher", self._chosen)
        await self._until(f"the Meta lease set reaches {ENOUGH} floodfills", self._held)
        seconds = self._progress.seconds
        await self._summary()
        if self._oneshot:
            await self._kill_the_publisher(seconds)
            return
        if self._lab:
            self._ending.interruptible = False  # Ctrl-C is for the shell
            await lab_shell(self._directory, self._farm, self._net.routers)
            return
        self._progress.say(
            "Ctrl-C stops it all and leaves nothing behind. Until then, in another terminal:\n"
            f"  {_shown(Path(sys.executable).with_name('gf-i2p'))} status {farm.node(1)}"
        )
        await asyncio.get_running_loop().create_future()

    async def _kill_the_publisher(self, until_first: float) -> None:
        await self._until("a publisher says what it has published", self._published)
        old, published = self._publisher
        last = max((held.expires for held in (await self._holders()).values()), default=_NEVER)
        self._farm.kill(old)
        killed = self._progress.seconds
        self._progress.done(f"server {old}, the publisher, killed with -9")

        async def replaced() -> str | None:
            answers = await self._statuses()
            new = [
                (server, sent["published"])
                for server, answer in answers.items()
                if (sent := answer["farm"]["publishing"]) is not None and sent["published"] > published
            ]
            holders = [number for number, held in (await self._holders()).items() if held.expires > last]
            if not new or len(holders) < ENOUGH:
                return None
            return (
                f"server {new[0][0]} publishes a set that is {new[0][1] - published} s newer; floodfills "
                f"{', '.join(map(str, holders))} hold it"
            )

        await self._until(f"another server's newer set reaches {ENOUGH} floodfills", replaced)
        self._progress.say()
        self._progress.say(f"from nothing to {ENOUGH} floodfills: {until_first:.1f} s")
        self._progress.say(f"from kill -9 to a newer set there:  {self._progress.seconds - killed:.1f} s")

    # What is seen ---------------------------------------------------------------------------------------------------

    async def _until(self, what: str, condition: Condition) -> None:
        self._progress.doing(what)
        try:
            async with asyncio.timeout(STEP_SECONDS):
                while (seen := await condition()) is None:  # noqa: ASYNC110 -- other processes make it true
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise NotSeenError(
                f"not seen within {STEP_SECONDS:.0f} s: {what}\n{self._net.complaints()}\n{self._farm.complaints()}"
            ) from None
        self._progress.done(seen)

    async def _statuses(self) -> dict[int, dict[str, Any]]:
        self._farm.check()
        answers = {server: await self._farm.status(server) for server in self._farm.running}
        return {server: answer for server, answer in answers.items() if answer is not None}

    async def _reachable(self) -> str | None:
        answers = (await self._statuses()).values()
        reached = sum(answer["i2p"]["reached_at"] is not None for answer in answers)
        self._progress.doing(f"the nodes can be reached inside I2P: {reached} of {SERVERS}")
        return "the nodes can be reached inside I2P" if reached >= SERVERS // 2 + 1 else None

    async def _led(self) -> str | None:
        leaders = {answer["leader"] for answer in (await self._statuses()).values()} - {None}
        return f"server {leaders.pop()} leads; they talk through I2P only" if len(leaders) == 1 else None

    async def _chosen(self) -> str | None:
        for answer in (await self._statuses()).values():
            farm = answer["farm"]
            if farm["publisher"] is not None and farm["leaves"]:
                return f"server {farm['publisher']} is to publish {len(farm['leaves'])} leaves"
        return None

    async def _published(self) -> str | None:
        for server, answer in (await self._statuses()).items():
            if (sent := answer["farm"]["publishing"]) is not None:
                self._publisher = server, sent["published"]
                return f"server {server} publishes"
        return None

    async def _held(self) -> str | None:
        holders = await self._holders()
        self._progress.doing(f"the Meta lease set reaches {ENOUGH} floodfills: {len(holders)}")
        if len(holders) < ENOUGH:
            return None
        return f"floodfills {', '.join(map(str, holders))} hold the signed Meta lease set"

    async def _holders(self) -> dict[int, StoredLeaseSet]:
        b32 = self._farm.master.destination.b32
        return {
            router.number: held
            for router in self._net.floodfills
            for held in await self._net.lease_sets(router) or []
            if held.b32 == b32 and held.store_type == META
        }

    async def _summary(self) -> None:
        answers = await self._statuses()
        farms = [answer["farm"] for answer in answers.values()]
        nothing: dict[str, Any] = {"publisher": None, "leaves": []}
        farm = max(farms, key=lambda farm: len(farm["leaves"]), default=nothing)
        leaders = {answer["leader"] for answer in answers.values()} - {None}
        lines = [
            "",
            f"master     {self._farm.master.destination.b32}",
            f"leader     server {', '.join(map(str, leaders)) or 'none'}",
            f"publisher  server {farm['publisher']}, mode {farm.get('farm_mode', 'off')}",
            *(f"leaf       {leaf}" for leaf in farm["leaves"]),
            *(
                f"floodfill  router {number}: store type {held.store_type}, expires {held.expires:%H:%M:%S} UTC"
                for number, held in (await self._holders()).items()
            ),
            "",
        ]
        self._progress.say("\n".join(lines))


async def _page(_request: web.Request) -> web.Response:
    return web.Response(text="a leaf of the farm\n")


def _shown(path: Path) -> Path:
    """Shorten a path that lies below the current directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


async def run(directory: Path, lifeline: int, *, oneshot: bool, lab: bool) -> int:
    """Show the farm, with all files in `directory`, which exists only during the run; return the exit code."""
    task = asyncio.current_task()
    assert task is not None
    ending = Ending(task, lifeline)
    try:
        await Show(directory, oneshot=oneshot, lab=lab, ending=ending).run()
    except asyncio.CancelledError:
        print("Stopped; nothing is left of it.", flush=True)
        return 128 + signal.SIGINT if oneshot else 0
    except (NotSeenError, StorageError, OSError, subprocess.SubprocessError) as error:
        print(f"\nmake farm failed: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def main() -> int:
    """Parse the arguments from `integration.runs.farm`, and run."""
    parser = argparse.ArgumentParser(description="Use `make farm`.")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("--oneshot", action="store_true")
    parser.add_argument("--lab", action="store_true")
    options = parser.parse_args()
    return asyncio.run(run(options.directory, options.lifeline, oneshot=options.oneshot, lab=options.lab))


if __name__ == "__main__":
    sys.exit(main())
