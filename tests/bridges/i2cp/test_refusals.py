"""Sessions that routers refuse, and the messages to the operator: bridges/i2cp/refusals.py."""

from dataclasses import replace
from typing import Final

import pytest

from bridges.errors import RouterError, RouterRefusedError
from bridges.i2cp.publication_status import I2cpPhase
from bridges.i2cp.publisher import I2cpPublisher
from bridges.i2cp.refusals import session_refused
from bridges.i2cp.settings import I2cpSettings, RouterKind
from bridges.router_protocol import Publication
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SessionConfig, session_config
from tests.bridges.i2cp.fake_router import Clock, FakeRouter
from tests.bridges.i2cp.test_publisher import lease_set
from tests.netdb.strategies import DELEGATED, KEYS, NOW, entropy
from tests.transport.harness import soon

BY_MASTER: Final = session_config(KEYS, NOW * 1000)
BY_TRANSIENT: Final = session_config(DELEGATED, NOW * 1000)
BROKEN: Final = BY_MASTER[:-1] + bytes([BY_MASTER[-1] ^ 1])


async def refusal(router: FakeRouter, session: bytes, keys: DestinationKeys = KEYS) -> str:
    """Return the message that the operator gets when the router refuses."""
    publisher = I2cpPublisher(router.settings(), clock=router.clock)
    with pytest.raises(RouterRefusedError) as caught:
        await soon(publisher.publish_meta_lease_set(Publication(lease_set(int(router.clock.now), keys), session)))
    assert publisher.published(KEYS.destination.hash).reason in {"", str(caught.value)}
    assert publisher.published(KEYS.destination.hash).phase is not I2cpPhase.SENT
    await soon(publisher.close())
    return str(caught.value)


async def test_i2pd_takes_no_config_that_a_transient_key_has_signed() -> None:
    async with FakeRouter(RouterKind.I2PD) as router:
        said = await refusal(router, BY_TRANSIENT, DELEGATED)
    assert KEYS.destination.b32 in said
    assert "SessionStatus 3 (invalid): the session config is signed by a transient key, and i2pd takes only" in said


async def test_i2pd_takes_an_old_config_of_the_master_for_a_set_of_the_transient_key() -> None:
    clock = Clock()
    clock.now += 30_000
    async with FakeRouter(RouterKind.I2PD, clock) as router:
        publisher = I2cpPublisher(router.settings(), clock=clock)
        await soon(publisher.publish_meta_lease_set(Publication(lease_set(NOW + 30_000, DELEGATED), BY_MASTER)))
        await soon(publisher.close())
        assert [stored.offline for stored in router.stored] == [DELEGATED.offline]


@pytest.mark.parametrize("kind", [RouterKind.I2PD, RouterKind.JAVA])
@pytest.mark.parametrize("told", [True, False])
async def test_of_two_configs_each_router_is_shown_the_one_that_it_takes(kind: RouterKind, told: bool) -> None:
    clock = Clock()
    clock.now += 30_000
    fresh = session_config(DELEGATED, (NOW + 30_000) * 1000)
    async with FakeRouter(kind, clock) as router:
        publisher = I2cpPublisher(router.settings(**({"kind": kind} if told else {})), clock=clock)
        await soon(publisher.publish_meta_lease_set(Publication(lease_set(NOW + 30_000, DELEGATED), fresh, BY_MASTER)))
        [session] = router.sessions.values()
        assert session.config.data == (BY_MASTER if kind is RouterKind.I2PD else fresh)
        await soon(publisher.close())


async def test_no_session_is_opened_when_either_config_is_broken_or_another_destinations() -> None:
    other = session_config(DestinationKeys.generate(entropy(9)), NOW * 1000)
    async with FakeRouter(RouterKind.JAVA) as router:
        publisher = I2cpPublisher(router.settings(), clock=router.clock)
        for signed, why in ((other, "its config is for"), (BY_MASTER[:-1], "its config is broken")):
            with pytest.raises(RouterRefusedError, match=why):
                await soon(publisher.publish_meta_lease_set(Publication(lease_set(), BY_MASTER, signed)))
        assert "create" not in router.log
        await soon(publisher.close())


