"""The router's own file `router.info`: good files, old ones, broken ones, and files that are no files."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.netdb.router_info import RouterInfo
from gf_i2p.node.files.checked_read import read_regular
from gf_i2p.node.report import router_info_file
from gf_i2p.node.report.router_info_file import MAX_AGE_MS, MAX_AHEAD_MS, MAX_BYTES, RouterInfoFile
from integration.harness.local_farm import becomes
from tests.netdb.test_router_info import FLOODFILL, OTHER, build, vector

PUBLISHED_MS = RouterInfo.parse(vector(FLOODFILL)).published


def ahead(milliseconds: int) -> float:
    """The time that is so many milliseconds after the vector's publication, in seconds."""
    return (PUBLISHED_MS + milliseconds) / 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "router.info"
    put(file, vector(FLOODFILL))
    return file


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def trouble_of(path: Path, *, later_ms: int = 5000) -> str:
    file = RouterInfoFile(path, clock=lambda: ahead(later_ms))
    await file.look()
    assert file.base64 is None
    assert file.trouble is not None
    assert file.trouble.startswith("this server's records lack the router info: ")
    return file.trouble


async def test_the_file_of_a_real_router_is_read_and_read_again_when_it_changes(path: Path) -> None:
    file = RouterInfoFile(path, clock=lambda: ahead(5000))
    await file.look()
    assert file.trouble is None
    assert file.base64 is not None
    assert from_base64(file.base64, MAX_BYTES) == vector(FLOODFILL)
    put(path, vector(OTHER))
    await file.look()
    assert file.base64 == to_base64(vector(OTHER))


async def test_a_file_that_has_not_changed_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def counted(file: Path, limit: int) -> tuple[bytes, os.stat_result]:
        reads.append(file)
        return read_regular(file, limit)

    monkeypatch.setattr(router_info_file, "read_regular", counted)
    file = RouterInfoFile(path, clock=lambda: ahead(5000))
    for _ in range(3):
        await file.look()
    assert reads == [path]
    assert file.base64 is not None


async def test_a_file_is_stale_after_a_while_and_good_again_when_the_router_writes_it(path: Path) -> None:
    now = [ahead(MAX_AGE_MS)]
    file = RouterInfoFile(path, clock=lambda: now[0])
    await file.look()
    assert file.base64 is not None
    now[0] = ahead(MAX_AGE_MS + 1000)
    await file.look()
    assert file.base64 is None
    assert "is 3:00:01 old" in str(file.trouble)
    assert "start the router" in str(file.trouble)
    put(path, build(published=PUBLISHED_MS + MAX_AGE_MS).data)
    await file.look()
    assert file.trouble is None
    assert file.base64 is not None


async def test_a_router_info_of_the_future_is_not_believed(path: Path) -> None:
    file = RouterInfoFile(path, clock=lambda: ahead(-MAX_AHEAD_MS))
    await file.look()
    assert file.base64 is not None
    assert "ahead of this machine's clock: correct the clocks" in await trouble_of(path, later_ms=-MAX_AHEAD_MS - 1000)


@pytest.mark.parametrize("published_ms", [2**63, 2**64 - 1, 0])
async def test_a_date_that_no_clock_shows_is_no_defect(path: Path, published_ms: int) -> None:
    put(path, build(published=published_ms).data)
    assert ("ahead of" if published_ms else "start the router") in await trouble_of(path)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is no router info, because"),
        (bytes(MAX_BYTES), "is no router info, because"),
        (bytes(MAX_BYTES + 1), f"has more than {MAX_BYTES} bytes"),
        (vector(FLOODFILL)[:-1], "is no router info, because"),
        (vector(FLOODFILL)[:-1] + b"\0", "is no router info, because"),
    ],
)
async def test_broken_files_are_left_out(path: Path, data: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_info_file, "AGAIN_SECONDS", 0.0)
    put(path, data)
    trouble = await trouble_of(path)
    assert why in trouble
    assert "info_file" in trouble


async def test_a_signature_that_nobody_can_verify_is_left_out(path: Path) -> None:
    identity = bytearray(build().identity.data)
    identity[387:389] = (1).to_bytes(2)  # ECDSA with P-256
    data = bytes(identity) + build().data[len(identity) :]
    assert not RouterInfo.parse(data).verified
    put(path, data)
    assert "a signature of type 1, which is unknown here" in await trouble_of(path)


async def test_what_is_no_readable_file_is_named(tmp_path: Path) -> None:
    assert "No such file or directory: correct info_file in [router]" in await trouble_of(tmp_path / "missing")
    assert "Is a directory" in await trouble_of(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "a pipe or a device" in await trouble_of(pipe)
    assert "a pipe or a device" in await trouble_of(Path("/dev/zero"))


async def test_a_file_that_the_router_is_writing_is_read_once_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_info_file, "AGAIN_SECONDS", 60.0)
    put(path, vector(FLOODFILL)[:400])
    file = RouterInfoFile(path, clock=lambda: ahead(5000))
    slept = asyncio.Event()
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds == 60.0:
            put(path, vector(FLOODFILL))
            slept.set()
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await file.look()
    assert slept.is_set()
    assert file.trouble is None


async def test_it_looks_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_info_file, "LOOK_SECONDS", 0.01)
    path = tmp_path / "router.info"
    file = RouterInfoFile(path)
    task = asyncio.create_task(file.run())
    await becomes("missing", lambda: file.trouble is not None)
    put(path, build(published=int(time.time() * 1000)).data)
    await becomes("read", lambda: file.base64 is not None)
    put(path, b"")
    await becomes("broken", lambda: file.base64 is None)
    task.cancel()
    await asyncio.wait([task])
