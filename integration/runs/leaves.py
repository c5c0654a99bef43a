"""A farm with many leaf members, where each member has its own connection, credentials and leaf.

    python -m integration.runs.leaves [--leaves 1000] [--servers 5] [--minutes 3] [--kill] [--json]

The servers are real processes on loopback, with TLS. The members run in this process, use fake routers, and post every
30 s. The servers have no routers; the run posts status records in their place, so that the farm has a time and a
publisher. With --kill the run kills the leader after two thirds of the time. The exit code is 0 when all of this holds,
else 1:

- Every server has a record of every member, and the record is not old.
- The set is full.
- Without --kill the publisher stays the same.
"""

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.farm.posters import MAX_LEAF_MEMBERS
from gf_i2p.farm.record.router_facts import LeafStatus, MeasuredStatus, RouterStatus
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.netdb.limits import MAX_META_ENTRIES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.node.files.leaf_file import LeafFile
from gf_i2p.node.files.server_tables import UserTable
from gf_i2p.node.membership.leaf_invitation import invite, user_of
from gf_i2p.node.membership.leaf_member import INTERVAL_SECONDS, LeafMember, patient
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.harness.local_farm import LocalFarm, NotSeenError, becomes, until
from integration.harness.long_run import Figures, Say, between, say
from integration.harness.long_run import run as run_command
from integration.harness.processes import cpu_seconds

_A_SECOND: Final = 25
"""Members to start in a second. All come from one address, and a server lets in only a few new clients from one."""
_LOOK_SECONDS: Final = 2.0
_RECORD_SECONDS: Final = 10.0
_LATE_SECONDS: Final = 3 * INTERVAL_SECONDS
_FULL_SECONDS: Final = 150.0
"""Twice the least time between two sets, and a little more."""
_TIMER_SECONDS: Final = 0.01
"""The shortest timer of some event loops."""
_KNOWN_SECONDS: Final = 180.0
"""The time limit for all members to come back after their leader was killed. See `_A_SECOND` for what slows this."""
_FILES: Final = 3
"""Open files for a member here: usually links to two servers, and a request for the Configuration."""


class MadeUpRouter:
    """A fake router whose leaf is up. The router publishes nothing."""

    def __init__(self, leaf: bytes) -> None:
        self._leaf = leaf

    async def local_router_status(self) -> RouterStatus:
        """See `RouterBridge`."""
        return RouterStatus(version="2.45.1", known_peers=1000)

    async def local_leaf_hash(self, master: bytes, place: int = 0) -> bytes | None:
        """See `RouterBridge`."""
        del master
        return self._leaf if place == 0 else None

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """See `RouterBridge`."""
        del leaf
        return LeafStatus(up=True)

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        """Not implemented, because no member asks for this."""
        raise NotImplementedError

    async def publish_meta_lease_set(self, publication: object) -> None:
        """Not implemented, because no member asks for this."""
        raise NotImplementedError

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """Not implemented, because no member asks for this."""
        raise NotImplementedError

    def publication_trouble(self, master: bytes) -> str | None:
        """Not implemented, because no member asks for this."""
        raise NotImplementedError

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""


class Timed:
    """A client that measures the time of each post."""

    def __init__(self, farm: FarmClient, figures: "Posts") -> None:
        self._farm = farm
        self._figures = figures
        self._connected = False

    async def post(self, values: Sequence[bytes], *, timeout: float = 30.0) -> int:  # noqa: ASYNC109
        """See `FarmClient.post`."""
        began = time.perf_counter()
        try:
            index = await self._farm.post(values, timeout=timeout)
        except (NotCommittedError, OutcomeUnknownError):
            self._figures.failed += 1
            raise
        seconds = time.perf_counter() - began
        (self._figures.seconds if self._connected else self._figures.first).append(seconds)
        self._connected = True
        return index


class Posts:
    """The outcomes of the members' posts."""

    def __init__(self) -> None:
        self.first: list[float] = []
        """The seconds of each member's first post, which include the time to connect."""
        self.seconds: list[float] = []
        """The seconds of all other posts."""
        self.failed = 0

    @property
    def committed(self) -> int:
        """The number of committed posts."""
        return len(self.first) + len(self.seconds)


