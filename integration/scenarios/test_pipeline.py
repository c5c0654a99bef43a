"""The history of a farm on real routers goes through all jobs of the pipeline, and the results go into the farm's log.

The replay must give the farm's publishers. The routers' netDbs give the floodfills.
"""

import itertools
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
import pytest_asyncio

from gf_i2p.node.files.file_names import HISTORY_DIRECTORY
from integration.harness import spark_jvm
from integration.harness.commands import command
from integration.harness.local_farm import NotSeenError, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_network import RouterNetwork

pytestmark = pytest.mark.timeout(3600)  # nine starts of Spark, on a machine that does other things too

SECONDS: Final = 300.0
JOB_SECONDS: Final = 900.0
SERVERS: Final = 3
DAYS: Final = 3
"""Number of days for which the closest floodfills are found."""
CLUSTER: Final = "farm"
PARAMETERS: Final = {"leafUpMs": 45_000, "flapMs": 900_000}
"""Parameters as an operator writes them into a file of `backtest --out`: a farm of minutes gets no recommendation."""
REPORT: Final = os.environ.get("GF_I2P_REPORT")
"""Path that keeps the report, for people."""


async def gf(*words: str | Path) -> dict[str, Any]:
    """Run a `gf-i2p` command that must succeed; return the answer."""
    began = time.monotonic()
    answer = await command(*words, seconds=JOB_SECONDS)
    print(f"{time.monotonic() - began:6.1f} s  {' '.join(str(word) for word in words[:2])}: {str(answer)[:600]}")
    return answer


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spark_jvm.VARIABLE, os.environ.get(spark_jvm.VARIABLE, spark_jvm.FOR_FEW_ROWS))


@pytest_asyncio.fixture
async def farm(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    """Three nodes that publish, beside routers that are no floodfills."""
    routers = [router for router in network.routers if not router.floodfill][-SERVERS:]
    with I2pFarm(tmp_path / "farm", routers, password=network.password, cluster=CLUSTER, admins=["ada"]) as made:
        made.place(themselves=True)
        made.start_all()
        await made.leader(SECONDS)
        yield made


async def publisher(farm: I2pFarm, *, only: set[int]) -> int:
    """Wait until all running servers agree on a publisher out of `only`; return the id."""
    found: set[int | None] = set()

    async def agreed() -> bool:
        farm.check()
        answers = [await farm.status(server) for server in farm.running]
        found.clear()
        found.update(None if answer is None else answer["farm"]["publisher"] for answer in answers)
        return len(found) == 1 and bool(found & only)

    try:
        await until(f"one publisher that all know, of {only}", SECONDS, agreed)
    except NotSeenError:
        print(found, farm.complaints(), sep="\n")
        raise
    (one,) = found
    assert one is not None
    return one


@pytest.mark.slow  # ten minutes
async def test_a_farms_history_goes_through_all_jobs(network: RouterNetwork, farm: I2pFarm, tmp_path: Path) -> None:
    first = await publisher(farm, only=set(farm.ids))
    farm.kill(first)
    second = await publisher(farm, only=set(farm.ids) - {first})
    farm.start(first)
    await farm.leader(SECONDS)
    await gf("publisher", "move", farm.node(first), str(first))
    third = await publisher(farm, only={first})
    await farm.exported(await farm.converged(SECONDS), SECONDS)

    lake = tmp_path / "lake"
    exports = [tmp_path / "exports" / str(server) for server in farm.ids]
    for server, export in zip(farm.ids, exports, strict=True):  # as an operator copies exports
        shutil.copytree(farm.node(server) / HISTORY_DIRECTORY, export)
    taken = await gf("pipeline", "ingest", lake, *exports)
    assert taken["quarantined_rows"] == 0
    assert taken["kinds"]["status"] >= SERVERS
    assert taken["kinds"]["servers"] >= 1
    assert (await gf("pipeline", "ingest", lake, *exports))["new"] == 0

    health = await gf("pipeline", "health", lake)
    assert {each["server"] for each in health["servers"]} == set(farm.ids)

    backtest = await gf("pipeline", "backtest", lake, "--out", tmp_path / "recommended.toml", "--set", "margin=50,100")
    assert backtest["farms"] == 1
    decided = pq.read_table(lake / "decisions").sort_by("index").to_pylist()
    assert all(decision["exact"] for decision in decided[-SERVERS:])
    chosen = [decision["publisher"] for decision in decided if decision["publisher"] is not None]
    publishers = [key for key, _ in itertools.groupby(chosen)]
    assert publishers[-3:] == [first, second, third], publishers

    netdbs = [word for router in network.routers for word in ("--netdb", str(router.directory))]
    closest = await gf("pipeline", "floodfills", lake, *netdbs)
    assert closest["floodfills"] >= len(network.floodfills)
    assert closest["rows"] >= DAYS * (SERVERS + 1), "for the master and each leaf"

    report = Path(REPORT) if REPORT else tmp_path / "report.html"
    await gf("pipeline", "report", lake, "--out", report)
    page = report.read_text("utf-8")
    assert "<svg" in page
    assert all(f"server {server}" in page for server in farm.ids)

    admin = farm.directory / "admin-ada.toml"
    admin.write_text(admin.read_text("utf-8").replace("127.0.0.1", farm.routers[1].address), "utf-8")
    fragment = tmp_path / "recommended.toml"
    lines = [f"{name} = {value}" for name, value in PARAMETERS.items()]
    assert "Nothing is recommended" in fragment.read_text("utf-8")
    fragment.write_text("\n".join([f'[farm]\ncluster = "{CLUSTER}"\n\n[farm.parameters]', *lines]), "utf-8")
    what: list[str | Path] = ["--sensing", "--parameters", fragment]
    posted = await gf("pipeline", "post", lake, "--farm", CLUSTER, "--admin", admin, *what, "--yes")
    assert len(posted["indexes"]) > 1, "an entry with the parameters, and one for each hash"

    async def all_know() -> bool:
        try:
            answers = [await gf("farm", "show", farm.node(server)) for server in farm.ids]
        except AssertionError as error:  # a server has not answered this time
            print(error)
            return False
        return all(
            answer["sensed"] and {name: answer["parameters"][name]["value"] for name in PARAMETERS} == PARAMETERS
            for answer in answers
        )

    await until("every server has what was sensed, and the parameters", SECONDS, all_know, poll=1.0)

    await farm.exported(await farm.converged(SECONDS), SECONDS)
    later = await gf("pipeline", "ingest", lake, *(farm.node(server) / HISTORY_DIRECTORY for server in farm.ids))
    assert later["kinds"]["admin"] >= len(posted["indexes"])
    (again,) = (await gf("pipeline", "backtest", lake, "--set", "margin=100"))["results"]
    assert again["in_force"].items() >= PARAMETERS.items()
