"""`gf-i2p bridge serve` in front of a real i2pd: a program publishes by HTTP and JSON, and floodfills hold the set."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import requests

from bridges.errors import RouterError
from bridges.i2cp.publisher import I2cpPublisher
from bridges.i2cp.settings import I2cpSettings
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from bridges.publisher_choice import PublisherChoice
from bridges.router_protocol import Publication
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.meta_lease_set import STORE_TYPE, MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import session_config
from gf_i2p.node.files.file_names import BRIDGE_CERTIFICATE_FILE, CONFIG_FILE, SECRETS_FILE
from integration.harness.local_farm import NotSeenError, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_files import replace
from integration.testnet.router_network import RouterNetwork

pytestmark = pytest.mark.timeout(1800)

FLOODFILLS: Final = 3
RESEND_SECONDS: Final = 20.0
TRIES: Final = 18
"""Sets to send, for six minutes in all. A neighbour's tunnel may lead nowhere for a part of this time."""
START_SECONDS: Final = 120.0
"""Time for a `gf-i2p` process to start or to stop."""
PASSWORD: Final = "correct horse battery"
PLACE: Final = "127.0.0.1:7651"

Figure = Callable[[str, float], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]) -> Figure:
    """Keeps and prints a number for the report."""

    def keep(what: str, value: float) -> None:
        record_property(what, round(value, 2))
        with capsys.disabled():
            print(f"\n  {what}: {value:.4g}", flush=True)

    return keep


class ServedBridge:
    """`gf-i2p bridge serve` in the directory of a node beside the last router, and a program that calls it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = ""
        self.fingerprint = ""
        self._token: str | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the endpoint. Returns when the endpoint listens."""
        self._token = None
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gf_i2p.cli.main", "bridge", "serve", str(self.directory), "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            told = json.loads(await self._process.stdout.readline())
        self.url, self.fingerprint = told["url"], told["fingerprint"]

    async def kill(self) -> None:
        """End the endpoint with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """End the endpoint with SIGTERM. The exit code must be 0."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.terminate()
            async with asyncio.timeout(START_SECONDS):
                assert await self._process.wait() == 0

    async def call(self, method: str, **params: Any) -> Any:
        """Call a method, and return the result."""
        if self._token is None:
            self._token = (await asyncio.to_thread(self._post, "Authenticate", {"API": 1, "Password": PASSWORD}))[
                "result"
            ]["Token"]
        answer = await asyncio.to_thread(self._post, method, {**params, "Token": self._token})
        assert "result" in answer, answer
        return answer["result"]

    def _post(self, method: str, params: dict[str, Any]) -> Any:
        request = {"id": 1, "jsonrpc": "2.0", "method": method, "params": params}
        certificate = str(self.directory / BRIDGE_CERTIFICATE_FILE)
        return requests.post(self.url, json=request, verify=certificate, timeout=310).json()