def members(farm: LocalFarm, count: int) -> list[LeafFile]:
    """Invite one member as an operator does, and create the others in the same way; all servers know all members."""
    file = LeafFile.load(LeafFile.find(invite(farm.node(1), farm.directory).member))
    made: list[LeafFile] = []
    users = ""
    for number in range(count):
        user, key = user_of(FIRST_LEAF_MEMBER_ID + number), LoginKey.generate()
        users += UserTable.of(key.public).as_text(user)
        made.append(file.model_copy(update={"user": user, "key": SecretStr(key.text)}))
    for server in farm.ids:
        with (farm.node(server) / SECRETS_FILE).open("a") as secrets:
            secrets.write(users)
    return made


class Run:
    """One run: the farm, its members and their posts, and the findings so far."""

    def __init__(self, farm: LocalFarm, tell: Say) -> None:
        self.posts = Posts()
        self.publishers: list[int] = []
        """The chosen publishers in order."""
        self.entries = 0
        """The number of entries in the newest known set."""
        self.trouble: list[str] = []
        self._farm = farm
        self._say = tell
        self._tasks: list[asyncio.Task[None]] = []
        self._keys = DestinationKeys.generate()

    def start(self, work: Awaitable[None]) -> None:
        """Start a task beside all others."""
        self._tasks.append(asyncio.ensure_future(work))

    async def stop(self) -> None:
        """End all tasks; raise the error of a task that has failed."""
        failed = [task for task in self._tasks if task.done() and not task.cancelled()]
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for task in failed:
            task.result()

    async def member(self, number: int, file: LeafFile) -> None:
        """Run one member, from the start time for its number on."""
        await asyncio.sleep(number / _A_SECOND)
        async with file.open(backoff=patient) as farm:
            bridge = MadeUpRouter((number + 1).to_bytes(32))
            posting = Timed(farm, self.posts)
            await LeafMember(file.id, file.cluster, posting, bridge, look_seconds=10.0, tell=lambda _: None).run()

    async def server(self, server: int) -> None:
        """Post the status records of a server, as its operator."""
        meta = Meta(self._keys.destination.base64, "auto", publishing=False)
        while True:
            record = StatusRecord(
                "farm",
                int(time.time() * 1000),
                server,
                router_up=True,
                meta=meta,
                config=ReportedConfig(mode="dry-run", interval_ms=int(_RECORD_SECONDS * 1000)),
                leaves=(Leaf((2**128 + server).to_bytes(32), up=True),),
            )
            try:
                body = {"values": [record.encode().decode()]}
                await local_client.request(
                    self._farm.node(server), "POST", "/v1/entries?timeout=20", seconds=25, body=body
                )
            except CommandError as error:
                if server in self._farm.running:
                    self._say(f"server {server}: {error}")
            await asyncio.sleep(_RECORD_SECONDS)

    async def look(self) -> None:
        """Watch who is chosen as publisher."""
        while True:
            answer = await self.administration_of(self._farm.running[0])
            if answer is not None:
                if answer["publisher"] is not None and answer["publisher"] not in self.publishers[-1:]:
                    self.publishers.append(answer["publisher"])
                self.entries = sum(leaf["listed"] for leaf in answer["leaves"])
            await asyncio.sleep(_LOOK_SECONDS)

    async def administration_of(self, server: int) -> Any:
        """Return what a server knows about the farm; None without an answer."""
        try:
            return await local_client.request(self._farm.node(server), "GET", "/v1/administration", seconds=20)
        except CommandError:
            return None


