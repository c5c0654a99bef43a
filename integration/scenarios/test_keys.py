"""A node that has only delegated keys publishes through a real i2pd. The master's own key is not on the node."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import SessionStatus, Status, create_session, destroy_session
from bridges.i2cp.settings import I2cpSettings
from gf_i2p.cli.main import main
from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import MASTER_FILE
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from integration.harness.lease_set_check import META, ByHand
from integration.harness.local_farm import NotSeenError, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import I2CP_PORT
from integration.testnet.router_network import RouterNetwork

pytestmark = pytest.mark.timeout(1800)

DAY: Final = 86_400
FLOODFILLS: Final = 3
"""Floodfills that must hold a set. i2pd gives a set to one floodfill, which passes the set on to at most three."""
SEEN_SECONDS: Final = 360.0
"""Most seconds until the floodfills hold a set. i2pd may lose the first sets, which the node sends 25 s apart."""


class Offline:
    """The machine that has the master's own key."""

    def __init__(self, directory: Path, farm: I2pFarm) -> None:
        self.master = directory / "service.master"
        self.master.touch(mode=0o600)
        self.master.write_bytes(farm.master.encode())
        self._directory = directory
        self._count = 0

    def delegate(self, days: int) -> Path:
        self._count += 1
        path = self._directory / f"delegated-{self._count}"
        words = ["keys", "delegate", str(self.master), "--server", "1", "--days", str(days), "--out", str(path)]
        assert main(words) == 0
        return path


@pytest_asyncio.fixture
async def farm(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    """One node beside a router. The node's own address is the leaf."""
    with I2pFarm(tmp_path / "farm", [network.routers[-1]], password=network.password) as made:
        made.place(themselves=True)
        yield made


async def sets(farm: I2pFarm) -> list[ByHand]:
    """Return the sets that the node has announced in the log."""
    found: dict[bytes, ByHand] = {}
    first = 1
    while True:
        path = f"/v1/entries?first={first}&limit=1000&stale=1"
        page = (await local_client.request(farm.node(1), "GET", path, seconds=60))["entries"]
        for entry in page:
            text = _record(entry).get("meta", {}).get("lastPublishedLS")
            if text is not None:
                data = base64.b64decode(text, b"-~")
                found.setdefault(data, ByHand.read(data))
        if not page:
            return list(found.values())
        first = page[-1]["index"] + 1


def _record(entry: dict[str, Any]) -> dict[str, Any]:
    try:
        value = json.loads(entry.get("value", ""))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


async def held(network: RouterNetwork, farm: I2pFarm, transient: bytes | None = None) -> ByHand:
    """Wait until enough floodfills hold a set; return the set. `transient`: sets by this key do not count."""
    b32 = farm.master.destination.b32
    seen: list[ByHand] = []

    async def enough() -> bool:
        farm.check()
        ends = [int(each.expires.timestamp()) for each in (await network.holders(b32, META)).values()]
        try:
            announced = [each for each in await sets(farm) if each.transient != transient]
        except CommandError as error:  # the node has not answered this time
            print(error)
            return False
        seen[:] = [each for each in announced if ends.count(each.expires) >= FLOODFILLS]
        return bool(seen)

    try:
        await until(f"{FLOODFILLS} floodfills hold a set", SEEN_SECONDS, enough, poll=1.0)
    except NotSeenError:
        print(await network.holders(b32, META), await farm.status(1), farm.complaints(), sep="\n")
        raise
    return seen[-1]


@pytest.mark.parametrize("purpose", Purpose)
async def test_i2pd_opens_a_session_by_each_config_that_the_master_signed_long_ago(
    network: RouterNetwork, purpose: Purpose
) -> None:
    now = int(time.time())
    keys = PublishingKeys.delegate(DestinationKeys.generate(), now + DAY, now - 300 * DAY)
    signed = keys.signed_session(purpose)
    assert signed is not None
    settings = I2cpSettings(network.routers[-1].address, I2CP_PORT, allow_plain=True)
    connection = await I2cpConnection.open(settings, time.time)
    try:
        for config, expected in ((keys.fresh_session(purpose, now * 1000), Status.INVALID), (signed, Status.CREATED)):
            await connection.send(create_session(config))
            said = await _answer(connection)
            assert said.status == expected
        await connection.send(destroy_session(said.session))
        await connection.wait_for_end()
    finally:
        connection.close()


async def _answer(connection: I2cpConnection) -> SessionStatus:
    async with asyncio.timeout(60):
        while True:
            said = await connection.receive()
            if isinstance(said, SessionStatus):
                return said


@pytest.mark.slow  # minutes until the farm publishes
async def test_delegated_keys_publish_through_i2pd_and_new_ones_are_taken_over(
    network: RouterNetwork, farm: I2pFarm, tmp_path: Path
) -> None:
    offline = Offline(tmp_path, farm)
    key_file = farm.node(1) / MASTER_FILE
    delegated = time.time()
    offline.delegate(30).replace(key_file)
    secret = farm.master.key.private
    for path in farm.node(1).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert secret not in data, path
            assert base64.b64encode(secret, b"-~")[:40] not in data, path
    assert main(["keys", "status", str(farm.node(1))]) == 0

    began = time.monotonic()
    farm.start_all()
    await farm.leader(SEEN_SECONDS)
    first = await held(network, farm)
    print(f"the first set on {FLOODFILLS} floodfills {time.monotonic() - began:.1f} s after the node's start")
    assert first.b32 == farm.master.destination.b32
    assert first.good_until is not None
    assert abs(first.good_until - delegated - 30 * DAY) < 600
    assert len(first.leaves) == 1

    began, delegated = time.monotonic(), time.time()
    offline.delegate(60).replace(key_file)
    second = await held(network, farm, first.transient)
    print(f"a set by the new keys on {FLOODFILLS} floodfills {time.monotonic() - began:.1f} s after the new file")
    assert second.b32 == first.b32
    assert second.published > first.published
    assert second.good_until is not None
    assert abs(second.good_until - delegated - 60 * DAY) < 600

    async def all_is_well() -> bool:
        status = await farm.status(1)
        return status is not None and (status["farm"]["keys"]["ends"], status["farm"]["trouble"]) == (
            second.good_until,
            [],
        )

    await until("the node has the new keys, and no trouble", SEEN_SECONDS, all_is_well)
    log = farm.log(1).read_text()
    assert "new keys for publishing" in log
    assert "nothing is published" not in log