@pytest_asyncio.fixture
async def farm(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[I2pFarm]:
    """One node's directory beside the last router."""
    with I2pFarm(tmp_path, network.routers[-1:], password=network.password) as made:
        made.place()
        yield made


@pytest_asyncio.fixture
async def endpoint(farm: I2pFarm) -> AsyncIterator[ServedBridge]:
    async with _served(farm.node(1)) as made:
        yield made


@pytest_asyncio.fixture
async def signing(farm: I2pFarm) -> AsyncIterator[ServedBridge]:
    """An endpoint that signs with the keys of the farm's master; the node does not publish."""
    replace(farm.node(1), {'mode = "meta"': 'mode = "off"'})
    async with _served(farm.node(1), "sign_entries = true\n") as made:
        yield made


@asynccontextmanager
async def _served(directory: Path, settings: str = "") -> AsyncIterator[ServedBridge]:
    config, secrets = directory / CONFIG_FILE, directory / SECRETS_FILE
    config.write_text(f'{config.read_text()}\n[bridge]\nlisten = "{PLACE}"\n{settings}')
    secrets.write_text(f'bridge_password = "{PASSWORD}"\n{secrets.read_text()}')
    made = ServedBridge(directory)
    await made.start()
    yield made
    await made.stop()


@asynccontextmanager
async def choosing(endpoint: ServedBridge) -> AsyncIterator[PublisherChoice]:
    """The publisher choice of a node that has the endpoint as i2pcontrol, and no I2CP."""
    control = I2pControl(I2pControlAccess(endpoint.url, PASSWORD, fingerprint=endpoint.fingerprint))
    choice = PublisherChoice(control, I2cpPublisher(I2cpSettings(port=1)))
    try:
        yield choice
    finally:
        await choice.close()
        await control.close()


class BridgeMaster:
    """A master that publishes ever later sets until floodfills hold one."""

    def __init__(self, network: RouterNetwork) -> None:
        self.keys = DestinationKeys.generate()
        self.tries = 0
        self._network = network
        self._published = 0

    def publication(self) -> Publication:
        now = time.time()
        self._published = max(int(now), self._published + 1)
        entries = [MetaLease(bytes([leaf]) * 32, self._published + 3600, cost=leaf) for leaf in (1, 2, 3)]
        lease_set = MetaLeaseSet.build(self.keys, published=self._published, entries=entries)
        return Publication(lease_set, session_config(self.keys, int(now * 1000)))

    async def publish(self, publish: Callable[[Publication], Any]) -> float:
        """Publish sets. Return the seconds until enough floodfills held one of these sets."""

        async def publish_next() -> int:
            self.tries += 1
            made = self.publication()
            await publish(made)
            return made.lease_set.expires_at

        self.tries = 0
        return await publish_until_held(self._network, self.keys.destination.b32, publish_next)


async def publish_until_held(network: RouterNetwork, master: str, publish_next: Callable[[], Awaitable[int]]) -> float:
    """Publish ever later sets until floodfills hold one of these sets. Return the seconds that this took.

    `publish_next` publishes a set, and returns the end of that set.
    """
    began = time.monotonic()
    ends: set[int] = set()

    async def held() -> bool:
        holders = await network.holders(master, STORE_TYPE)
        return sum(int(held.expires.timestamp()) in ends for held in holders.values()) >= FLOODFILLS

    for _ in range(TRIES):
        ends.add(await publish_next())
        try:
            await until("the set is on floodfills", RESEND_SECONDS, held)
        except NotSeenError:
            continue
        return time.monotonic() - began
    raise NotSeenError(f"not on {FLOODFILLS} floodfills after {TRIES} tries")


async def test_a_program_publishes(network: RouterNetwork, endpoint: ServedBridge, figure: Figure) -> None:
    service = BridgeMaster(network)
    master = to_base64(service.keys.destination.hash)
    assert (await endpoint.call("GetMetaLSStatus", MasterHash=master))["State"] == "idle"

    async def publish(made: Publication) -> None:
        params = {"LeaseSet": to_base64(made.lease_set.data), "SessionConfig": to_base64(made.session)}
        began = time.monotonic()
        state = await endpoint.call("PublishMetaLS", MasterHash=master, **params)
        figure("PublishMetaLS, seconds", time.monotonic() - began)
        assert state["State"] == "sent"
        assert state["Published"] == made.lease_set.published

    figure(f"from nothing to {FLOODFILLS} floodfills, seconds", await service.publish(publish))
    figure("sets that it took", service.tries)
    assert (await endpoint.call("GetMetaLSStatus", MasterHash=master))["State"] == "sent"
    assert (await endpoint.call("StopPublishingMetaLS", MasterHash=master))["State"] == "idle"

    async def held() -> bool:
        return len(await network.holders(service.keys.destination.b32, STORE_TYPE)) >= FLOODFILLS

    await until("floodfills have it even so: that unpublishes nothing", 60, held, poll=1.0)


async def test_a_program_without_keys_publishes(
    network: RouterNetwork, farm: I2pFarm, signing: ServedBridge, figure: Figure
) -> None:
    master = farm.master.destination.b32
    versions: list[int] = []

    async def publish_next() -> int:
        end = int(time.time()) + 1800 + len(versions)
        leaf = {"Hash": farm.leaves[1].destination.b32, "Cost": 1, "Expires": end}
        nested = {"Hash": to_base64(bytes([2]) * 32), "Type": 7, "Cost": 255, "Expires": end - 600}
        state = await signing.call("PublishMetaLS", MasterHash=master, Entries=[leaf, nested])
        assert (state["State"], state["Expires"]) == ("sent", end)
        versions.append(state["Published"])
        return end

    seconds = await publish_until_held(network, master, publish_next)
    figure(f"plain entries, to {FLOODFILLS} floodfills, seconds", seconds)
    figure("sets that plain entries took", len(versions))
    assert versions == sorted(set(versions))
    other = DestinationKeys.generate().destination.b32
    entry = {"Hash": farm.leaves[1].destination.b32, "Cost": 1, "Expires": int(time.time()) + 1800}
    with pytest.raises(AssertionError, match="this endpoint does not sign for"):
        await signing.call("PublishMetaLS", MasterHash=other, Entries=[entry])
    assert (await signing.call("StopPublishingMetaLS", MasterHash=master))["State"] == "idle"


async def test_a_program_asks(network: RouterNetwork, farm: I2pFarm, endpoint: ServedBridge, figure: Figure) -> None:
    status = await endpoint.call("GetLocalRouterStatus")
    assert status["UptimeMs"] >= 1000
    assert status["KnownPeers"] == len(network.routers)
    info = await endpoint.call("RouterInfo", **{"i2p.router.version": None})
    assert info == {"i2p.router.version": status["Version"]}
    leaf = await endpoint.call("GetLocalLeafHash", MasterHash=farm.master.destination.b32)
    assert leaf["Address"] == farm.leaves[1].destination.b32
    assert await endpoint.call("GetLocalLeafHash", MasterHash=DestinationKeys.generate().destination.b32) == {
        "LeafHash": None,
        "Address": None,
    }
    assert (await endpoint.call("GetLocalLeafStatus", LeafHash=leaf["LeafHash"], Timeout=240))["Up"] is False
    check = DestinationKeys.parse((network.routers[0].directory / "check.dat").read_bytes()).destination
    with pytest.raises(AssertionError, match="is not a leaf of this router"):
        await endpoint.call("GetLocalLeafStatus", LeafHash=check.b32)
    measured: dict[str, Any] = {}

    async def is_measured() -> bool:
        """Measure once. An attempt may fail, because i2pd may take a tunnel that leads nowhere."""
        measured.update(await endpoint.call("GetRemoteMeasuredStatus", Hash=check.b32, Timeout=300))
        print(measured)
        return measured["Error"] is None

    await until("it answers through the network", 900, is_measured, poll=1.0)
    figure("its lease set was found after, seconds", measured["LeaseSetSeconds"])
    figure("a stream was open after, seconds", measured["ConnectSeconds"])


@pytest.mark.slow  # restarts a program and waits for floodfills again
async def test_a_node_publishes_through_it_and_survives_its_restart(
    network: RouterNetwork, endpoint: ServedBridge, figure: Figure
) -> None:
    service = BridgeMaster(network)
    master = service.keys.destination.hash
    async with choosing(endpoint) as choice:
        figure(f"a node, to {FLOODFILLS} floodfills, seconds", await service.publish(choice.publish_meta_lease_set))
        assert choice.publication_trouble(master) is None
        await endpoint.kill()
        began = time.monotonic()

        async def noticed() -> bool:
            return choice.publication_trouble(master) is not None

        await until("the node notices", 240, noticed)
        figure("the end of the endpoint is noticed after, seconds", time.monotonic() - began)
        with pytest.raises(RouterError, match="I2CP was tried because i2pcontrol cannot be asked"):
            await choice.publish_meta_lease_set(service.publication())
        await endpoint.start()
        seconds = await service.publish(choice.publish_meta_lease_set)
        figure(f"after its restart, to {FLOODFILLS} floodfills, seconds", seconds)
        assert choice.publication_trouble(master) is None