async def test_java_takes_a_config_that_a_transient_key_has_signed() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        publisher = I2cpPublisher(router.settings(), clock=router.clock)
        await soon(publisher.publish_meta_lease_set(Publication(lease_set(NOW, DELEGATED), BY_TRANSIENT)))
        await soon(publisher.close())
        assert len(router.stored) == 1


@pytest.mark.parametrize("kind", [RouterKind.I2PD, RouterKind.JAVA])
async def test_a_broken_signature(kind: RouterKind) -> None:
    async with FakeRouter(kind) as router:
        assert "is not signed by the destination's own key: make it anew" in await refusal(router, BROKEN)


@pytest.mark.parametrize(
    ("kind", "where"), [(RouterKind.I2PD, "tunnels.conf"), (RouterKind.JAVA, "Hidden Services Manager")]
)
async def test_a_destination_that_another_client_holds(kind: RouterKind, where: str) -> None:
    async with FakeRouter(kind) as router:
        other = I2cpPublisher(router.settings(), clock=router.clock)
        await soon(other.publish_meta_lease_set(Publication(lease_set(), BY_MASTER)))
        said = await refusal(router, BY_MASTER)
        assert "another client of this router holds the destination" in said
        assert where in said
        assert other.published(KEYS.destination.hash).phase is I2cpPhase.SENT
        await soon(other.close())


@pytest.mark.parametrize(("step", "words"), [(200, "before"), (-200, "after")])
async def test_java_takes_no_config_of_another_time(step: int, words: str) -> None:
    clock = Clock()
    clock.now += step
    async with FakeRouter(RouterKind.JAVA, clock) as router:
        said = await refusal(router, BY_MASTER)
    assert f"date is 200 s {words} the router's clock, and Java allows 180 s" in said
    assert "check the clocks" in said


async def test_java_wants_a_password_for_a_session() -> None:
    async with FakeRouter(RouterKind.JAVA) as router:
        router.login = {"i2cp.username": "node", "i2cp.password": "secret"}
        assert "set the user name and password" in await refusal(router, BY_MASTER)


def test_java_takes_no_other_crypto_type() -> None:
    destination = Destination.parse(KEYS.destination.data[:-1] + b"\x04")
    config = replace(SessionConfig.parse(BY_MASTER), destination=destination)
    error = session_refused(I2cpSettings(), RouterKind.JAVA, config, NOW * 1000, "Non-ElGamal encryption type")
    assert "crypto type is 4, and Java takes only 0" in str(error)


def test_a_refusal_that_nobody_foresaw_still_says_where_to_look() -> None:
    config = SessionConfig.parse(BY_MASTER)
    assert "log" in str(session_refused(I2cpSettings(), RouterKind.JAVA, config, NOW * 1000, "Out of cheese"))
    unknown = session_refused(I2cpSettings(), RouterKind.I2PD, config, NOW * 1000, 9)
    assert "SessionStatus 9 (unknown): see the router's log" in str(unknown)
    skewed = session_refused(I2cpSettings(), RouterKind.JAVA, config, NOW * 1000, "client clock skew? 3 min")
    assert "check the clocks" in str(skewed)
    late = session_refused(I2cpSettings(), RouterKind.JAVA, config, (NOW + 200) * 1000, "Invalid signature")
    assert "200 s before the router's clock" in str(late)
    delegated = SessionConfig.parse(BY_TRANSIENT)
    assert "authorisation" in str(session_refused(I2cpSettings(), RouterKind.JAVA, delegated, NOW * 1000, "no"))


async def test_a_config_for_another_destination_opens_nothing() -> None:
    other = DestinationKeys.generate(entropy(5))
    async with FakeRouter(RouterKind.I2PD) as router:
        said = await refusal(router, session_config(other, NOW * 1000))
        assert other.destination.b32 in said
        assert KEYS.destination.b32 in said
        assert router.log == []


@pytest.mark.parametrize("session", [b"", BY_MASTER[:-1], BY_MASTER + b"x"])
async def test_what_is_no_config_opens_nothing(session: bytes) -> None:
    async with FakeRouter(RouterKind.I2PD) as router:
        assert "its config is broken" in await refusal(router, session)
        assert router.log == []


def test_a_refusal_is_a_router_error() -> None:
    assert issubclass(RouterRefusedError, RouterError)
