"""i2pcontrol requests to real routers."""

import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import pytest

from bridges.errors import RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.jsonrpc_client import CertificateError, UnknownMethodError
from bridges.i2pcontrol.router_answers import RouterProgram
from bridges.i2pcontrol.router_status import I2pControl
from gf_i2p.farm.record.router_facts import LeafStatus, Reachability, RouterStatus
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.harness.local_farm import until
from integration.testnet.router import HTTP_PORT, I2PCONTROL_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

SECONDS: Final = 240.0
"""Time for a router that was just started to answer, and to know all other routers."""

pytestmark = pytest.mark.timeout(900)


async def answered(control: I2pControl) -> list[RouterStatus]:
    """Return the router's status in a list; an empty list while the router does not answer."""
    try:
        return [await control.local_router_status()]
    except RouterUnreachableError as error:
        print(error)
        return []


async def seen_by(waiting: Awaitable[None], seen: Sequence[object]) -> None:
    """Wait, and print the last states seen, also after a failure."""
    try:
        await waiting
    finally:
        print(*seen[-3:], sep="\n")


@asynccontextmanager
async def asking(router: RouterPlace, password: str, pin: str | None) -> AsyncIterator[I2pControl]:
    """Give a client of the router's i2pcontrol."""
    url = f"https://{router.address}:{I2PCONTROL_PORT}/"
    control = I2pControl(I2pControlAccess(url, password, fingerprint=pin), ask_for_tunnels=True)
    try:
        yield control
    finally:
        await control.close()


async def test_the_status_of_a_router(network: RouterNetwork) -> None:
    """The status has the facts of every router of this network, and the figures of the traffic."""
    seen: list[RouterStatus] = []

    async with asking(network.routers[0], network.password, network.routers[0].fingerprint) as control:

        async def meets_the_others() -> bool:
            seen.extend(await answered(control))
            return bool(
                seen
                and seen[-1].active_peers
                and seen[-1].current_inbound
                and seen[-1].current_outbound
                and seen[-1].known_peers == len(network.routers)
            )

        await seen_by(until("it talks with others", SECONDS, meets_the_others), seen)
        status = seen[-1]
        print(status, control.notes)
        assert control.kind is RouterProgram.I2PD
        assert control.notes == ()
        assert status.version is not None
        assert re.fullmatch(r"2\.\d+\.\d+", status.version)
        assert status.reachability in {Reachability.OK, Reachability.TESTING, Reachability.UNKNOWN}
        assert status.uptime_ms is not None
        assert status.uptime_ms >= 1000
        assert (status.configured_inbound, status.configured_outbound) == (1_024_000_000, 1_024_000_000)  # class X
        assert status.known_peers == len(network.routers)
        assert status.active_peers is not None
        assert status.active_peers < len(network.routers)
        assert status.participating_tunnels is not None
        assert (status.job_lag_ms, status.exploratory_tunnels) == (None, None)
        with pytest.raises(UnknownMethodError):
            await control.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": 60_000})


async def test_every_router_says_what_its_console_says(network: RouterNetwork) -> None:
    """The console has words for the network status. i2pcontrol has numbers that mean different things by version."""
    async with aiohttp.ClientSession() as web:
        for router in network.routers:
            async with asking(router, network.password, router.fingerprint) as control:
                seen: list[tuple[int, str, Reachability | None, int | None]] = []

                async def they_agree(
                    router: RouterPlace = router,
                    control: I2pControl = control,
                    seen: list[tuple[int, str, Reachability | None, int | None]] = seen,
                ) -> bool:
                    """Ask both. The status may change in between, and a router that just started may not answer."""
                    for status in await answered(control):
                        try:
                            async with web.get(f"http://{router.address}:{HTTP_PORT}/") as response:
                                words = re.search(r"Network status:</b> (\w+)", await response.text())
                        except aiohttp.ClientError as error:
                            print(error)
                            return False
                        assert words is not None
                        seen.append((router.number, words[1].lower(), status.reachability, status.known_peers))
                        return seen[-1][1] == seen[-1][2] and status.known_peers == len(network.routers)
                    return False

                await seen_by(until("they agree", SECONDS, they_agree, poll=0.5), seen)


