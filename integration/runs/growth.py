"""`make growth`: a farm grows and shrinks while clients post all the time.

    python -m integration.runs.growth [--most 7] [--left 3] [--clients 8] [--seconds 2] [--keep-log] [--json]

One server becomes seven, and seven become three. Every second removed server is the leader, from the first on. The exit
code is 0 when all of this holds, else 1:

- No acknowledged entry is lost, and only an entry that was posted twice stands twice.
- The entries of each client are in the order of the posts.
- The remaining logs are equal.
- The histories of the remaining servers have each entry once and in order, except for the beginning that a snapshot
  replaced. With --keep-log there are no snapshots.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.node.files.config import Config
from gf_i2p.node.membership import invitation
from gf_i2p.wire.endpoint import Endpoint
from integration.harness import short_log
from integration.harness.local_farm import PROGRAM, LocalFarm, until
from integration.harness.long_run import Figures, Say, between, say
from integration.harness.long_run import run as run_command
from integration.harness.processes import free_ports
from integration.load.log_comparison import compare_exports, compare_logs, judge_posts, read_export, read_log, union
from integration.load.posting_clients import Writers

CHANGE_SECONDS: Final = 120.0
"""The time limit for one change. A joining server has to fetch the log, on a machine that also does other work."""
_POLL_SECONDS: Final = 0.1
_WHOLE_LOG: Final = 10_000_000


class Growth:
    """One run. `between_seconds`: the time with posts only: before, between and after the changes."""

    def __init__(self, farm: LocalFarm, writers: Writers, between_seconds: float, tell: Say) -> None:
        self.farm = farm
        self.changes: list[dict[str, Any]] = []
        self.exit_codes: dict[int, int] = {}
        """The exit codes of the removed servers."""
        self.leaders_removed = 0
        self._writers = writers
        self._between = between_seconds
        self._say = tell

    async def quiet(self) -> None:
        """Let the clients post for a while, and see that all nodes run."""
        await self._writers.go_on(self._between, CHANGE_SECONDS)
        self.farm.check()

    async def _timed(self, what: str, change: Callable[[], Awaitable[None]]) -> None:
        self._writers.record.begin_stretch()
        count, began = len(self._writers.record.acknowledged), time.monotonic()
        await change()
        seconds = time.monotonic() - began
        posts = len(self._writers.record.acknowledged) - count
        await self.quiet()  # the cost of a change may show a moment later
        pause = self._writers.record.begin_stretch()
        self.changes.append(
            {
                "change": what,
                "seconds": round(seconds, 2),
                "posts meanwhile": posts,
                "longest pause": round(pause.seconds, 3),
            }
        )
        self._say(f"{len(self._writers.record.acknowledged):>6} acknowledged, {what}: {seconds:.2f} s")

    async def add(self, server: int) -> None:
        """Invite a server, have all others accept the invitation, start the server, and wait until it is a member."""
        farm = self.farm
        endpoint = Endpoint("127.0.0.1", free_ports(1)[0])
        written = invitation.invite(farm.node(farm.ids[0]), farm.directory, server, endpoint)
        for member in farm.ids:
            invitation.accept(farm.node(member), written.accept)
            farm.send_signal(member, signal.SIGHUP)
        own = next(each for each in Config.load(written.server).servers if each.id == server)
        with farm.client_file.open("a") as file:
            file.write(f'\n[[servers]]\nid = {server}\nendpoint = "{endpoint}"\nfingerprint = "{own.fingerprint}"\n')
        self._writers.renew()

        async def joined() -> None:
            farm.start(server)
            farm.ids = (*farm.ids, server)
            await self._settled()

        await self._timed(f"server {server} joined", joined)

    async def remove(self, *, leader: bool) -> None:
        """Remove the leader or the first follower, wait until no server counts it, then stop its process."""
        farm = self.farm
        leads = await farm.leader()
        server = leads if leader else next(each for each in farm.ids if each != leads)

        async def removed() -> None:
            async def begun() -> bool:
                try:
                    at = await farm.leader()
                    await local_client.request(
                        farm.node(at), "POST", "/v1/servers", seconds=40, body={"remove": server}
                    )
                except CommandError as error:
                    self._say(f"server {server} cannot be removed yet: {error}")
                    return False
                return True

            await until(f"the removal of server {server} begins", CHANGE_SECONDS, begun, poll=_POLL_SECONDS)
            farm.ids = tuple(each for each in farm.ids if each != server)
            await self._settled()

        self.leaders_removed += server == leads
        await self._timed(f"server {server} removed, {'the leader' if server == leads else 'not the leader'}", removed)

        async def knows() -> bool:
            answer = await farm.status(server)
            return answer is not None and answer["membership"] == "removed"

        await until(f"server {server} knows that it is out", CHANGE_SECONDS, knows, poll=_POLL_SECONDS)
        self.exit_codes[server] = await asyncio.to_thread(farm.kill, server, signal.SIGTERM)

    async def _settled(self) -> None:
        """Wait until all servers know the same committed list of servers, and know the leader."""
        farm = self.farm

        async def same() -> bool:
            farm.check()
            for server in farm.ids:
                answer = await farm.status(server)
                if answer is None or answer["leader"] not in farm.ids or not answer["configuration_committed"]:
                    return False
                if {each["id"] for each in answer["servers"]} != set(farm.ids):
                    return False
            return True

        what = f"all know the servers {', '.join(map(str, farm.ids))}"
        await until(what, CHANGE_SECONDS, same, poll=_POLL_SECONDS)


async def run(
    directory: Path, *, most: int, left: int, clients: int, seconds: float, keep_log: bool = False, tell: Say = say
) -> Figures:
    """Do the whole run; return the figures."""
    program = short_log.program(_WHOLE_LOG, _WHOLE_LOG) if keep_log else PROGRAM
    with LocalFarm(directory, servers=1, program=program) as farm:
        farm.start_all()
        await farm.leader()
        began = time.monotonic()
        async with Writers(farm.client_file, clients) as writers:
            growth = Growth(farm, writers, seconds, tell)
            await growth.quiet()
            for server in range(2, most + 1):
                await growth.add(server)
            for number in range(most - left):
                await growth.remove(leader=number % 2 == 0)
            await writers.finish()
        posting = time.monotonic() - began
        record = writers.record
        tell(f"{len(record.acknowledged):>6} acknowledged in {posting:.1f} s; comparing")
        length = await farm.converged()
        await farm.exported(length)
        farm.stop()
        staying = {server: read_export(farm.node(server)) for server in farm.ids}
        everywhere = {server: read_export(farm.node(server)) for server in range(1, most + 1)}
        wrong = compare_logs({server: read_log(farm.node(server), server) for server in farm.ids}, length)
    wrong += compare_exports(everywhere, ended=everywhere.keys() - staying.keys(), until=length)
    keys = [value["key"] for _, value in union(staying if keep_log else everywhere).values()]
    wrong += judge_posts(keys, record.acknowledged, record.retried)
    if keep_log:
        wrong += [f"the history of server {server} has gaps" for server, export in staying.items() if export.gaps]
    wrong += [f"server {server}, removed, ended with {code}" for server, code in growth.exit_codes.items() if code]
    return {
        "servers": f"1, then {most}, then {left}",
        "clients": clients,
        "seconds": round(posting, 2),
        "acknowledged": len(record.acknowledged),
        "acknowledged_per_second": round(len(record.acknowledged) / posting),
        "outcome_unknown_and_retried": record.retried.total(),
        "refused_and_retried": record.refused,
        "longest_pause_seconds": max(change["longest pause"] for change in growth.changes),
        "leaders_removed": growth.leaders_removed,
        "log_length": length,
        "changes": growth.changes,
        "histories_that_stay": [
            {"server": server, "entries": len(export.values), "in gaps": sum(b - a + 1 for a, b in export.gaps)}
            for server, export in staying.items()
        ],
        "wrong": wrong,
    }


def main() -> int:
    """Parse the options, run, and print the figures; return 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=between(2, 15), default=7, metavar="N", help="servers to grow to, 2 to 15")
    parser.add_argument("--left", type=between(1, 14), default=3, metavar="N", help="servers to shrink to")
    parser.add_argument("--clients", type=between(1, 64), default=8, metavar="N", help="clients that post, 1 to 64")
    parser.add_argument("--seconds", type=between(0, 60), default=2.0, help="seconds between two changes, 0 to 60")
    parser.add_argument("--keep-log", action="store_true", help="no snapshots: every history that stays must be whole")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.left >= options.most:
        parser.error("--left must be less than --most")
    changes = 2 * options.most - 1 - options.left

    def work(directory: Path) -> Awaitable[Figures]:
        return run(
            directory,
            most=options.most,
            left=options.left,
            clients=options.clients,
            seconds=options.seconds,
            keep_log=options.keep_log,
        )

    return run_command(options, "growth", work, limit=120 + changes * (options.seconds + CHANGE_SECONDS))


if __name__ == "__main__":
    sys.exit(main())
