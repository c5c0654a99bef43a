"""The served bridge: callers, forwarded calls, additions: bridges/serving/bridge_server.py."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import structlog

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol.extension import Method
from bridges.router import NO_CONNECTIONS
from bridges.serving import bridge_server, caller_access
from bridges.serving.jsonrpc_server import CallError
from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.fake_bridge import LEAF
from tests.bridges.serving.harness import MASTER, PASSWORD, Served, about, published, serving
from tests.bridges.simulated_i2pcontrol import PASSWORD as ROUTER_PASSWORD
from tests.bridges.simulated_i2pcontrol import SimulatedRouter, body, error, result
from tests.netdb.strategies import DELEGATED, NOW
from tests.transport.harness import Identity, soon, until


@pytest_asyncio.fixture
async def plain() -> AsyncIterator[Served]:
    """An endpoint without TLS, and without a router's i2pcontrol."""
    async with serving() as served:
        yield served


@pytest_asyncio.fixture
async def served(i2pd: SimulatedRouter, identity: Identity, tls: ssl.SSLContext) -> AsyncIterator[Served]:
    async with serving(i2pd, identity, tls) as running:
        yield running


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# Callers --------------------------------------------------------------------------------------------------------------


async def test_the_password_buys_a_token(plain: Served) -> None:
    answer = await plain.ask("Authenticate", API=1, Password=PASSWORD)
    assert (answer["id"], answer["jsonrpc"], answer["result"]["API"]) == (1, "2.0", 1)
    token = answer["result"]["Token"]
    assert len(token) >= 32
    assert "result" in await plain.ask(Method.PUBLICATION, **about(), Token=token)


@pytest.mark.parametrize("password", ["wrong", PASSWORD + "x", PASSWORD[:-1], "", None, 1, [PASSWORD], "\ud800"])
async def test_a_wrong_password(plain: Served, password: Any) -> None:
    answer = await plain.ask("Authenticate", API=1, Password=password)
    assert answer["error"]["code"] == -32001


@pytest.mark.parametrize(("api", "code"), [(None, -32005), (2, -32006), ("1", -32006), (True, -32006), (1.0, -32006)])
async def test_only_api_1(plain: Served, api: Any, code: int) -> None:
    assert (await plain.ask("Authenticate", API=api, Password=PASSWORD))["error"]["code"] == code
    # A caller without the password does not learn which versions there are.
    assert (await plain.ask("Authenticate", API=api, Password="wrong"))["error"]["code"] == -32001


async def test_without_a_token_all_methods_answer_alike(served: Served, i2pd: SimulatedRouter) -> None:
    for token, code in ((None, -32002), ("made up", -32003), (7, -32003), ([], -32003)):
        answers = {
            json.dumps(await served.ask(method, Token=token))
            for method in ("NoSuchMethod", "RouterInfo", "I2PControl", "ClientServicesInfo", *Method)
        }
        assert len(answers) == 1
        assert json.loads(answers.pop())["error"]["code"] == code
    assert i2pd.requests == []
    assert served.bridge.published == []


async def test_a_token_ends_after_a_day() -> None:
    clock = Clock()
    async with serving(clock=clock) as plain:
        assert "result" in await plain.call(Method.ROUTER_STATUS)
        clock.now += caller_access.TOKEN_SECONDS - 1
        assert "result" in await plain.call(Method.ROUTER_STATUS)
        clock.now += 1
        assert await plain.code(Method.ROUTER_STATUS) == -32004
        assert await plain.code(Method.ROUTER_STATUS) == -32003


async def test_tokens_have_an_end(plain: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_access, "MAX_TOKENS", 2)
    tokens = [(await plain.ask("Authenticate", API=1, Password=PASSWORD))["result"]["Token"] for _ in range(3)]
    answers = [await plain.ask(Method.PUBLICATION, **about(), Token=token) for token in tokens]
    assert ["result" in answer for answer in answers] == [False, True, True]


