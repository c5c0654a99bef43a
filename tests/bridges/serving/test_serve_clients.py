"""The served bridge from outside: other HTTP libraries, and every example of docs/reference/router-interface.md."""

import asyncio
import json
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import requests

from bridges.i2pcontrol.extension import Code, Method, PublicationPhase
from gf_i2p.farm.record.router_facts import Reachability
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.node.publish.file_signer import FileSigner
from gf_i2p.storage.private_files import write_private
from tests.bridges.fake_bridge import LEAF
from tests.bridges.serving.harness import PASSWORD, Served, about, published, serving
from tests.bridges.simulated_i2pcontrol import SimulatedRouter
from tests.netdb.strategies import KEYS, NOW
from tests.transport.harness import Identity

PAGE = (Path(__file__).parents[3] / "docs/reference/router-interface.md").read_text("utf-8")
BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.make(tmp_path_factory.mktemp("identity"), "i2pcontrol", hosts=("127.0.0.1",))


@pytest_asyncio.fixture
async def served(
    i2pd: SimulatedRouter, identity: Identity, localhost: Identity, tmp_path: Path
) -> AsyncIterator[Served]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(localhost.certificate, localhost.key)
    keys = tmp_path / "master.dat"
    write_private(keys, KEYS.encode())
    start = iter([NOW])
    signer = FileSigner(keys, clock=lambda: next(start, NOW + 1))
    async with serving(i2pd, identity, context, signer=signer) as running:
        yield running


# Other libraries ------------------------------------------------------------------------------------------------------


def by_requests(url: str, certificate: Path) -> list[Any]:
    """Make the calls of a synchronous program that knows nothing of gf-i2p."""
    answers: list[Any] = []
    params: dict[str, Any] = {"API": 1, "Password": PASSWORD}
    with requests.Session() as session:
        for method, more in (
            ("Authenticate", params),
            ("Echo", {"Echo": "gf"}),
            (Method.PUBLISH, published()),
            (Method.STOP, about()),
        ):
            token = {"Token": answers[0]["result"]["Token"]} if answers else {}
            call = {"id": 7, "jsonrpc": "2.0", "method": method, "params": {**more, **token}}
            response = session.post(url, json=call, verify=str(certificate), timeout=20)
            assert response.status_code == 200
            assert {"server", "date"}.isdisjoint(name.lower() for name in response.headers)
            answers.append(response.json())
    return answers


async def test_requests(served: Served, localhost: Identity) -> None:
    answers = await asyncio.to_thread(by_requests, served.url, localhost.certificate)
    assert [answer["id"] for answer in answers] == [7] * 4
    assert answers[1]["result"] == {"Result": "gf"}
    assert answers[2]["result"]["State"] == PublicationPhase.SENT
    assert answers[3]["result"]["State"] == PublicationPhase.IDLE
    assert len(served.bridge.published) == 1


def curl(url: str, certificate: Path, body: bytes, *options: str) -> Any:
    command = ["curl", "--silent", "--show-error", "--max-time", "20", "--cacert", str(certificate), *options]
    done = subprocess.run([*command, "--data-binary", "@-", url], input=body, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl(served: Served, localhost: Identity) -> None:
    login = {"id": 1, "jsonrpc": "2.0", "method": "Authenticate", "params": {"API": 1, "Password": PASSWORD}}
    token = (await asyncio.to_thread(curl, served.url, localhost.certificate, json.dumps(login).encode()))["result"][
        "Token"
    ]
    call = {"id": 2, "jsonrpc": "2.0", "method": Method.PUBLISH, "params": {**published(), "Token": token}}
    for options in ((), ("--http1.0",), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect: 100-continue")):
        answer = await asyncio.to_thread(curl, served.url, localhost.certificate, json.dumps(call).encode(), *options)
        assert answer["result"]["State"] == PublicationPhase.SENT, options


# The page -------------------------------------------------------------------------------------------------------------


def examples() -> Iterator[tuple[str, str]]:
    """Return the example requests and responses of docs/reference/router-interface.md, in the page's order."""
    blocks = [(found["kind"], found["text"]) for found in BLOCK.finditer(PAGE) if found["kind"].startswith("json")]
    assert [kind for kind, _ in blocks] == ["json request", "json response"] * (len(blocks) // 2)
    for request, response in zip(blocks[::2], blocks[1::2], strict=True):
        yield request[1], response[1]


async def test_every_example_is_what_happens(served: Served) -> None:
    words = {
        "PASSWORD": PASSWORD,
        "MASTER_HASH": about()["MasterHash"],
        "LEASE_SET": published()["LeaseSet"],
        "SESSION_CONFIG": published()["SessionConfig"],
    }
    seen = set()

    def filled(text: str) -> Any:
        for word, value in words.items():
            text = text.replace(f'"{word}"', json.dumps(value))
        return json.loads(text)

    for request, response in examples():
        asked = filled(request)
        seen.add(asked["method"])
        answer = await served.send(asked)
        if asked["method"] == "Authenticate":
            words["TOKEN"] = answer["result"]["Token"]
        assert answer == filled(response), asked["method"]
    assert seen == {"Authenticate", "Echo", *Method}
    assert to_base64(LEAF) in PAGE


def test_the_page_has_all_codes_and_words() -> None:
    assert not [code for code in Code if str(int(code)) not in PAGE]
    assert not [word for word in (*PublicationPhase, *Reachability) if f"`{word}`" not in PAGE]


async def test_the_pages_client_in_python_works(
    served: Served, localhost: Identity, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = next(found["text"] for found in BLOCK.finditer(PAGE) if found["kind"] == "python")
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    for word, value in (
        ("bridge-certificate.pem", str(localhost.certificate)),
        ("https://127.0.0.1:7651/", served.url),
        ('"bridge-password"', repr(str(password))),
    ):
        assert word in program
        program = program.replace(word, value)
    names: dict[str, Any] = {}
    await asyncio.to_thread(exec, compile(program, "docs/reference/router-interface.md", "exec"), names)
    assert "Uptime" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="MasterHash"):
        await asyncio.to_thread(names["router"].call, Method.PUBLISH)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_pages_command_works(served: Served, localhost: Identity) -> None:
    command = next(found["text"] for found in BLOCK.finditer(PAGE) if found["kind"] == "sh")
    for word, value in (
        ("bridge-certificate.pem", str(localhost.certificate)),
        ("https://127.0.0.1:7651/", served.url),
        ("PASSWORD", PASSWORD),
    ):
        assert word in command
        command = command.replace(word, value)
    done = await asyncio.to_thread(subprocess.run, command, shell=True, capture_output=True, check=True, timeout=30)
    assert json.loads(done.stdout)["result"]["API"] == 1
