"""Each "found" or "confirmed" of a farm in mode `meta`, compared with the floodfills' own pages, on a mixed network.

i2pd finds no Meta lease set, so two of the three servers are beside Java routers. An administrator changes the cost of
a leaf again and again, so that the farm publishes a new set each time. `GF_I2P_WORDS` is the number of words.
"""

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from integration.harness.commands import command
from integration.harness.local_farm import until
from integration.scenarios.router_choice import spare_routers
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_files import LISTEN_PORT, replace
from integration.testnet.router_network import RouterNetwork

WORDS: Final = int(os.environ.get("GF_I2P_WORDS", "2"))
BEGIN_SECONDS: Final = 420.0
WORD_SECONDS: Final = 420.0
META_LEASE_SET: Final = 7
SENSE_LINE: Final = "# sense_minutes = 60 "
FIRST_PORT: Final = LISTEN_PORT + 50
"""Other farms may run on the same network."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * BEGIN_SECONDS + WORDS * WORD_SECONDS)]


@pytest_asyncio.fixture
async def farm(java_network: RouterNetwork, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    free = {kind: spare_routers(java_network, kind) for kind in ("java", "i2pd")}
    routers = [*free["java"][:2], free["i2pd"][0]]
    with I2pFarm(tmp_path, routers, password=java_network.password, first_port=FIRST_PORT) as made:
        made.place(themselves=True)
        for server in made.ids:
            replace(made.node(server), {SENSE_LINE: "sense_minutes = 1\n# "})
        made.start_all()
        await made.leader(BEGIN_SECONDS)
        try:
            yield made
        finally:
            print(made.complaints())


async def test_what_the_farm_calls_found_is_on_a_floodfill_s_page(
    java_network: RouterNetwork, farm: I2pFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    master = farm.master.destination.b32

    async def publishing() -> dict[str, Any] | None:
        """Return the publisher's description of the newest set."""
        for server in farm.ids:
            status = await farm.status(server)
            said = None if status is None else status["farm"]["publishing"]
            if said is not None and said["progress"] is not None:
                described: dict[str, Any] = said
                return described
        return None

    async def all_leaves_are_listed() -> bool:
        status = await farm.status(farm.ids[0])
        return status is not None and len(status["farm"]["leaves"]) == len(farm.ids)

    await until("all leaves are listed", BEGIN_SECONDS, all_leaves_are_listed, poll=1.0)
    status = await farm.status(farm.ids[0])
    assert status is not None
    leaf = status["farm"]["leaves"][0]
    judged: set[int] = set()
    wrong, of_this_version = [], 0
    found: dict[str, Any] = {}

    async def is_found() -> bool:
        said = await publishing()
        if said is None or said["progress"]["word"] not in {"found", "confirmed"} or said["published"] in judged:
            return False
        found.clear()
        found.update(said)
        return True

    for number in range(1, WORDS + 1):
        await command("leaves", "cost", farm.node(farm.ids[0]), leaf, str(10 + number % 200))
        await until(f"word {number}", WORD_SECONDS, is_found, poll=1.0)
        pages = await java_network.holders(master, META_LEASE_SET)
        judged.add(found["published"])
        progress = found["progress"]
        at = progress["confirmed"] or progress["found"]
        versions = [page.expires.timestamp() >= found["expires"] for page in pages.values()]
        of_this_version += any(versions)
        if not pages or (progress["word"] == "confirmed" and not any(versions)):
            wrong.append((found["published"], progress))
        with capsys.disabled():
            print(
                f"\n  word {number}: {progress['word']} by server {progress['found_by'] or progress['confirmed_by']}, "
                f"{at - found['published']:.0f} s after the set's date, seen {time.time() - at:.0f} s later; "
                f"{len(pages)} pages have a set, {sum(versions)} this version; {len(wrong)} words wrong so far",
                end="",
                flush=True,
            )
    with capsys.disabled():
        print(f"\n  {WORDS} words, {len(wrong)} wrong; some page had this very version for {of_this_version}")
    assert wrong == []