async def test_the_right_password_gets_in_after_any_number_of_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise any process on this machine could lock the right caller out."""
    monkeypatch.setattr(caller_access, "PAUSE_SECONDS", 0.0)
    async with serving(clock=Clock()) as plain:
        for _ in range(3 * caller_access.FREE_TRIES):
            assert (await plain.ask("Authenticate", API=1, Password="wrong"))["error"]["code"] == -32001
        assert "result" in await plain.ask("Authenticate", API=1, Password=PASSWORD)


async def test_answers_to_guesses_are_slow_and_the_right_password_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caller_access, "PAUSE_SECONDS", 600.0)
    clock = Clock()
    access = caller_access.CallerAccess(PASSWORD, clock)

    async def wrong() -> None:
        with pytest.raises(CallError):
            await access.authenticate("wrong", "here")

    for _ in range(caller_access.FREE_TRIES):
        await wrong()
    slow = asyncio.create_task(wrong())
    await asyncio.sleep(0)
    assert await access.authenticate(PASSWORD, "here")
    assert not slow.done()
    slow.cancel()
    clock.now += 2 * caller_access.TRY_SECONDS
    await wrong()


def test_sources_are_throttled_apart_and_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_access, "MAX_SOURCES", 3)
    clock = Clock()
    throttle = caller_access.Throttle(clock)
    for source in ("a", "b", "c", "d", "e"):
        for _ in range(caller_access.FREE_TRIES // 2):
            assert not throttle.wrong(source)
    assert not throttle.wrong("a")
    assert throttle.wrong("f"), "sources beyond the limit share one count"
    clock.now += caller_access.TRY_SECONDS * caller_access.FREE_TRIES * 2
    assert not throttle.wrong("f")


async def test_no_secret_is_logged_or_told(served: Served, i2pd: SimulatedRouter) -> None:
    with structlog.testing.capture_logs() as logs:
        told = [await served.ask("Authenticate", API=1, Password="a wrong one")]
        for order in (result(Result="gf"), error(-32603), b"garbage", b""):
            i2pd.order(order, "Echo")
            told.append(await served.call("Echo", Echo="gf"))
        served.bridge.error = ValueError("secret of a defect")
        told.append(await served.call(Method.ROUTER_STATUS))
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["a wrong password was given"]
    text = json.dumps(told)
    for secret in (PASSWORD, ROUTER_PASSWORD, "a wrong one", "secret of a defect"):
        assert secret not in text
    assert told[-1]["error"]["code"] == -32603
    for secret in (PASSWORD, "a wrong one"):
        assert secret not in repr(logs)


# Forwarded calls ------------------------------------------------------------------------------------------------------


async def test_the_routers_own_methods(served: Served, i2pd: SimulatedRouter) -> None:
    assert (await served.call("Echo", Echo="gf"))["result"] == {"Result": "gf"}
    settings = await served.call("NetworkSetting", **{"i2p.router.net.bw.in": None, "i2p.router.net.bw.out": None})
    assert settings["result"] == {"i2p.router.net.bw.in": 1_000_000, "i2p.router.net.bw.out": 1_000_000}
    i2pd.order(result(i2p__router__version="2.45.1"), "RouterInfo")
    info = await served.call("RouterInfo", **{"i2p.router.version": None})
    assert info["result"] == {"i2p.router.version": "2.45.1"}
    i2pd.order(result(Shutdown=None), "RouterManager")
    assert (await served.call("RouterManager", Shutdown=None))["result"] == {"Shutdown": None}
    assert await served.code("GetRate", Stat="x", Period=1) == -32601, "as the router says"
    assert i2pd.methods == ["Authenticate", "Echo", "NetworkSetting", "RouterInfo", "RouterManager", "GetRate"]


async def test_our_token_and_password_do_not_reach_the_router(served: Served, i2pd: SimulatedRouter) -> None:
    await served.call("Echo", Echo="gf")
    own = (await served.ask("Authenticate", API=1, Password=PASSWORD))["result"]["Token"]
    await served.ask("Echo", Echo="gf", Token=own)
    sent = b"".join(i2pd.requests).decode()
    assert own not in sent
    assert PASSWORD not in sent
    router_token = body(i2pd.requests[1])["params"]["Token"]
    assert router_token not in json.dumps(await served.call("Echo", Echo="gf"))


async def test_what_could_kill_or_lock_out_the_router_is_not_passed_on(served: Served, i2pd: SimulatedRouter) -> None:
    for params in ({"I2PTunnel": None}, {"SAM": None}, {"I2CP": None, "SAM": None}):
        answer = await served.call("ClientServicesInfo", **params)
        assert answer["error"]["code"] == -32010
        assert "i2pd would write a long list past the end of a buffer" in answer["error"]["message"]
    assert await served.code("I2PControl", **{"i2pcontrol.password": "mine"}) == -32010
    assert i2pd.requests == []
    i2pd.order(result(I2CP={"enabled": "true"}), "ClientServicesInfo")
    assert "result" in await served.call("ClientServicesInfo", I2CP=None)


async def test_lists_of_tunnels_when_the_operator_allows_them(
    i2pd: SimulatedRouter, identity: Identity, tls: ssl.SSLContext
) -> None:
    async with serving(i2pd, identity, tls, allow_long_lists=True) as served:
        assert "I2PTunnel" in (await served.call("ClientServicesInfo", I2PTunnel=None))["result"]
        assert "SAM" in (await served.call("ClientServicesInfo", SAM=None))["result"]
        assert await served.code("ClientServicesInfo", SAM=None, I2PTunnel=None) == -32010


@pytest.mark.parametrize("code", [-32001, -32002, -32003, -32004, -32010, 5])
async def test_the_routers_opinion_of_our_password_is_not_taken_for_ours(
    served: Served, i2pd: SimulatedRouter, code: int
) -> None:
    """Otherwise a caller would authenticate anew, for ever."""
    for _ in range(2):  # the second time with a fresh token
        i2pd.order(error(code), "Echo")
    answer = await served.call("Echo", Echo="gf")
    assert answer["error"]["code"] == -32010


async def test_a_router_that_is_away(served: Served, i2pd: SimulatedRouter) -> None:
    await i2pd.stop()
    assert await served.code("Echo", Echo="gf") == -32011
    await i2pd.start()
    assert "result" in await served.call("Echo", Echo="gf")


async def test_a_router_that_is_silent(served: Served, i2pd: SimulatedRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_server, "LOCAL_SECONDS", 0.2)
    i2pd.order(None, "Echo")
    assert await served.code("Echo", Echo="gf") == -32013


async def test_a_router_that_talks_nonsense(served: Served, i2pd: SimulatedRouter) -> None:
    i2pd.order(result()[:-1], "Echo")
    assert await served.code("Echo", Echo="gf") in {-32011, -32012}
    assert await served.code("Echo", Echo="x" * 1024) == -32012, "more than i2pd reads"


async def test_without_i2pcontrol_there_are_only_our_methods(plain: Served) -> None:
    assert await plain.code("RouterInfo", **{"i2p.router.version": None}) == -32601
    assert "result" in await plain.call(Method.ROUTER_STATUS)


# Additions ------------------------------------------------------------------------------------------------------------


async def test_the_status_of_the_router(plain: Served) -> None:
    assert (await plain.call(Method.ROUTER_STATUS))["result"] == {
        "UptimeMs": 3000,
        "Version": "2.45.1",
        "Reachability": "ok",
        "ParticipatingTunnels": None,
        "ExploratoryTunnels": None,
        "JobLagMs": None,
        "ConfiguredInbound": None,
        "ConfiguredOutbound": None,
        "CurrentInbound": 1.5,
        "CurrentOutbound": None,
        "KnownPeers": None,
        "ActivePeers": None,
        "LastPublishedRi": None,
    }


async def test_leaves(plain: Served) -> None:
    both = {"LeafHash": to_base64(LEAF), "Address": to_b32_address(LEAF)}
    assert (await plain.call(Method.LEAF_HASH, **about()))["result"] == both
    assert (await plain.call(Method.LEAF_HASH, **about(), Place=0))["result"] == both
    assert (await plain.call(Method.LEAF_HASH, **about(), Place=1))["result"] == {"LeafHash": None, "Address": None}
    for place in (-1, 256, True, 0.0, "0"):
        assert await plain.code(Method.LEAF_HASH, **about(), Place=place) == -32602
    plain.bridge.leaf = None
    assert (await plain.call(Method.LEAF_HASH, **about()))["result"] == {"LeafHash": None, "Address": None}
    up = {"Up": True, "Destination": None, "Name": "shop", "Connections": None}
    up |= {"NameReason": None, "ConnectionsReason": NO_CONNECTIONS}
    for leaf in both.values():
        assert (await plain.call(Method.LEAF_STATUS, LeafHash=leaf))["result"] == up
    assert (await plain.call(Method.LEAF_STATUS, LeafHash=to_base64(bytes(32))))["result"]["Up"] is False


async def test_a_measurement(plain: Served) -> None:
    expected = {"LeaseSetSeconds": 0.5, "ConnectSeconds": None, "Error": "it hung up"}
    assert (await plain.call(Method.MEASURE, Hash=to_base64(MASTER)))["result"] == expected


async def test_measurements_are_few_and_end_with_their_time_or_their_caller(plain: Served) -> None:
    plain.bridge.go_on.clear()
    await plain.call(Method.PUBLICATION, **about())
    hash_ = to_base64(MASTER)
    assert await plain.code(Method.MEASURE, Hash=hash_, Timeout=0.05) == -32013
    assert plain.bridge.measuring == 0
    calls = [asyncio.create_task(plain.call(Method.MEASURE, Hash=hash_)) for _ in range(bridge_server.MAX_MEASUREMENTS)]
    await until(lambda: plain.bridge.measuring == bridge_server.MAX_MEASUREMENTS)
    assert await plain.code(Method.MEASURE, Hash=hash_) == -32014
    for call in calls:
        call.cancel()
    await until(lambda: plain.bridge.measuring == 0)
    await until(lambda: plain.server.http.connections == 0)


async def test_publishing(plain: Served) -> None:
    assert (await plain.call(Method.PUBLICATION, **about()))["result"]["State"] == "idle"
    sent = {"State": "sent", "Reason": None, "Published": NOW, "Expires": NOW + 3600}
    assert (await plain.call(Method.PUBLISH, **published()))["result"] == sent
    assert (await plain.call(Method.PUBLICATION, **about()))["result"] == sent
    newer = await plain.call(Method.PUBLISH, **published(NOW + 1))
    assert newer["result"]["Published"] == NOW + 1
    given = plain.bridge.published
    assert [each.lease_set.published for each in given] == [NOW, NOW + 1]
    assert to_base64(given[0].session) == published()["SessionConfig"]
    assert (await plain.call(Method.STOP, **about()))["result"]["State"] == "idle"
    assert plain.bridge.stopped == [MASTER]
    assert (await plain.call(Method.STOP, **about()))["result"]["State"] == "idle", "nothing happens if nothing is"


async def test_a_set_that_a_transient_key_has_signed(plain: Served) -> None:
    assert (await plain.call(Method.PUBLISH, **published(keys=DELEGATED)))["result"]["State"] == "sent"


async def test_publishing_goes_on_when_the_call_has_ended(plain: Served) -> None:
    plain.bridge.go_on.clear()
    opening = {"State": "opening", "Reason": None, "Published": None, "Expires": None}
    assert (await plain.call(Method.PUBLISH, **published(), Timeout=0.05))["result"] == opening
    assert (await plain.call(Method.PUBLICATION, **about()))["result"] == opening
    assert await plain.code(Method.PUBLISH, **published()) == -32014, "one by one"
    plain.bridge.go_on.set()
    await until(lambda: plain.bridge.published)
    assert (await plain.call(Method.PUBLICATION, **about()))["result"]["State"] == "sent"


async def test_publishing_goes_on_without_its_caller(plain: Served) -> None:
    await plain.call(Method.ROUTER_STATUS)
    plain.bridge.go_on.clear()
    call = asyncio.create_task(plain.call(Method.PUBLISH, **published()))
    await until(lambda: plain.server.publications.state(MASTER).state == "opening")
    call.cancel()
    await until(lambda: plain.server.http.connections == 0)
    plain.bridge.go_on.set()
    await until(lambda: plain.server.publications.state(MASTER).state == "sent")


async def test_publishing_that_is_stopped(plain: Served) -> None:
    plain.bridge.go_on.clear()
    await plain.call(Method.PUBLICATION, **about())
    call = asyncio.create_task(plain.call(Method.PUBLISH, **published()))
    await until(lambda: plain.server.publications.state(MASTER).state == "opening")
    assert (await plain.call(Method.STOP, **about()))["result"]["State"] == "idle"
    assert (await soon(call))["error"] == {"code": -32012, "message": "publishing was stopped meanwhile"}
    assert plain.server.publications.state(MASTER).state == "idle"


@pytest.mark.parametrize(
    ("raised", "code"),
    [(RouterRefusedError("no"), -32010), (RouterUnreachableError("away"), -32011), (RouterError("odd"), -32012)],
)
async def test_a_router_that_fails(plain: Served, raised: RouterError, code: int) -> None:
    plain.bridge.error = raised
    for method, params in (
        (Method.ROUTER_STATUS, {}),
        (Method.LEAF_HASH, about()),
        (Method.LEAF_STATUS, {"LeafHash": to_base64(LEAF)}),
        (Method.MEASURE, {"Hash": to_base64(LEAF)}),
        (Method.PUBLISH, published()),
    ):
        answer = await plain.call(method, **params)
        assert answer["error"] == {"code": code, "message": str(raised)}, method
    lost = (await plain.call(Method.PUBLICATION, **about()))["result"]
    assert (lost["State"], lost["Reason"]) == ("lost", str(raised))
    plain.bridge.error = None
    assert (await plain.call(Method.PUBLISH, **published()))["result"]["State"] == "sent"


async def test_a_publication_that_is_lost(plain: Served) -> None:
    await plain.call(Method.PUBLISH, **published())
    plain.bridge.troubles[MASTER] = "the router stopped"
    lost = (await plain.call(Method.PUBLICATION, **about()))["result"]
    assert lost == {"State": "lost", "Reason": "the router stopped", "Published": NOW, "Expires": NOW + 3600}


async def test_a_call_that_takes_too_long(plain: Served) -> None:
    plain.bridge.go_on.clear()
    assert await plain.code(Method.ROUTER_STATUS, Timeout=0.05) == -32013


GOOD: dict[str, dict[str, Any]] = {
    Method.ROUTER_STATUS: {},
    Method.LEAF_HASH: about(),
    Method.LEAF_STATUS: {"LeafHash": to_base64(LEAF)},
    Method.MEASURE: {"Hash": to_base64(LEAF)},
    Method.PUBLISH: published(),
    Method.STOP: about(),
    Method.PUBLICATION: about(),
}
WRONG: tuple[Any, ...] = (None, 0, True, 1.5, "", "x", "é", "A" * 43 + "B", "A" * 10_000, [], {}, ["A"], "a.b32.i2p")


@pytest.mark.parametrize("method", Method)
async def test_parameters_of_wrong_types_or_names(plain: Served, method: str) -> None:
    good = GOOD[method]
    for name in good:
        for wrong in WRONG:
            assert await plain.code(method, **{**good, name: wrong}) == -32602, (name, wrong)
        assert await plain.code(method, **{each: good[each] for each in good if each != name}) == -32602, name
    for wrong in (None, "1", True, [], -1, 301, 10**30):
        assert await plain.code(method, **good, Timeout=wrong) == -32602, wrong
    assert await plain.code(method, **good, Another=1) == -32602
    assert plain.bridge.published == []
    assert "result" in await plain.call(method, **good)


async def test_sets_that_no_router_would_take(plain: Served) -> None:
    good = published()
    other = DestinationKeys.generate()
    flipped = good["LeaseSet"][:-9] + ("A" if good["LeaseSet"][-9] != "A" else "B") + good["LeaseSet"][-8:]
    for name, value in (
        ("LeaseSet", flipped),
        ("LeaseSet", good["SessionConfig"]),
        ("LeaseSet", published(keys=other)["LeaseSet"]),
        ("SessionConfig", published(keys=other)["SessionConfig"]),
        ("SessionConfig", good["LeaseSet"]),
        ("SignedSessionConfig", published(keys=other)["SessionConfig"]),
        ("SignedSessionConfig", good["LeaseSet"]),
        ("SignedSessionConfig", None),
        ("MasterHash", to_base64(LEAF)),
    ):
        answer = await plain.call(Method.PUBLISH, **{**good, name: value})
        assert answer["error"]["code"] == -32602
        assert answer["error"]["message"].startswith(("LeaseSet: ", "SessionConfig: ", "SignedSessionConfig: "))
    assert plain.bridge.published == []
