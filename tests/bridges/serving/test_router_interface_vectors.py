"""docs/reference/router-interface-vectors.json is how the endpoint answers, and how the node asks.

The author of another endpoint, or of another caller, tests the program with these vectors. So the vectors must be true
of both sides here.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol import extension_publisher
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.extension import Code, Method, PublicationPhase, decode_publication_state, encode_status
from bridges.i2pcontrol.extension_publisher import ExtensionPublisher
from bridges.i2pcontrol.jsonrpc_client import RpcError
from bridges.i2pcontrol.router_status import I2pControl
from bridges.serving.http_server import HttpCaller, HttpServer
from gf_i2p.node.publish.file_signer import FileSigner
from gf_i2p.storage.private_files import write_private
from tests.bridges.i2cp.test_publisher import publication
from tests.bridges.serving.harness import Served, serving
from tests.netdb.strategies import DELEGATED, KEYS, NOW
from tests.transport.harness import until

VECTORS = json.loads((Path(__file__).parents[3] / "docs/reference/router-interface-vectors.json").read_text("utf-8"))
CALLS = VECTORS["calls"]
BY_NAME = {each["name"]: each for each in CALLS}
LOGIN = "the password is right"
TOKEN_CODES = {Code.NO_TOKEN, Code.UNKNOWN_TOKEN, Code.EXPIRED_TOKEN}
ERRORS: dict[str, Exception] = {
    "the router refuses": RouterRefusedError("the router has no such leaf"),
    "the router does not answer": RouterUnreachableError("the router does not answer"),
    "the router's answer is unusable": RouterError("the router's answer is unusable"),
    "the endpoint has a defect": ValueError("a defect"),
}


class Endpoint:
    """The real endpoint before a router without a will of its own, in the states that the vectors name."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.now = 0.0
        self._token = ""
        self._state: str | None = None
        self._running: list[asyncio.Task[Any]] = []

    async def answer(self, call: dict[str, Any]) -> Any:
        """Put the endpoint into the call's state, and return the answer with TOKEN for the token."""
        await self._enter(call.get("state"))
        answer = await self.served.send(self._filled(call["request"]))
        if "Token" in answer.get("result", {}):
            self._token, answer["result"]["Token"] = answer["result"]["Token"], "TOKEN"
        return answer

    def _filled(self, request: dict[str, Any]) -> dict[str, Any]:
        params = request["params"]
        return {**request, "params": {**params, "Token": self._token} if params.get("Token") == "TOKEN" else params}

    async def _enter(self, state: str | None) -> None:
        """A state lasts for all calls in a row that name the state: a publication stays under way."""
        if state == self._state:
            return
        bridge = self.served.bridge
        bridge.error = ERRORS.get(state or "")
        bridge.troubles.clear()
        bridge.go_on.set()
        await asyncio.gather(*self._running)
        self._running.clear()
        publications = self.served.server.publications
        await until(lambda: not any(slot.task for slot in publications._slots.values()))
        self._state = state
        match state:
            case "a day has passed since the token was given":
                self.now += 86_400
            case "the router has lost the set":
                bridge.troubles[KEYS.destination.hash] = "the router has restarted"
            case "the router is slow":
                bridge.go_on.clear()
            case "two measurements are under way":
                bridge.go_on.clear()
                measure = self._filled(BY_NAME["the way to a leaf through the network"]["request"])
                self._running += [asyncio.create_task(self.served.send(measure)) for _ in range(2)]
                await until(lambda: bridge.measuring == 2)
            case _:
                assert state is None or state in ERRORS, state


@asynccontextmanager
async def endpoint(tmp_path: Path) -> AsyncIterator[Endpoint]:
    keys = tmp_path / "master.dat"
    write_private(keys, KEYS.encode())
    start = iter([NOW])
    signer = FileSigner(keys, clock=lambda: next(start, VECTORS["given"]["Clock"]))
    found: list[Endpoint] = []
    async with serving(signer=signer, clock=lambda: found[0].now if found else 0.0) as served:
        found.append(Endpoint(served))
        yield found[0]
        await found[0]._enter(None)


