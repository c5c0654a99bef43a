"""Whether a lease set is current, by I2CP: bridges/i2cp/host_lookup.py."""

from dataclasses import replace

import pytest

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.settings import RouterKind
from tests.bridges.i2cp.fake_router import PATIENT, FakeRouter, deadlines_after_the_greeting
from tests.netdb.strategies import KEYS
from tests.transport.harness import soon

KINDS = [RouterKind.I2PD, RouterKind.JAVA]
HASH = KEYS.destination.hash


@pytest.mark.parametrize("kind", KINDS)
async def test_a_lease_set_is_there_while_the_router_finds_it(kind: RouterKind) -> None:
    async with FakeRouter(kind) as router:
        assert await soon(has_lease_set(router.settings(), HASH)) is False
        router.netdb[HASH] = KEYS.destination
        assert await soon(has_lease_set(router.settings(), HASH)) is True
        assert router.looked_for == [HASH, HASH]
        assert router.sessions == {}


async def test_an_answer_about_another_destination_is_refused() -> None:
    async with FakeRouter(RouterKind.I2PD) as router:
        router.netdb[bytes(32)] = KEYS.destination
        with pytest.raises(RouterError, match="another destination"):
            await soon(has_lease_set(router.settings(), bytes(32)))


async def test_a_router_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines_after_the_greeting(monkeypatch)
    async with FakeRouter(RouterKind.JAVA) as router:
        router.deaf = {38}
        with pytest.raises(RouterUnreachableError, match=r"did not answer a look-up within 0\.05 s"):
            await soon(has_lease_set(router.settings(), HASH, seconds=0.05))


async def test_a_router_that_asks_for_a_login() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        router.login = {"i2cp.username": "node", "i2cp.password": "open sesame"}
        with pytest.raises(RouterRefusedError, match="set the user name and password"):
            await soon(has_lease_set(router.settings(), HASH))
        router.netdb[HASH] = KEYS.destination
        settings = replace(router.settings(), username="node", password="open sesame", deadlines=PATIENT)
        assert await soon(has_lease_set(settings, HASH)) is True