async def run(
    directory: Path, *, leaves: int, servers: int, minutes: float, kill: bool = False, tell: Say = say
) -> Figures:
    """Do the whole run; return the figures."""
    needed = leaves * _FILES + 200
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise NotSeenError(f"{leaves} members need {needed} open files, and this user may have {hard}: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    with LocalFarm(directory, servers=servers) as farm:
        files = members(farm, leaves)
        farm.start_all()
        leader = await farm.leader()
        tell(f"server {leader} leads; {leaves} members start within {leaves / _A_SECOND:.0f} s")
        work = Run(farm, tell)
        try:
            for server in farm.ids:
                work.start(work.server(server))
            for number, file in enumerate(files):
                work.start(work.member(number, file))
            work.start(work.look())
            await _progress(work, leaves / _A_SECOND + 2, tell)
            before, began, cpu = work.posts.committed, time.monotonic(), cpu_seconds(farm.pid(leader))
            seconds = max(minutes * 60 - leaves / _A_SECOND, 1.0)
            if not kill:
                await _progress(work, seconds, tell)
                used = cpu_seconds(farm.pid(leader)) - cpu
            else:
                await _progress(work, seconds * 2 / 3, tell)
                used = cpu_seconds(farm.pid(leader)) - cpu
                await asyncio.to_thread(farm.kill, leader)
                farm.ids = tuple(server for server in farm.ids if server != leader)
                tell(f"server {leader} is killed; {await farm.leader()} leads")
                await _progress(work, seconds / 3, tell)
            took, posted = time.monotonic() - began, work.posts.committed - before
            figures = await _known_everywhere(work, farm, leaves)
            figures["wrong"] += await _set_is_full(work, min(MAX_META_ENTRIES, leaves + len(farm.ids)))
        finally:
            await work.stop()
    times = sorted(work.posts.seconds)
    wrong = figures.pop("wrong")
    if not kill and len(work.publishers) != 1:
        wrong.append(f"the publisher changed: {work.publishers}")
    return {
        "leaves": leaves,
        "servers": servers,
        "seconds": round(took, 1),
        "posts_per_second": round(posted / took, 1),
        "first_post_p50_ms": _ms(sorted(work.posts.first), 0.5),
        "first_post_p99_ms": _ms(sorted(work.posts.first), 0.99),
        "latency_p50_ms": _ms(times, 0.5),
        "latency_p99_ms": _ms(times, 0.99),
        "posts_without_answer": work.posts.failed,
        "leader_cpu_percent": round(100 * used / (took if not kill else took * 2 / 3), 1),
        "set_size": work.entries,
        "publishers": work.publishers,
        **figures,
        "wrong": wrong,
    }


async def _progress(work: Run, seconds: float, tell: Say) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > _TIMER_SECONDS:
        await asyncio.sleep(min(left, 10.0))
        tell(f"{work.posts.committed:>6} records, {work.posts.failed} without answer, {work.entries} in the set")


async def _known_everywhere(work: Run, farm: LocalFarm, leaves: int) -> Figures:
    """Check that each server has a record of each member that is not old."""
    counts: dict[int, int] = {}

    async def all_known() -> bool:
        for server in farm.ids:
            answer = await work.administration_of(server)
            counts[server] = -1
            if answer is not None:
                counts[server] = sum((member["age"] or 0) <= _LATE_SECONDS for member in answer["members"])
        return set(counts.values()) == {leaves}

    wrong: list[str] = []
    try:
        await until("all members on all servers", _KNOWN_SECONDS, all_known, poll=1.0)
    except NotSeenError as error:
        wrong.append(str(error))
    return {"members_known": [{"server": server, "members": count} for server, count in counts.items()], "wrong": wrong}


async def _set_is_full(work: Run, size: int) -> list[str]:
    """Check that the set becomes full. After the first few changes, a farm waits between two changes of the set."""
    try:
        await becomes(f"{size} entries in the set", lambda: work.entries == size, _FULL_SECONDS, poll=1.0)
    except NotSeenError as error:
        return [str(error)]
    return []


def _ms(times: list[float], share: float) -> float | None:
    return round(1000 * times[min(int(len(times) * share), len(times) - 1)], 1) if times else None


def main() -> int:
    """Parse the options, run, and print the figures; return 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=between(1, MAX_LEAF_MEMBERS), default=1000, metavar="N")
    parser.add_argument("--servers", type=between(1, 9), default=5, metavar="N", help="servers, 1 to 9")
    parser.add_argument("--minutes", type=between(0.2, 60), default=3.0, help="minutes from the first member on")
    parser.add_argument("--kill", action="store_true", help="kill the leader when two thirds are over")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    def work(directory: Path) -> Awaitable[Figures]:
        return run(
            directory,
            leaves=options.leaves,
            servers=options.servers,
            minutes=options.minutes,
            kill=options.kill,
        )

    return run_command(options, "leaves", work, limit=300 + options.minutes * 60 + options.leaves / _A_SECOND)


if __name__ == "__main__":
    sys.exit(main())
