"""The job `floodfills` by Spark, compared with a search through all pairs."""

import gzip
import hashlib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gf_i2p.netdb.encoding import from_base64, to_b32_address, to_base64
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.router_info import RouterInfo
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.floodfills.given_hashes import SoughtLeaseSet, parse_target
from gf_i2p.pipeline.floodfills.job import CLOSEST, FloodfillFigures, FloodfillOptions, find_closest
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from integration.harness.made_up_netdb import NetDb, infos, router_info_path, write
from tests.netdb.strategies import entropy
from tests.pipeline.floodfills.routing_keys import distance, routing_key
from tests.pipeline.floodfills.test_peer_profiles import I2PD, JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = date(2026, 1, 1)
DAYS = {"2025-12-31": "20251231", "2026-01-01": "20260101", "2026-01-02": "20260102"}
NOON_MS = 1_767_268_800_000
NETDB = NetDb(60, seed=3, now_ms=NOON_MS, floodfills=0.5)
TARGETS = [SoughtLeaseSet(hashlib.sha256(bytes([number])).digest(), f"target {number}") for number in range(5)]
RECORD = "struct<id: bigint, meta: struct<destination: string>, destinations: array<struct<hash: string, up: boolean>>>"


def run(spark: "SparkSession", lake: Lake, netdb: Path, **changes: Any) -> FloodfillFigures:
    options = FloodfillOptions([str(netdb)], DAY, targets=TARGETS)
    return find_closest(spark, lake, replace(options, **changes), NOON_MS, lambda _: None)


def rows_of(spark: "SparkSession", lake: Lake, name: str) -> list[dict[str, Any]]:
    frame = tables.read_table(spark, lake, name)
    assert frame is not None
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def expected(
    floodfills: list[RouterInfo], targets: list[SoughtLeaseSet]
) -> dict[tuple[str, str, int], tuple[str, str]]:
    """Give floodfill and distance by hash, day and rank."""
    closest = {}
    for target in targets:
        for day, digits in DAYS.items():
            key = routing_key(target.hash, digits)
            near = sorted((distance(key, each.hash), to_base64(each.hash)) for each in floodfills)[:CLOSEST]
            for rank, (far, name) in enumerate(near, 1):
                closest[to_base64(target.hash), day, rank] = (name, f"{far:064x}")
    return closest


def closest_in(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], tuple[str, str]]:
    closest = {(row["hash"], row["day"], row["rank"]): (row["floodfill"], row["distance"]) for row in rows}
    assert len(closest) == len(rows), "none twice"
    return closest


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def netdb(tmp_path: Path) -> Path:
    write(tmp_path / "router" / "netDb", NETDB)
    return tmp_path / "router"


@pytest.mark.slow  # eight seconds of Spark; the rule has its tests without Spark
def test_the_closest_of_three_days_with_their_profiles(spark: "SparkSession", lake: Lake, netdb: Path) -> None:
    floodfills = [info for info in infos(NETDB) if info.floodfill]
    profiled = floodfills[0]
    for suffix, data in (("txt", I2PD.encode()), ("txt.gz", gzip.compress(JAVA.encode()))):
        (netdb / "peerProfiles").mkdir(exist_ok=True)
        (netdb / "peerProfiles" / f"profile-{to_base64(profiled.hash)}.{suffix}").write_bytes(data)
    broken = router_info_path(netdb / "netDb", floodfills[1])
    broken.write_bytes(b"x")

    figures = run(spark, lake, netdb)

    rows = rows_of(spark, lake, "closest")
    others = [info for info in floodfills if info is not floodfills[1]]
    assert closest_in(rows) == expected(others, TARGETS)
    assert {row["name"] for row in rows} == {target.name for target in TARGETS}
    for row in rows:
        if row["floodfill"] == to_base64(profiled.hash):
            assert row["profile"]["router"] == "java", "which has heard from it last"
            assert row["profile"]["agreed"] == 7
        else:
            assert row["profile"] is None
    assert to_base64(profiled.hash) in {row["floodfill"] for row in rows}
    counted = (figures.files, figures.routers, figures.floodfills, figures.profiles, figures.unverified)
    assert counted == (62, 59, len(others), 1, 0)
    assert (figures.hashes, figures.rows, figures.quarantined) == (5, 5 * 3 * CLOSEST, 1)

    (bad,) = rows_of(spark, lake, "quarantine")
    assert (bad["source"], bad["what"], bad["length"], bad["found_ms"]) == (str(broken), "file", 1, NOON_MS)
    assert (bad["text"], bad["digest"], bad["farm"], bad["index"]) == (
        "eA==",
        hashlib.md5(b"x", usedforsecurity=False).hexdigest(),
        None,
        None,
    )
    assert "ends after 1 bytes" in bad["reason"]

    assert replace(run(spark, lake, netdb), parse_seconds=0, closest_seconds=0) == replace(
        figures, parse_seconds=0, closest_seconds=0
    )
    assert len(rows_of(spark, lake, "quarantine")) == 1, "once, however often it is found"
    assert closest_in(rows_of(spark, lake, "closest")) == closest_in(rows)


