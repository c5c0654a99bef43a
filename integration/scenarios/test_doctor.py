"""`gf-i2p doctor` beside real routers: no fault at first, then one fault at a time."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from bridges.errors import RouterError
from bridges.sam.client import Sam, SamSession
from gf_i2p.node.files.file_names import SECRETS_FILE
from integration.harness.local_farm import NotSeenError, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

SECONDS: Final = 480.0
"""Time for a restarted router to have tunnels and sessions, and to publish."""
ITS_OWN: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4"}
SETTINGS: Final = {
    "proxy": ("[httpproxy]: enabled = true", "'I2P HTTP Proxy'"),
    "SAM": ("[sam]: enabled = true", "'SAM application bridge'"),
    "I2CP": ("[i2cp]: enabled = true", "i2cp.disableInterface=false"),
    "i2pcontrol": ("[i2pcontrol]", "i2pcontrol_password"),
}
"""The remedy for each interface, for i2pd and for Java."""
WAITS_FOR: Final = {
    "proxy": {"server 2", "server 3", "time-outs"},
    "SAM": set[str](),
    "I2CP": {"clock", "own address", "leaf"},
    "i2pcontrol": set[str](),
}
"""The checks that are skipped without each interface."""


class Doctor:
    """Looks at server 1 of a farm."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checks: dict[str, Any] = {}

    async def look(self) -> bool:
        """Run the doctor; return whether no check fails."""
        command = [sys.executable, "-m", "gf_i2p.cli.main", "doctor", str(self.directory), "--json"]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode in {0, 1}, done
        answer = json.loads(done.stdout)
        assert answer["ok"] is (done.returncode == 0)
        self.checks = {check["name"]: check for check in answer["checks"]}
        return done.returncode == 0

    async def finds_all_well(self) -> bool:
        """Look; return whether every check is ok. A warning is no failure, but not ok either."""
        return await self.look() and self.having("ok") == set(self.checks)

    def having(self, state: str) -> set[str]:
        return {name for name, check in self.checks.items() if check["state"] == state}

    async def blames(self, name: str) -> bool:
        """Look; return whether this check fails and no other."""
        await self.look()
        return self.having("fail") == {name}


class ServiceDestination:
    """The service's own destination on one router. The session ends when the router or SAM stops."""

    def __init__(self, farm: I2pFarm, router: RouterPlace) -> None:
        self._farm = farm
        self._router = router
        self._session: SamSession | None = None

    async def come(self) -> None:
        self.close()
        await until("the leaf has a session", SECONDS, self._is_there, poll=1.0)

    async def _is_there(self) -> bool:
        """Try once. A router that has just started may not answer, or may refuse."""
        try:
            self._session = await Sam(self._router.address, SAM_PORT).session(self._farm.leaves[1], ITS_OWN)
        except RouterError as error:
            print(error)
            return False
        return True

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


async def seen(doctor: Doctor, what: str, condition: Any) -> None:
    try:
        await until(what, SECONDS, condition, poll=2)
    except NotSeenError:
        print(json.dumps(doctor.checks, indent=1))
        raise


@contextlib.asynccontextmanager
async def lacking(
    network: RouterNetwork, router: RouterPlace, interface: str, leaf: ServiceDestination
) -> AsyncIterator[None]:
    """Run the router without one interface."""
    await network.stop(router)
    try:
        await network.start(router, **{interface: False})
        if interface != "sam":
            await leaf.come()
        yield
    finally:
        await network.stop(router)
        await network.start(router, **{interface: True})


@pytest.mark.slow  # every fault by itself
@pytest.mark.timeout(3600)
async def test_what_is_well_and_each_fault_by_itself(network: RouterNetwork, tmp_path: Path) -> None:
    routers = [router for router in network.routers if not router.floodfill][:3]
    with (
        I2pFarm(tmp_path, routers, password=network.password) as farm,
        contextlib.closing(ServiceDestination(farm, routers[0])) as leaf,
    ):
        farm.place()
        farm.start_all()
        doctor = Doctor(farm.node(1))
        await leaf.come()
        await farm.leader(SECONDS)

        await seen(doctor, "all is well", doctor.finds_all_well)
        assert doctor.checks["I2CP"]["text"].startswith("i2pd at ")
        assert "follows server" in doctor.checks["node"]["text"] or "leads" in doctor.checks["node"]["text"]

        secrets = doctor.directory / SECRETS_FILE
        text = secrets.read_text()
        secrets.write_text(text.replace(network.password, "not-the-password"))
        await seen(doctor, "i2pcontrol and nothing else is blamed", lambda: doctor.blames("i2pcontrol"))
        named(doctor, "i2pcontrol")
        assert "not-the-password" not in json.dumps(doctor.checks)
        secrets.write_text(text)

        for interface, name in (("i2cp", "I2CP"), ("proxy", "proxy"), ("sam", "SAM")):
            async with lacking(network, routers[0], interface, leaf):
                await seen(doctor, f"{name} and nothing else is blamed", lambda name=name: doctor.blames(name))
                named(doctor, name)
            leaf.close()

        await leaf.come()
        await seen(doctor, "all is well again", doctor.look)


def named(doctor: Doctor, name: str) -> None:
    """Check that the remedy is named. Dependent checks are skipped, and all other checks have run."""
    remedy = doctor.checks[name]["remedy"]
    assert SETTINGS[name][0] in remedy["i2pd"]
    assert SETTINGS[name][1] in remedy["java"]
    assert doctor.having("skip") == WAITS_FOR[name]
