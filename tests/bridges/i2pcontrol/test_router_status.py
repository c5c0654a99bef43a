"""A router's account of the router and of the leaves: i2pd as recorded, Java I2P as seen."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol import router_answers as names
from bridges.i2pcontrol import router_status
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.jsonrpc_client import UnknownMethodError
from bridges.i2pcontrol.router_answers import RouterProgram
from bridges.i2pcontrol.router_status import MAX_NOTES, SAFE_TUNNELS, SAFE_TUNNELS_BYTES, I2pControl
from gf_i2p.farm.record.router_facts import LeafStatus, Reachability, RouterStatus
from gf_i2p.farm.record.status_record import router_numbers
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from tests.bridges.simulated_i2pcontrol import I2PD, PASSWORD, Recording, SimulatedRouter, body, error, result
from tests.farm.choice.kinds import TOLD
from tests.transport.harness import Identity

RECORDED = Recording.load(I2PD)
UPTIME_MS = RECORDED.result("RouterInfo", *names.KEYS)[names.UPTIME]
SERVERS = RECORDED.result("ClientServicesInfo", "I2PTunnel")["I2PTunnel"]["server"]
CHECK = from_b32_address(SERVERS["check"]["address"])
WEB_TEST = from_b32_address(SERVERS["web"]["test"]["address"])


@pytest_asyncio.fixture
async def control(i2pd: SimulatedRouter, identity: Identity) -> AsyncIterator[I2pControl]:
    """A client of the simulated i2pd."""
    found = I2pControl(I2pControlAccess(i2pd.url, PASSWORD, fingerprint=identity.fingerprint), ask_for_tunnels=True)
    yield found
    await found.close()


@pytest_asyncio.fixture
async def control_java(java: SimulatedRouter, identity: Identity) -> AsyncIterator[I2pControl]:
    found = I2pControl(I2pControlAccess(java.url, PASSWORD, fingerprint=identity.fingerprint), ask_for_tunnels=True)
    yield found
    await found.close()


def keys(request: bytes) -> list[str]:
    return [name for name in body(request)["params"] if name != "Token"]


def tunnels(**servers: Any) -> bytes:
    return result(I2PTunnel={"client": "", "server": servers or ""})


# The router -----------------------------------------------------------------------------------------------------------


async def test_the_status_of_i2pd(control: I2pControl) -> None:
    assert await control.local_router_status() == RouterStatus(
        uptime_ms=UPTIME_MS,
        version="2.45.1",
        reachability=Reachability.UNKNOWN,  # 3 in this version; it was alone
        participating_tunnels=0,
        configured_inbound=1_024_000_000,
        configured_outbound=1_024_000_000,
        current_inbound=0.0,
        current_outbound=0.0,
        known_peers=1,
        active_peers=0,
    )
    assert control.kind is RouterProgram.I2PD
    assert control.notes == ()


async def test_the_status_of_java(control_java: I2pControl) -> None:
    assert await control_java.local_router_status() == RouterStatus(
        uptime_ms=1_234_567,
        version="2.8.0-1delta",
        reachability=Reachability.HIDDEN,  # 3, as above
        participating_tunnels=7,
        job_lag_ms=0,
        configured_inbound=307_200,
        configured_outbound=61_440,
        current_inbound=698.5001,
        current_outbound=1043.25,
        known_peers=8,
        active_peers=9,
    )
    assert control_java.kind is RouterProgram.JAVA
    assert control_java.notes == ()


async def test_the_farms_tests_know_the_facts_of_each_kind(control: I2pControl, control_java: I2pControl) -> None:
    """The tests of mixed farms go by `TOLD`."""
    assert router_numbers(await control.local_router_status()).keys() == TOLD["i2pd"]
    assert router_numbers(await control_java.local_router_status()).keys() == TOLD["Java I2P"]


async def test_later_it_asks_only_for_what_the_router_has(control: I2pControl, i2pd: SimulatedRouter) -> None:
    first = await control.local_router_status()
    assert await control.local_router_status() == first
    assert i2pd.methods == ["Authenticate", "RouterInfo", "NetworkSetting", "RouterInfo"]
    assert keys(i2pd.requests[1]) == list(names.KEYS)
    assert set(keys(i2pd.requests[3])) == set(names.KEYS) - {names.ONLY_JAVA, *names.NEWER_I2PD}


async def test_after_a_while_it_asks_for_everything_again(
    control: I2pControl, i2pd: SimulatedRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_status, "KNOWN_SECONDS", 0.0)
    await control.local_router_status()
    await control.local_router_status()
    assert i2pd.methods == ["Authenticate", "RouterInfo", "NetworkSetting", "RouterInfo", "NetworkSetting"]
    assert keys(i2pd.requests[3]) == list(names.KEYS)


async def test_a_router_that_was_away_is_met_anew(control: I2pControl, i2pd: SimulatedRouter) -> None:
    first = await control.local_router_status()
    await i2pd.stop()
    with pytest.raises(RouterUnreachableError):
        await control.local_router_status()
    assert control.kind is None
    await i2pd.start()
    i2pd.requests.clear()
    assert await control.local_router_status() == first
    assert keys(i2pd.requests[0]) == list(names.KEYS)
    assert i2pd.methods == ["RouterInfo", "NetworkSetting"]


async def test_another_router_at_the_same_place_is_noticed(control: I2pControl, i2pd: SimulatedRouter) -> None:
    await control.local_router_status()
    i2pd.order(result(i2p__router__version="2.8.0-0", i2p__router__net__status=3), "RouterInfo")
    status = await control.local_router_status()
    assert (status.version, status.reachability) == ("2.8.0-0", None)
    assert control.kind is None
    await control.local_router_status()
    assert keys(i2pd.requests[-1]) == list(names.KEYS)


async def test_what_is_missing_or_odd_is_none_and_noted_once(control: I2pControl, i2pd: SimulatedRouter) -> None:
    for _ in range(2):
        i2pd.order(
            result(
                i2p__router__net__tunnels__successrate=50,
                i2p__router__uptime="3000",
                i2p__router__version=["2"],
                i2p__router__net__status="7",
                i2p__router__netdb__knownpeers=-1,
                i2p__router__brand__new={"x": 1},
            ),
            "RouterInfo",
        )
        status = await control.local_router_status()
        assert status == RouterStatus(
            uptime_ms=3000, configured_inbound=1_024_000_000, configured_outbound=1_024_000_000
        )
    assert len(control.notes) == len(set(control.notes))
    for name in (names.VERSION, names.KNOWN_PEERS, names.INBOUND, names.ACTIVE_PEERS):
        assert [name in note for note in control.notes].count(True) == 1, name
    assert not [note for note in control.notes if "brand.new" in note]


async def test_notes_have_an_end(control: I2pControl, i2pd: SimulatedRouter) -> None:
    for number in range(MAX_NOTES + 5):
        i2pd.order(result(i2p__router__uptime=f"odd {number}"), "RouterInfo")
        await control.local_router_status()
    assert len(control.notes) == MAX_NOTES


async def test_without_its_settings_there_is_still_a_status(control: I2pControl, i2pd: SimulatedRouter) -> None:
    i2pd.order(error(-32603), "NetworkSetting")
    status = await control.local_router_status()
    assert (status.uptime_ms, status.configured_inbound, status.configured_outbound) == (UPTIME_MS, None, None)
    assert "NetworkSetting" in control.notes[0]


async def test_java_without_limits_or_lag(control_java: I2pControl, java: SimulatedRouter) -> None:
    java.order(result(i2p__router__net__bw__in=None, i2p__router__net__bw__out="60"), "NetworkSetting")
    java.order(error(-32603), "GetRate")
    status = await control_java.local_router_status()
    assert (status.configured_inbound, status.configured_outbound, status.job_lag_ms) == (None, 61_440, None)
    assert len(control_java.notes) == 1


async def test_without_its_information_there_is_none(control: I2pControl, i2pd: SimulatedRouter) -> None:
    i2pd.order(error(-32603), "RouterInfo")
    with pytest.raises(RouterRefusedError, match="RouterInfo"):
        await control.local_router_status()


# Leaves of a router ---------------------------------------------------------------------------------------------------


async def test_the_leaf_of_a_tunnel(control: I2pControl) -> None:
    assert await control.local_leaf_hash("check") == CHECK
    assert await control.local_leaf_hash("web.test") == WEB_TEST
    assert {each.name: each.hash() for each in await control.tunnels()} == {"check": CHECK, "web.test": WEB_TEST}


async def test_how_a_leaf_does(control: I2pControl) -> None:
    assert await control.local_leaf_status(CHECK) == LeafStatus(up=True, name="check")
    assert await control.local_leaf_status(WEB_TEST) == LeafStatus(up=True, name="web.test")
    assert await control.local_leaf_status(bytes(32)) == LeafStatus(up=False)


@pytest.mark.parametrize("name", ["web", "test", "Check", "", "check.address", "\x1b"])
async def test_no_such_tunnel(control: I2pControl, name: str) -> None:
    with pytest.raises(RouterRefusedError, match=r"no server tunnel .*'check'.*tunnels\.conf") as caught:
        await control.local_leaf_hash(name)
    assert str(caught.value).isprintable()


async def test_no_tunnels_at_all(control: I2pControl, i2pd: SimulatedRouter) -> None:
    for reply in (tunnels(), result(I2PTunnel=""), result(), result(I2PTunnel={"server": [1]})):
        i2pd.order(reply, "ClientServicesInfo")
        with pytest.raises(RouterRefusedError, match="none at all"):
            await control.local_leaf_hash("check")


async def test_a_tunnel_inside_the_name_of_another(control: I2pControl, i2pd: SimulatedRouter) -> None:
    inner = {"address": to_b32_address(bytes(32)), "port": "81"}
    i2pd.order(tunnels(web={"address": to_b32_address(CHECK), "port": "80", "test": inner}), "ClientServicesInfo")
    assert {each.name: each.hash() for each in await control.tunnels()} == {"web": CHECK, "web.test": bytes(32)}


async def test_an_address_that_is_a_name(control: I2pControl, i2pd: SimulatedRouter) -> None:
    for _ in range(2):
        i2pd.order(tunnels(check={"address": "shop.i2p", "port": "80"}), "ClientServicesInfo")
    with pytest.raises(RouterRefusedError, match=r"'shop\.i2p'.*Configure the leaf's destination"):
        await control.local_leaf_hash("check")
    assert await control.local_leaf_status(CHECK) == LeafStatus(up=False)


async def test_i2pd_is_not_asked_for_tunnels_unless_allowed(i2pd: SimulatedRouter, identity: Identity) -> None:
    control = I2pControl(I2pControlAccess(i2pd.url, PASSWORD, fingerprint=identity.fingerprint))
    with pytest.raises(RouterRefusedError, match="Configure the leaf's destination itself, or"):
        await control.local_leaf_hash("check")
    with pytest.raises(RouterRefusedError, match=f"at most {SAFE_TUNNELS} tunnels"):
        await control.local_leaf_status(CHECK)
    await control.close()
    assert i2pd.requests == []


async def test_a_list_of_tunnels_that_grows_is_not_asked_for_again(control: I2pControl, i2pd: SimulatedRouter) -> None:
    def some(count: int, letters: int) -> bytes:
        return tunnels(
            **{f"{number}".zfill(letters): {"address": to_b32_address(CHECK), "port": "80"} for number in range(count)}
        )

    i2pd.order(some(SAFE_TUNNELS, 60), "ClientServicesInfo")
    assert len(await control.tunnels()) == SAFE_TUNNELS
    i2pd.order(some(SAFE_TUNNELS + 2, 20), "ClientServicesInfo")
    assert len(await control.tunnels()) == SAFE_TUNNELS + 2
    asked = len(i2pd.requests)
    with pytest.raises(RouterRefusedError, match="not asked for its tunnels any more"):
        await control.tunnels()
    assert len(i2pd.requests) == asked


def test_one_more_tunnel_still_fits_into_i2pd() -> None:
    """Otherwise the client would notice too late."""
    around = len('{"id":1,"result":{\n},"jsonrpc":"2.0"}') + 128  # its HTTP head had 120 bytes
    another = len(f'"{"x" * 60}":{{"address":"{to_b32_address(CHECK)}","port":"65535"}},')
    assert SAFE_TUNNELS_BYTES + around + another <= 1024


async def test_java_does_not_tell_its_tunnels(control_java: I2pControl) -> None:
    with pytest.raises(RouterRefusedError, match=r"only i2pd does\..*Configure the leaf's destination"):
        await control_java.local_leaf_hash("check")


# Extensions -----------------------------------------------------------------------------------------------------------


async def test_any_method_can_be_asked(control: I2pControl) -> None:
    assert await control.call("ClientServicesInfo", {"SAM": None}) == {"SAM": {"enabled": "true", "sessions": ""}}


async def test_an_unknown_method_is_told_from_other_failures(control: I2pControl, i2pd: SimulatedRouter) -> None:
    i2pd.order(error(-32601), "PublishMetaLS")
    with pytest.raises(UnknownMethodError):
        await control.call("PublishMetaLS", {"lease": "set"})
    i2pd.order(error(-32602), "PublishMetaLS")
    with pytest.raises(RouterError) as caught:
        await control.call("PublishMetaLS", {"lease": "set"})
    assert not isinstance(caught.value, UnknownMethodError)