async def test_a_wrong_password(network: RouterNetwork) -> None:
    """The router refuses a wrong password, and takes the right one afterwards."""
    router = network.routers[1]
    async with asking(router, network.password + "x", router.fingerprint) as control:
        with pytest.raises(RouterRefusedError, match="refuses the password"):
            await control.local_router_status()
    async with asking(router, network.password, router.fingerprint) as control:
        assert (await control.local_router_status()).uptime_ms


@pytest.mark.slow  # restarts a router
async def test_a_router_that_is_stopped_and_started_again(network: RouterNetwork) -> None:
    """The same client serves before and after the restart."""
    router = network.routers[-2]
    async with asking(router, network.password, router.fingerprint) as control:
        states: list[RouterStatus] = []

        async def answers() -> bool:
            states.extend(await answered(control))
            return bool(states)

        await until("it answers", SECONDS, answers, poll=0.5)
        (before,) = states
        states.clear()
        await network.stop(router)
        with pytest.raises(RouterUnreachableError, match="does not answer"):
            await control.local_router_status()
        began = time.monotonic()
        await network.start(router)
        await until("it answers again", SECONDS, answers, poll=0.5)
        (after,) = states
        print(before, after)
        assert before.uptime_ms is not None
        assert after.uptime_ms is not None
        assert after.uptime_ms <= (time.monotonic() - began + 1) * 1000, "its uptime is in whole seconds"
        assert after.version == before.version


async def test_only_the_router_with_the_right_certificate_hears_the_password(network: RouterNetwork) -> None:
    """i2pd writes each wrong password into the log. So the log shows the passwords that i2pd has received."""
    router = network.routers[2]
    log = router.directory / "i2pd.log"
    for_a_stranger, for_the_right_one = secrets.token_hex(8), secrets.token_hex(8)

    async def heard() -> bool:
        return for_the_right_one in log.read_text()

    async with asking(router, for_a_stranger, "00" * 32) as control:
        with pytest.raises(CertificateError, match="another certificate") as caught:
            await control.local_router_status()
    assert f"sha256:{caught.value.fingerprint.replace(':', '').lower()}" == router.fingerprint
    async with asking(router, for_the_right_one, router.fingerprint) as control:
        with pytest.raises(RouterRefusedError, match="refuses the password"):
            await control.local_router_status()
    await until("the router has logged what it heard", SECONDS, heard)
    assert for_a_stranger not in log.read_text()


async def test_without_a_pin_the_error_shows_what_to_configure(network: RouterNetwork) -> None:
    """The fingerprint in the error message works as the pin."""
    router = network.routers[3]
    async with asking(router, network.password, None) as stranger:
        with pytest.raises(CertificateError, match="no fingerprint is configured") as caught:
            await stranger.local_router_status()
    async with asking(router, network.password, caught.value.fingerprint) as control:
        assert (await control.local_router_status()).uptime_ms


async def test_the_leaf_behind_a_server_tunnel(network: RouterNetwork) -> None:
    """The tunnel's name leads to the destination whose keys lie in the router's directory."""
    router = network.routers[0]
    expected = DestinationKeys.parse((router.directory / "check.dat").read_bytes()).destination
    async with asking(router, network.password, router.fingerprint) as control:
        assert await control.local_leaf_hash("check") == expected.hash
        assert await control.local_leaf_status(expected.hash) == LeafStatus(up=True, name="check")
        assert await control.local_leaf_status(bytes(32)) == LeafStatus(up=False)
        with pytest.raises(RouterRefusedError, match="'check'"):
            await control.local_leaf_hash("another")
    async with asking(network.routers[1], network.password, network.routers[1].fingerprint) as control:
        with pytest.raises(RouterRefusedError, match="none at all"):
            await control.local_leaf_hash("check")