@pytest.mark.slow  # test_given_hashes.py and test_closest_floodfills.py choose floodfills without Spark
def test_only_some_floodfills_count(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    own_netdb, other_netdb = tmp_path / "ours", tmp_path / "others"
    write(own_netdb, NETDB)
    other = NetDb(20, seed=4, now_ms=NOON_MS, floodfills=1, net_id=77)
    write(other_netdb, other)
    twelve_hours = 12 * 3_600_000
    counting = [info for info in infos(NETDB) if info.floodfill and info.published >= NOON_MS - twelve_hours]
    figures = run(spark, lake, own_netdb, netdbs=[str(own_netdb), str(other_netdb)], net_id=2, within_hours=12)
    assert (figures.routers, figures.floodfills) == (80, len(counting))
    assert closest_in(rows_of(spark, lake, "closest")) == expected(counting, TARGETS)

    few = [info for info in infos(NETDB) if info.floodfill][:3]
    for info in infos(NETDB):
        if info.hash not in {each.hash for each in few}:
            router_info_path(own_netdb, info).unlink()
    assert run(spark, lake, own_netdb).rows == 5 * 3 * 3
    assert closest_in(rows_of(spark, lake, "closest")) == expected(few, TARGETS)
    with pytest.raises(PipelineError, match="None of these routers is a floodfill of the wanted network"):
        run(spark, lake, own_netdb, net_id=5)


@pytest.mark.slow  # one more run of the job
def test_the_newest_of_a_router_counts(spark: "SparkSession", lake: Lake, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory, now_ms in ((first, NOON_MS), (second, NOON_MS + 5)):
        write(directory, replace(NETDB, now_ms=now_ms))  # the same routers, later
    run(spark, lake, first, netdbs=[str(second), str(first)])
    rows = rows_of(spark, lake, "routers")
    assert len(rows) == NETDB.count
    assert {Path(row["file"]).parent.parent for row in rows} == {second}


def test_hashes_of_the_farms_in_the_lake(spark: "SparkSession", lake: Lake, netdb: Path) -> None:
    master = DestinationKeys.generate(entropy(5)).destination
    leaves = [to_base64(hashlib.sha256(name).digest()) for name in (b"one", b"two")]

    def record(server: int, destination: str, hashes: list[str]) -> dict[str, Any]:
        return {
            "id": server,
            "meta": {"destination": destination},
            "destinations": [{"hash": each, "up": True} for each in hashes],
        }

    rows: list[tuple[Any, ...]] = [
        ("blue", "status", None, record(1, master.base64, leaves[:1])),
        ("blue", "status", None, record(1, master.base64, leaves[:1])),
        ("blue", "status", None, record(2, "no base64!", [leaves[1], "AAAA", "%"])),
        ("blue", "status", "a clock from 1970", record(3, "", [to_base64(bytes(32))])),
        ("blue", "admin", None, None),
    ]
    spark.createDataFrame(rows, f"farm string, kind string, misfit string, record {RECORD}").write.parquet(
        lake.path("entries")
    )
    targets = [SoughtLeaseSet(from_base64(leaves[1], 32), "given"), parse_target(to_b32_address(master.hash))]
    figures = run(spark, lake, netdb, targets=targets)
    assert figures.hashes == 3
    assert {(row["hash"], row["name"]) for row in rows_of(spark, lake, "closest")} == {
        (to_base64(master.hash), "blue: master"),
        (leaves[0], "blue: leaf of server 1"),
        (leaves[1], "given"),
    }


def test_without_any_hash_there_is_nothing_to_do(spark: "SparkSession", lake: Lake, netdb: Path) -> None:
    with pytest.raises(PipelineError, match="or give --hash"):
        run(spark, lake, netdb, targets=[])
