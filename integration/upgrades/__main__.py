"""`make upgrade`: a farm of an earlier release is upgraded, one server after the other, while clients post.

    python -m integration.upgrades [--release VERSION] [--clients 4] [--seconds 2] [--json]

For each release in `releases.toml`: three nodes of the release on loopback, over TLS, with directories that the release
has made. Each server is stopped and started with this version, the leader last. Then one server goes back to the
release. The exit code is 0 when all of this holds, else 1:

- No acknowledged entry is lost, and only an entry that was posted twice stands twice.
- The entries of each client are in the order of the posts.
- All logs and histories are equal.
- The farm of both versions has a leader after each step, and `gf-i2p status` of each version understands nodes of both.
- The server that goes back works, or says that it reads nothing of a newer version.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from integration.harness.local_farm import PROGRAM, LocalFarm, NotSeenError, until
from integration.harness.long_run import Figures, Say, between, say
from integration.harness.long_run import run as run_command
from integration.harness.processes import said_within, tail
from integration.load.log_comparison import compare_exports, compare_logs, judge_posts, read_export, read_log, union
from integration.load.posting_clients import Writers
from integration.upgrades.releases import Release, environment, releases

STEP_SECONDS: Final = 120.0
"""The time limit of one step, on a machine that also does other work."""
NEW: Final = "this version"
REFUSAL: Final = "newer gf-i2p"
"""In the text of a node that finds files of a newer version."""


class OldFarm(LocalFarm):
    """A farm whose directories an earlier release has made."""

    def __init__(self, directory: Path, release: Release) -> None:
        self._release = release
        super().__init__(directory)
        self.versions = dict.fromkeys(self.ids, release.version)
        """The version of each server."""
        for server in self.ids:
            self.go_back(server)

    def _make(self, client: str) -> None:
        servers = [f"--server={server}={endpoint}" for server, endpoint in self.endpoints().items()]
        words = ["init", str(self.directory), *servers, "--profile", "lan", "--client", client]
        subprocess.run([self._release.python, *PROGRAM, *words], env=environment(), check=True, stdout=subprocess.PIPE)
        self._lift_budget()

    def upgrade(self, server: int) -> None:
        """From its next start on, the server runs this version."""
        del self.pythons[server]
        self.versions[server] = NEW

    def go_back(self, server: int) -> None:
        """From its next start on, the server runs the release."""
        self.pythons[server] = (self._release.python, environment())
        self.versions[server] = self._release.version

    async def foreign_status(self, server: int) -> dict[str, Any]:
        """Return a node's status, asked by the command of the other version."""
        ours = self.versions[server] != NEW
        process = await asyncio.create_subprocess_exec(
            sys.executable if ours else str(self._release.python),
            *PROGRAM,
            "status",
            str(self.node(server)),
            "--json",
            env=None if ours else environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, errors = await said_within(process, STEP_SECONDS)
        if not said.startswith(b"{"):
            raise NotSeenError(f"status of server {server} by the other version: {said + errors!r}")
        answer: dict[str, Any] = json.loads(said)
        return answer


class Upgrade:
    """The steps of one run. `between_seconds`: the time with posts only, before, between and after the steps."""

    def __init__(self, farm: OldFarm, writers: Writers, between_seconds: float, tell: Say) -> None:
        self.steps: list[dict[str, Any]] = []
        self.farm = farm
        self._writers = writers
        self._between = between_seconds
        self._say = tell

    async def quiet(self) -> None:
        """Let the clients post for a while, and see that all nodes run."""
        await self._writers.go_on(self._between, STEP_SECONDS)
        self.farm.check()

    async def restart(self, server: int, change: Callable[[int], None]) -> bool:
        """Stop a server, and start the server with another version. Return False when the server refuses its files."""
        farm = self.farm
        led = await farm.leader() == server
        self._writers.record.begin_stretch()
        began, old = time.monotonic(), farm.versions[server]
        code = await asyncio.to_thread(farm.kill, server, signal.SIGTERM)
        assert code == 0, f"server {server} ended with {code}:\n{tail(farm.log(server))}"
        change(server)
        farm.fragile.add(server)
        farm.start(server)
        works = await self._answers(server)
        if works:
            farm.fragile.discard(server)
            await self._caught_up(server)
        seconds = time.monotonic() - began
        await self.quiet()
        leader = await farm.leader()
        self.steps.append(
            {
                "server": server,
                "from": old,
                "to": farm.versions[server],
                "led before": led,
                "works": works,
                "seconds": round(seconds, 2),
                "longest pause": round(self._writers.record.begin_stretch().seconds, 3),
                "leader": f"{leader} ({farm.versions[leader]})",
            }
        )
        self._say(f"{len(self._writers.record.acknowledged):>6} acknowledged, {self.steps[-1]}")
        return works

    async def _answers(self, server: int) -> bool:
        farm = self.farm

        async def decided() -> bool:
            return server not in farm.running or await farm.status(server) is not None

        await until(f"server {server} answers, or ends", STEP_SECONDS, decided)
        if server in farm.running:
            return True
        said = tail(farm.log(server))
        assert REFUSAL in said, f"server {server} ended, and does not say why:\n{said}"
        return False

    async def _caught_up(self, server: int) -> None:
        """Wait until a server has applied all entries that the leader has now."""
        status = await self.farm.status(await self.farm.leader(STEP_SECONDS), seconds=STEP_SECONDS)
        assert status is not None
        last = status["log"]["last_index"]

        async def applied() -> bool:
            self.farm.check()
            answer = await self.farm.status(server)
            return answer is not None and answer["log"]["applied"] >= last

        await until(f"server {server} has caught up", STEP_SECONDS, applied)


async def run(directory: Path, release: Release, *, clients: int, seconds: float, tell: Say = say) -> Figures:
    """Upgrade a farm of one release; return the figures."""
    await asyncio.to_thread(release.install)
    with OldFarm(directory, release) as farm:
        farm.start_all()
        await farm.leader()
        began = time.monotonic()
        async with Writers(farm.client_file, clients) as writers:
            upgrade = Upgrade(farm, writers, seconds, tell)
            await upgrade.quiet()
            leader = await farm.leader()
            followers = [server for server in farm.ids if server != leader]
            for server in (followers[0], leader, followers[1]):
                await upgrade.restart(server, farm.upgrade)
                for each in farm.ids:
                    assert (await farm.foreign_status(each))["id"] == each
            back = followers[0]
            works = await upgrade.restart(back, farm.go_back)
            if not works:
                farm.upgrade(back)
                farm.start(back)
                await upgrade.quiet()
            await writers.finish()
        posting = time.monotonic() - began
        record = writers.record
        tell(f"{len(record.acknowledged):>6} acknowledged in {posting:.1f} s; comparing")
        length = await farm.converged()
        await farm.exported(length)
        farm.stop()
        exports = {server: read_export(farm.node(server)) for server in farm.ids}
        wrong = compare_logs({server: read_log(farm.node(server), server) for server in farm.ids}, length)
    wrong += compare_exports(exports, until=length)
    keys = [value["key"] for _, value in union(exports).values()]
    wrong += judge_posts(keys, record.acknowledged, record.retried)
    return {
        "release": release.version,
        "clients": clients,
        "seconds": round(posting, 2),
        "acknowledged": len(record.acknowledged),
        "lost": len(set(record.acknowledged) - set(keys)),
        "standing_twice": len(keys) - len(set(keys)),
        "outcome_unknown_and_retried": record.retried.total(),
        "refused_and_retried": record.refused,
        "longest_pause_seconds": max(step["longest pause"] for step in upgrade.steps),
        "rollback": "works" if works else "refused, with the reason",
        "log_length": length,
        "steps": upgrade.steps,
        "wrong": wrong,
    }


def main() -> int:
    """Parse the options, run, and print the figures; return 0 when nothing is wrong."""
    known = {release.version: release for release in releases()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", choices=known, action="append", help="take only this release; repeatable")
    parser.add_argument("--clients", type=between(1, 64), default=4, metavar="N", help="clients that post, 1 to 64")
    parser.add_argument("--seconds", type=between(0, 60), default=2.0, help="seconds between two steps, 0 to 60")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    codes = []
    for version in options.release or known:
        release = known[version]

        def work(directory: Path, release: Release = release) -> Awaitable[Figures]:
            return run(directory, release, clients=options.clients, seconds=options.seconds)

        codes.append(run_command(options, "upgrade", work, limit=600 + 8 * STEP_SECONDS))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
