"""One server with a real log, elected at once; the test turns the clock of the reporter and the publisher."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing import meta
from gf_i2p.farm.publishing.effects import PublishingEffects
from gf_i2p.farm.publishing.lease import LEASE_SECONDS, STALL_SECONDS
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.node.consensus.driver import Driver
from gf_i2p.node.publish import machine_loop as driving
from gf_i2p.node.publish.keys_watch import KeysWatch
from gf_i2p.node.publish.meta import MetaPublisher
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.report import reporter
from gf_i2p.node.report.local_leaf import LocalLeaf
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView
from gf_i2p.wire.errors import NotCommittedError
from integration.harness.local_farm import becomes
from tests.netdb.strategies import KEYS
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge


@dataclass
class PublishingServer:
    driver: Driver
    view: FarmView
    reporter: Reporter
    publisher: MetaPublisher
    bridge: FakeBridge
    keys: KeysWatch
    now: float = 1000.0
    """Seconds of the test's clock."""
    polled: int = 0
    """Number of steps of the publisher's machine."""
    committed_at: float = float("-inf")
    """The clock's seconds when the server's last record was committed."""

    @property
    def record(self) -> StatusRecord | None:
        """The server's newest record in the log."""
        return self.view.state.records.get(1)

    @property
    def published(self) -> list[int]:
        return [lease_set.published for lease_set in self.bridge.sent]

    async def post(self, record: StatusRecord) -> None:
        await self.view.reaches(await self.driver.post([record.encode()], seconds=10))

    async def records(self, count: int = 1) -> None:
        """Wait until the log has `count` more records of the server."""
        for _ in range(count):
            before = self.record
            await becomes("another record", lambda before=before: self.record not in (None, before))  # type: ignore[misc]

    async def passes(self, seconds: float) -> None:
        """Turn the clock in steps; the publisher looks at each step, as in a running process."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + STALL_SECONDS / 2, end)
            looked = self.polled
            await becomes("looked", lambda looked=looked: self.polled > looked + 1)  # type: ignore[misc]

    async def elapses(self, seconds: float) -> None:
        """Turn the clock in steps; the lease is renewed at each step."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + LEASE_SECONDS / 2, end)
            await becomes("renewed", lambda: self.reporter.lease.newest_post_at(self.view.applied) == self.now)
            await self.polls()

    async def reported(self, what: str, condition: Callable[[StatusRecord], bool]) -> StatusRecord:
        await becomes(what, lambda: self.record is not None and condition(self.record))
        assert self.record is not None
        return self.record

    async def ready(self) -> None:
        """Wait until the leaf is in the log, and the reporter knows the leaf, too: the view is a moment ahead."""
        await self.reported("ready", lambda record: record.router_up and record.leaves != ())
        known = self.view.applied
        await becomes("heard of", lambda: any(index >= known for index, _ in self.reporter.lease._posts))

    async def tries(self) -> None:
        """Step the machine, and follow the machine's orders, until one set is given or has failed."""
        loop, machine = self.publisher._loop, self.publisher.machine
        while True:
            await loop._perform(loop._step())
            if loop._under_way is not None:
                await asyncio.wait([loop._under_way])
            if machine._attempt is None and not machine._stopping:
                return
            await asyncio.sleep(0.001)  # for the log

    async def polls(self, count: int = 5) -> None:
        """Let the publisher look several times more, and let the lease be renewed."""
        await self.records(2)
        enough = self.polled + count
        await becomes("looked again", lambda: self.polled >= enough)


@asynccontextmanager
async def publishing_server(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    publishes: bool = True,
    reports: bool = True,
    keys: PublishingKeys | None = None,
    dry_run: bool = False,
    interval: float = 0.02,
    least_ms: int = 40,
    local_leaves: Sequence[LocalLeaf] = (),
) -> AsyncIterator[PublishingServer]:
    monkeypatch.setattr(driving, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(driving, "_LEAST_SECONDS", 0.001)
    monkeypatch.setattr(meta, "RETRY_SECONDS", 0.0)  # the clock stands still
    monkeypatch.setattr(meta, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(reporter, "WAIT_SECONDS", 0.05)
    quick = Parameters(leaf_up_ms=40, leaf_down_ms=80, unheard_ms=80, flap_ms=200, republish_min_ms=least_ms)
    monkeypatch.setattr("gf_i2p.farm.admin_entries.Parameters", lambda: quick)
    async with NodeFarm(directory, servers=1) as farm:
        node = await farm.leader()
        bridge = FakeBridge(leaf=1)

        def clock() -> float:
            return made.now

        master = (keys or PublishingKeys(KEYS)).destination
        reports_to = Reporter(
            1,
            "farm",
            node.driver,
            bridge,
            master=master,
            interval=interval,
            publish_config="auto",
            mode="dry-run" if dry_run else "meta",
            local_leaves=local_leaves,
            clock=clock,
        )
        view = node.farm_tasks.view
        watch = KeysWatch(keys or PublishingKeys(KEYS))
        publisher = MetaPublisher(1, view, reports_to, bridge, watch, dry_run=dry_run, clock=clock)
        made = PublishingServer(node.driver, view, reports_to, publisher, bridge, watch)
        step = publisher._loop._step

        def committed() -> None:
            made.committed_at = made.now

        reports_to.on_committed.insert(0, committed)

        def counted() -> PublishingEffects:
            effects = step()
            made.polled += 1
            return effects

        monkeypatch.setattr(publisher._loop, "_step", counted)
        runs: list[Coroutine[None, None, None]] = []
        if reports:
            runs.append(made.reporter.run())
        if publishes:
            runs.append(made.publisher.run())
        tasks = [asyncio.create_task(run) for run in runs]
        try:
            yield made
            assert not any(task.done() for task in tasks), "they run for ever"
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)


def now_ms() -> int:
    return int(time.time() * 1000)


async def sends(made: PublishingServer, count: int) -> None:
    await becomes(f"{count} sets sent", lambda: len(made.bridge.sent) >= count)
    await made.polls()
    assert len(made.bridge.sent) == count


async def deaf(made: PublishingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no post of this server is committed."""

    tries = []

    async def refused(values: list[bytes], *, seconds: float) -> int:
        tries.append(values)
        raise NotCommittedError("no server leads")

    monkeypatch.setattr(made.driver, "post", refused)
    await becomes("what was under way has ended", lambda: tries != [])
