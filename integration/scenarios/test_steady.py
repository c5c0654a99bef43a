"""A farm at rest on real i2pd routers: no record calls a living leaf down, and no living leaf leaves the set.

Three nodes in `failover` mode report three leaves, ping these leaves, watch their services, and try the other servers'
leaves. `GF_I2P_STEADY_SECONDS` is the length of the rest: minutes here, two hours before a release.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gf_i2p.cli.shared import local_client
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.strict_json import RecordError
from integration.harness.local_farm import until
from integration.scenarios.failover_site import local_service
from integration.scenarios.test_leaf_death import LISTED_SECONDS, Leaves
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_files import LEAF_LINE, replace
from integration.testnet.router_network import RouterNetwork

STEADY_SECONDS: Final = float(os.environ.get("GF_I2P_STEADY_SECONDS", "300"))
POLL_SECONDS: Final = 1.0
LEASE_SET2: Final = 3
SHOW_SECONDS: Final = 300.0
SENSE_LINE: Final = "# sense_minutes = 60 "
_PAGE: Final = 1000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400 + STEADY_SECONDS)]


class FarmWatch:
    """Reads the log of one server, the set of listed leaves, and the floodfills' pages."""

    def __init__(self, network: RouterNetwork, farm: I2pFarm) -> None:
        self.deaths: list[str] = []
        """One line for each record that calls a leaf down."""
        self.flaps: list[str] = []
        """One line for each change of the listed leaves."""
        self.records = 0
        self.looks: list[int] = []
        """For each look at the floodfills' pages, the number of pages with the master's set."""
        self._network = network
        self._farm = farm
        self._next = 1
        self._listed: set[str] | None = None

    async def begin(self) -> None:
        """Skip the entries that the log has by now."""
        await self._read()
        self.records = 0
        self.deaths.clear()

    async def run(self, seconds: float) -> None:
        """Watch for so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._farm.check()
            await asyncio.gather(self._read(), self._look_at_the_list(), self._look_at_the_pages())
            await asyncio.sleep(POLL_SECONDS)

    def found(self) -> str:
        """Return the findings, for people."""
        held = sum(pages > 0 for pages in self.looks)
        summary = (
            f"{self.records} records, {len(self.deaths)} call a living leaf down, {len(self.flaps)} changes of the "
            f"listed leaves; some floodfill held the master's set in {held} of {len(self.looks)} looks"
        )
        return "\n    ".join([summary, *self.deaths, *self.flaps])

    async def _read(self) -> None:
        node = self._farm.node(self._farm.ids[0])
        while True:
            path = f"/v1/entries?first={self._next}&limit={_PAGE}&stale=1"
            answer: dict[str, Any] = await local_client.request(node, "GET", path, seconds=30)
            for entry in answer["entries"]:
                self._next = entry["index"] + 1
                self._note(entry)
            if len(answer["entries"]) < _PAGE:
                return

    def _note(self, entry: dict[str, Any]) -> None:
        try:
            record = StatusRecord.parse(str(entry.get("value", "")).encode())
        except RecordError:
            return
        self.records += 1
        self.deaths += [
            f"{record.date_ms} server {record.id}, router up {record.router_up}"
            for leaf in record.leaves
            if not (leaf.up and record.router_up)
        ]

    async def _look_at_the_list(self) -> None:
        status = await self._farm.status(self._farm.ids[0])
        if status is None:
            return
        listed = set(status["farm"]["leaves"])
        if self._listed is not None and listed != self._listed:
            self.flaps.append(f"{time.time():.0f} {len(self._listed)} to {len(listed)}: {status['farm']['left_out']}")
        self._listed = listed

    async def _look_at_the_pages(self) -> None:
        held = await self._network.holders(self._farm.master.destination.b32, LEASE_SET2)
        self.looks.append(len(held))


@pytest_asyncio.fixture
async def leaves(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[Leaves]:
    routers = [router for router in network.routers if not router.floodfill][-3:]
    async with AsyncExitStack() as stack:
        targets = {server: await stack.enter_async_context(local_service(server)) for server in (1, 2, 3)}
        farm = stack.enter_context(I2pFarm(tmp_path, routers, password=network.password))
        farm.place(targets=targets)
        made = Leaves(farm)
        stack.callback(made.close)
        for server in farm.ids:
            leaf = f'leaf = "{farm.leaves[server].destination.b32}"'
            service = f'leaf_service = "127.0.0.1:{made.ports[server]}"'
            replace(farm.node(server), {LEAF_LINE: f"{leaf}\n{service}\n#", SENSE_LINE: "sense_minutes = 1\n# "})
            await made.serve(server)
        await asyncio.gather(*(made.start(server) for server in farm.ids))
        farm.start_all()
        await farm.leader(LISTED_SECONDS)
        try:
            yield made
        finally:
            print(farm.complaints())


async def test_no_living_leaf_leaves_the_set(
    network: RouterNetwork, leaves: Leaves, capsys: pytest.CaptureFixture[str]
) -> None:
    farm = leaves.farm
    everyone = set(farm.ids)
    await until("three leaves are listed", LISTED_SECONDS, lambda: leaves.are_listed(everyone, 1), poll=1.0)
    await until("each leaf has answered a ping", LISTED_SECONDS, leaves.have_answered, poll=1.0)

    async def is_held() -> bool:
        return len(await network.holders(farm.master.destination.b32, LEASE_SET2)) > 0

    await until("a floodfill has the master's lease set", LISTED_SECONDS, is_held, poll=1.0)
    watch = FarmWatch(network, farm)
    await watch.begin()
    began = time.monotonic()
    while (left := STEADY_SECONDS - (time.monotonic() - began)) > 0:
        await watch.run(min(left, SHOW_SECONDS))
        with capsys.disabled():
            print(f"\n  {time.monotonic() - began:.0f} s at rest: {watch.found()}", flush=True)
    assert watch.records
    assert (watch.deaths, watch.flaps) == ([], [])