async def test_the_endpoint_answers_as_the_vectors_say(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as running:
        for call in CALLS:
            assert await running.answer(call) == call["response"], call["name"]


async def test_the_endpoint_answers_bodies_and_bytes_as_the_vectors_say(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as running:
        for each in VECTORS["bodies"]:
            answer = await running.served.post(each["body"].encode())
            assert json.loads(answer.partition(b"\r\n\r\n")[2]) == each["response"], each["name"]
        for each in VECTORS["http"]:
            assert (await running.served.raw(each["request"].encode())).decode() == each["response"], each["name"]


def test_the_vectors_have_every_method_code_and_state() -> None:
    answers = [each["response"] for each in (*CALLS, *VECTORS["bodies"])]
    assert {each["request"]["method"] for each in CALLS} >= {"Authenticate", *Method}
    assert {each["error"]["code"] for each in answers if "error" in each} == {*Code}
    assert {each["result"].get("State") for each in answers if "result" in each} - {None} == {*PublicationPhase}
    assert len(BY_NAME) == len(CALLS)


# The caller -----------------------------------------------------------------------------------------------------------


class Script:
    """An endpoint that knows nothing but vectors: each call must be the next one of the script."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self.strange: list[str] = []

    def expect(self, *names: str) -> None:
        assert self._names == []
        self._names += names

    def left(self) -> list[str]:
        return self._names

    async def answer(self, body: bytes, _caller: HttpCaller) -> bytes:
        call, vector = json.loads(body), BY_NAME[self._names.pop(0)]
        asked = {name: call[name] for name in ("jsonrpc", "method", "params")}
        if asked != {name: vector["request"][name] for name in asked}:
            self.strange.append(f"{vector['name']}: {asked}")
        return json.dumps({**vector["response"], "id": call["id"]}).encode()


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[Script, I2pControl]]:
    script = Script()
    server = HttpServer(script.answer, None)
    port = await server.start("127.0.0.1", 0)
    control = I2pControl(I2pControlAccess(f"http://127.0.0.1:{port}/", VECTORS["given"]["Password"]))
    try:
        yield script, control
    finally:
        await control.close()
        await server.stop()
    assert (script.strange, script.left()) == ([], [])


async def test_a_node_asks_as_the_vectors_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension_publisher, "POLL_SECONDS", 0.001)
    both = replace(publication(keys=DELEGATED), signed_session=publication().session)
    async with scripted() as (script, control):
        publisher = ExtensionPublisher(control)
        script.expect(LOGIN, "the probe for the extension: PublishMetaLS without parameters")
        assert await publisher.available()
        script.expect("a signed set")
        await publisher.publish_meta_lease_set(publication())
        script.expect("a set that a transient key has signed, with both session configs")
        await publisher.publish_meta_lease_set(both)
        monkeypatch.setattr(extension_publisher, "ANSWER_SECONDS", 0)
        opening = "publishing takes longer than the time limit, and goes on"
        script.expect(opening, "the state of the publication")
        await publisher.publish_meta_lease_set(publication())
        script.expect(opening, "the router has lost the set")
        with pytest.raises(RouterError, match="the router has restarted"):
            await publisher.publish_meta_lease_set(publication())
        script.expect("no more sets of this master")
        await publisher.stop_publishing_meta_lease_set(KEYS.destination.hash)
        await publisher.close()


async def test_a_node_reads_every_error_of_the_vectors() -> None:
    async with scripted() as (script, control):
        script.expect(LOGIN, "the status of the router")
        await control.call(Method.ROUTER_STATUS)
        for call in _with_token(CALLS):
            error = call["response"].get("error")
            if error is None:
                continue
            # A caller whose token is refused authenticates once, and repeats the call.
            again = [LOGIN, call["name"]] if error["code"] in TOKEN_CODES else []
            script.expect(call["name"], *again)
            params = {name: value for name, value in call["request"]["params"].items() if name != "Token"}
            with pytest.raises(RpcError) as caught:
                await control.call(call["request"]["method"], params, max_bytes=20_000)
            assert caught.value.code == error["code"], call["name"]


def test_a_node_reads_every_state_of_the_vectors() -> None:
    states = [each["response"]["result"] for each in CALLS if "State" in each["response"].get("result", {})]
    for each in states:
        read = encode_status(decode_publication_state(each))
        assert {**read, "Reason": None} == {**each, "Reason": None}
        assert (read["Reason"] is None) == (each["Reason"] is None)
    assert decode_publication_state({**states[0], "Later": 1}) == decode_publication_state(states[0])


def _with_token(calls: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls that a caller of this project can make: with the token that it was given."""
    return [each for each in calls if each["request"]["params"].get("Token") == "TOKEN"]
