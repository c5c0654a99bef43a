"""Files of routers: found in both layouts, read one at a time, broken ones with the reason."""

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.floodfills.router_files import MAX_FILE_BYTES, QUARANTINED_BYTES, find_router_files, read_batches
from integration.harness.made_up_netdb import NetDb, infos, router_info_path, write
from tests.netdb.test_router_info import FLOODFILL, VECTORS
from tests.pipeline.floodfills.test_peer_profiles import I2PD, JAVA

NOW_MS = 1_700_000_000_000
NETDB = NetDb(20, seed=1, now_ms=NOW_MS)
NOBODY = to_base64(bytes(32))


def read(*netdbs: Path, profiles: tuple[Path, ...] = ()) -> dict[str, dict[str, Any]]:
    """Find and read the files as a Spark worker does; return the rows by the files' names."""
    files = find_router_files([str(each) for each in netdbs], [str(each) for each in profiles])
    rows = [row for batch in read_batches(iter(files.to_batches(max_chunksize=7))) for row in batch.to_pylist()]
    assert len(rows) <= files.num_rows
    return {Path(row["file"]).name: row for row in rows}


@pytest.fixture
def router(tmp_path: Path) -> Path:
    """A router's directory, with the netDb and two profiles."""
    write(tmp_path / "netDb", NETDB)
    first, second = [to_base64(info.hash) for info in infos(NETDB)][:2]
    for name, data in ((f"{first}.txt", I2PD.encode()), (f"{second}.txt.gz", gzip.compress(JAVA.encode()))):
        folder = tmp_path / "peerProfiles" / f"p{name[0]}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"profile-{name}").write_bytes(data)
    (tmp_path / "router.info").write_bytes(b"is none of these")
    return tmp_path


def test_all_of_a_router_is_read(router: Path) -> None:
    rows = read(router)
    for info in infos(NETDB):
        row = rows[router_info_path(router, info).name]
        expected = {
            "kind": "router",
            "hash": to_base64(info.hash),
            "published_ms": info.published,
            "caps": info.caps,
            "floodfill": "f" in info.caps,
            "version": info.version,
            "net_id": 2,
            "addresses": 2,
            "verified": True,
            "reason": None,
            "length": len(info.data),
        }
        assert {name: row[name] for name in expected} == expected
    profiles = [row["profile"] for row in rows.values() if row["kind"] == "profile"]
    assert sorted((each["router"], each["agreed"]) for each in profiles) == [("i2pd", 12), ("java", 7)]
    assert len(rows) == NETDB.count + 2


def test_the_directories_may_be_named_one_by_one_and_lie_flat(router: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for file in (router / "netDb").rglob("*.dat"):
        shutil.copy(file, flat)
    expected = {name for name in read(router) if name.startswith("routerInfo")}
    assert set(read(router / "netDb")) == set(read(flat)) == expected
    assert len(read(flat, profiles=(router / "peerProfiles",))) == NETDB.count + 2
    assert len(read(flat, profiles=(router,))) == NETDB.count + 2


def test_files_of_a_real_i2pd() -> None:
    rows = read(VECTORS)
    assert len(rows) == 2
    assert rows[f"routerInfo-{FLOODFILL}.dat"]["floodfill"]


def test_what_is_not_there_is_said(tmp_path: Path, router: Path) -> None:
    with pytest.raises(PipelineError, match=r"give a netDb directory"):
        find_router_files([str(tmp_path / "elsewhere")], [])
    with pytest.raises(PipelineError, match=r"give a peerProfiles directory"):
        find_router_files([str(router)], [str(router / "netDb")])
    with pytest.raises(PipelineError, match="not a directory that can be read"):
        find_router_files(["nonsense://x"], [])


def test_names_that_are_no_text_are_no_router_s(router: Path) -> None:
    before = set(read(router))
    for name in (b"routerInfo-\xff.dat", b"r\xff/x"):
        path = os.fsencode(router / "netDb") + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 -- pathlib has no bytes
        Path(os.fsdecode(path)).write_bytes(b"x")
    assert set(read(router)) == before


def test_broken_files_are_told_with_the_reason_and_the_rest_is_read(router: Path) -> None:
    good = [router_info_path(router / "netDb", info) for info in infos(NETDB)][:4]
    good[0].write_bytes(good[0].read_bytes()[:100])
    data = bytearray(good[1].read_bytes())
    data[-100] ^= 1
    good[1].write_bytes(data)
    shutil.copy(good[3], good[2])
    (router / "netDb" / f"routerInfo-{NOBODY}.dat").write_bytes(bytes(MAX_FILE_BYTES + 1))
    (router / "peerProfiles" / f"profile-{NOBODY}.txt").write_text("\u00fc" * 5000)
    (router / "peerProfiles" / f"profile-{NOBODY}.txt.gz").write_text("no gzip")
    rows = read(router)
    broken = {name: row for name, row in rows.items() if row["reason"] is not None}
    assert len(rows) == NETDB.count + 5
    reasons = {
        good[0].name: "ends after 100 bytes",
        good[1].name: "not by this key",
        good[2].name: f"the RouterInfo is of {good[3].name[11:-4]}",
        f"routerInfo-{NOBODY}.dat": "and was not read",
        f"profile-{NOBODY}.txt": "not a profile of i2pd",
        f"profile-{NOBODY}.txt.gz": "not in the format of gzip",
    }
    assert set(broken) == set(reasons)
    for name, reason in reasons.items():
        assert reason in broken[name]["reason"]
        assert broken[name]["hash"] is None
        assert len(broken[name]["text"] or "") <= QUARANTINED_BYTES
    assert broken[f"profile-{NOBODY}.txt.gz"]["text"] == "bm8gZ3ppcA==", "base64"
    assert broken[f"routerInfo-{NOBODY}.dat"]["length"] == MAX_FILE_BYTES + 1
    assert broken[f"routerInfo-{NOBODY}.dat"]["digest"] is None


def test_a_file_that_is_gone_meanwhile_is_nobody_s_fault_and_one_that_grows_is_not_read_to_its_end(
    router: Path,
) -> None:
    files = find_router_files([str(router)], [])
    first, second = [router_info_path(router / "netDb", info) for info in infos(NETDB)][:2]
    first.unlink()
    second.write_bytes(bytes(3 * MAX_FILE_BYTES))
    rows = [row for batch in read_batches(iter(files.to_batches())) for row in batch.to_pylist()]
    assert len(rows) == NETDB.count + 1
    (row,) = [row for row in rows if row["reason"] is not None]
    assert (row["file"], row["length"]) == (str(second), MAX_FILE_BYTES + 1)


def test_what_a_worker_gives_back_is_bounded(tmp_path: Path) -> None:
    netdb = NetDb(1, seed=2, now_ms=NOW_MS)
    write(tmp_path, netdb)
    (batch,) = find_router_files([str(tmp_path)], []).to_batches()
    many = pa.Table.from_batches([batch] * 1201).to_batches()
    assert [each.num_rows for each in read_batches(iter(many))] == [500, 500, 201]
