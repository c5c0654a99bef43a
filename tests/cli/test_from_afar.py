"""Commands with the file of an administrator or a viewer: the administration API on the farm's own port."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.admin import client
from gf_i2p.admin.client import ApiError, RemoteApi
from gf_i2p.admin.local_socket import MAX_REMOTE_PAGE_BYTES
from gf_i2p.admin.remote_interface import REQUESTS_AT_ONCE, REQUESTS_UNDER_WAY
from gf_i2p.cli.shared import local_client, terminal
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, WAITING, gf, gf_json

"""The words of a command after two seconds without an answer."""


class Administered(LocalFarm):
    """A farm with an administrator, a viewer that has a password, and a client."""

    ADMIN = "ops"

    def _make(self, client: str) -> None:
        make_farm(
            self.directory,
            self.endpoints(),
            cluster="farm",
            profile="lan",
            clients=[client],
            admins=[self.ADMIN],
            viewers=["wall"],
            digest={"viewer-wall"},
        )

    @property
    def admin(self) -> Path:
        return self.directory / f"admin-{self.ADMIN}.toml"

    @property
    def viewer(self) -> Path:
        return self.directory / "viewer-wall.toml"

    async def followed_leader(self) -> int:
        found: list[int] = []

        async def one_leads() -> bool:
            for server in self.running:
                status = await self.status(server)
                if status is not None and status["leader"] is not None and status["healthy"]:
                    found.append(status["leader"])
                    return True
            return False

        await until("a leader", PATIENCE, one_leads)
        return found[-1]


@contextlib.asynccontextmanager
async def administered(directory: Path) -> AsyncIterator[Administered]:
    with Administered(directory) as farm:
        farm.start_all()

        async def all_answer() -> bool:
            return None not in [await farm.status(server) for server in farm.ids]

        await until("all servers answer", PATIENCE, all_answer)  # a majority may elect a leader before the last listens
        await farm.followed_leader()
        yield farm


async def test_an_administrator_sees_and_changes_all_from_any_machine(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        for command in ("status", "explain", "members list", "leaves list", "publisher show", "farm show", "events"):
            for file in (farm.admin, farm.viewer):
                code, _, error = await gf(*command.split(), file)
                assert (code, error) in {(0, ""), (3, "")}, command
        leader = await farm.followed_leader()
        code, answer = await gf_json("members", "stepdown", farm.admin)
        assert code == 0
        assert answer["leader"] != leader
        code, answer = await gf_json("farm", "set", farm.admin, "margin=70")
        assert (code, answer["parameters"]) == (0, {"margin": 70})

        async def is_seen() -> bool:
            _, log = await gf_json("farm", "log", farm.viewer)
            return [change["by"] for change in log["log"]] == ["admin-ops"]

        await until("another server has the change", PATIENCE, is_seen)
        leader = await farm.followed_leader()
        follower = next(server for server in farm.ids if server != leader)
        code, answer = await gf_json("members", "remove", farm.admin, str(follower))
        assert code == 0
        assert follower not in answer["servers"]
        status = json.loads((await gf("status", farm.admin, "--json"))[1])
        assert follower not in [server["id"] for server in status["servers"]]


@pytest.mark.slow  # a farm of three of its own
async def test_a_command_that_waits_for_a_far_server_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with administered(tmp_path) as farm:
        monkeypatch.setattr(terminal, "SILENT_SECONDS", 0.0)
        for _ in range(2):
            assert (await local_client.request_aloud(farm.admin, "GET", "/v1/status"))["cluster"] == "farm"
        assert capsys.readouterr().err == WAITING
        await local_client.request_aloud(farm.node(1), "GET", "/v1/status")
        assert capsys.readouterr().err == "", "the node is on this machine"


async def test_a_viewer_changes_nothing_and_other_users_see_nothing(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        for words in (("members", "stepdown", farm.viewer), ("members", "remove", farm.viewer, "1")):
            code, _, error = await gf(*words)
            told = "gf-i2p: viewer-wall is a viewer, and only an administrator may change the farm\n"
            assert (code, error) == (1, told)
        code, _, error = await gf("farm", "set", farm.viewer, "margin=70")
        assert code == 2
        assert "only an administrator may do this" in error
        code, _, error = await gf("status", farm.client_file)
        assert code == 1
        assert "server 1, 2, 3 has no administration API for client-load" in error


async def test_when_servers_are_down_another_answers(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        farm.kill(1)
        await farm.followed_leader()
        code, answer = await gf_json("status", farm.admin)
        assert (code in {0, 3}, answer["id"]) == (True, 2), "server 3 may know the new leader first"
        farm.kill(2)
        farm.kill(3)
        code, _, error = await gf("status", farm.admin)
        assert code == 1
        assert error.startswith("gf-i2p: no server answers the question: server 1, 2, 3 cannot be reached (")


class SilentFirst(RemoteApi):
    """The client of a farm inside I2P whose server 1 is silent."""

    def __init__(self, file: ClientFile) -> None:
        super().__init__(file)
        self.asked: list[tuple[str, int]] = []

    async def _ask(self, server: int, method: str, path: str, seconds: float, body: object) -> Any:
        self.asked.append((method, server))
        if server == 1:
            await asyncio.Event().wait()
        return {"id": server}


async def test_a_silent_server_inside_i2p_holds_up_no_question_and_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "NEXT_SECONDS", 0.01)
    make_farm(tmp_path, dict.fromkeys((1, 2, 3)), cluster="farm", profile="i2p", clients=[], admins=["ops"])
    file = ClientFile.load(tmp_path / "admin-ops.toml")
    async with asyncio.timeout(PATIENCE):
        assert (await SilentFirst(file).request("GET", "/v1/status"))["id"] in {2, 3}
        api = SilentFirst(file)
        changed = await api.request("POST", "/v1/stepdown", body={})
    posts = [server for method, server in api.asked if method == "POST"]
    assert posts == [changed["id"]], "a change goes once, to a server that has answered"
    assert 1 not in posts


async def test_a_refusal_of_a_hurried_server_does_not_end_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "NEXT_SECONDS", 0.01)
    make_farm(tmp_path, dict.fromkeys((1, 2, 3)), cluster="farm", profile="i2p", clients=[], admins=["ops"])

    class OldServers(SilentFirst):
        """Servers 2 and 3 do not know the user any more. Server 1 answers when both have refused."""

        async def _ask(self, server: int, method: str, path: str, seconds: float, body: object) -> Any:
            self.asked.append((method, server))
            if server == 1:
                await refused.wait()
                return {"id": 1}
            refused.set()
            raise ApiError(f"server {server} refuses user admin-ops", 401)

    refused = asyncio.Event()
    async with asyncio.timeout(PATIENCE):
        api = OldServers(ClientFile.load(tmp_path / "admin-ops.toml"))
        assert await api.request("GET", "/v1/status") == {"id": 1}


async def test_after_a_change_the_next_server_is_not_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_farm(tmp_path, dict.fromkeys((1, 2, 3)), cluster="farm", profile="i2p", clients=[], admins=["ops"])
    api = RemoteApi(ClientFile.load(tmp_path / "admin-ops.toml"))
    assert api._patience("/v1/status") == client.NEXT_SECONDS
    assert api._patience("/v1/entries?wait=5") is None

    async def answers(*_: object) -> Any:
        return {"id": 1}

    monkeypatch.setattr(api, "_ask", answers)
    await api.request("POST", "/v1/stepdown", body={})
    assert api._patience("/v1/status") is None


async def test_a_wrong_certificate_or_key_is_refused(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        text = farm.admin.read_text()
        pins = [line for line in text.splitlines() if line.startswith("fingerprint")]
        farm.admin.write_text(text.replace(pins[0], f'fingerprint = "sha256:{"0" * 64}"'))
        code, answer = await gf_json("status", farm.admin)
        assert (code, answer["id"]) == (0, 2), "the next server answers"
        for pin in pins:
            text = text.replace(pin, f'fingerprint = "sha256:{"0" * 64}"')
        farm.admin.write_text(text)
        code, _, error = await gf("status", farm.admin)
        assert code == 1
        assert "server 1, 2, 3 has not the certificate of the fingerprint in the file" in error
        text = farm.viewer.read_text()
        password = next(line for line in text.splitlines() if line.startswith("password"))
        farm.viewer.write_text(text.replace(password, 'password = "wrong"'))
        code, _, error = await gf("status", farm.viewer)
        assert code == 1
        assert "server 1 refuses user viewer-wall or its password" in error


async def raw(farm: Administered, request: bytes) -> bytes:
    """Send bytes to server 1; return all that comes back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    endpoint = farm_endpoint(farm)
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
    writer.write(request)
    async with asyncio.timeout(PATIENCE):
        data = await reader.read()
    writer.close()
    return data


def farm_endpoint(farm: Administered) -> Endpoint:
    return Endpoint.parse(ClientFile.load(farm.admin).servers[0].endpoint)


async def authorized(farm: Administered, method: str, path: str, file: Path) -> bytes:
    """Return the head of one request to server 1, without the blank line."""
    login = ClientFile.load(file).login.at(1)
    target = f"/GarlicFarm/farm/1/admin{path}"
    answer = await raw(farm, f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    challenges = [line.partition(b": ")[2].decode() for line in answer.splitlines() if line.startswith(b"WWW-")]
    login.challenged(challenges, 0.0)
    channel = ClientFile.load(file).servers[0].fingerprint
    header = login.authorize_at(str(channel), method, target, 0.0, lambda size: b"x" * size)
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: {header}\r\n"
    return head.encode() + (b"" if method == "GET" else b"Content-Type: application/json\r\n")


def without_nonces(answer: bytes) -> list[bytes]:
    return [line.partition(b" nonce")[0] for line in answer.splitlines()]


async def test_strangers_learn_nothing_and_one_connection_carries_one_request(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        websocket = await raw(farm, b"GET /GarlicFarm/farm/1/websocket HTTP/1.1\r\nHost: x\r\n\r\n")
        for method in ("GET", "POST", "DELETE"):
            target = "/GarlicFarm/farm/1/admin/v1/status"
            answer = await raw(farm, f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert without_nonces(answer) == without_nonces(websocket)
        for path in ("admin", "Admin/v1/status", "administration/v1/status"):
            answer = await raw(farm, f"GET /GarlicFarm/farm/1/{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer == b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        head = await authorized(farm, "GET", "/v1/status", farm.admin)
        answer = await raw(farm, head + b"\r\n" + head + b"\r\n")
        assert sum(line.startswith(b"HTTP/1.") for line in answer.splitlines()) == 1
        head = await authorized(farm, "GET", "/v1/status", farm.admin)
        answer = await raw(farm, head + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not {b"server", b"date"} & {line.partition(b":")[0].lower() for line in answer.splitlines()}
        assert (await raw(farm, head + b"\r\n")).startswith(b"HTTP/1.1 401"), "each nonce count is good once"
        for method, path, status in (
            ("GET", "/v1/snapshot", 404),
            ("POST", "/v1/reload", 404),
            ("POST", "/v1/status", 405),
            ("GET", "/v1/stepdown", 405),
            ("GET", "/../../v1/status", 404),
        ):
            head = await authorized(farm, method, path, farm.admin)
            answer = await raw(farm, head + b"Content-Length: 2\r\n\r\n{}")
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), path
        head = await authorized(farm, "POST", "/v1/stepdown", farm.viewer)
        assert (await raw(farm, head + b"Content-Length: 2\r\n\r\n{}")).startswith(b"HTTP/1.1 403 ")
        head = await authorized(farm, "POST", "/v1/entries", farm.admin)
        answer = await raw(farm, head + b"Content-Length: 70000\r\n\r\n" + bytes(70_000))
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_the_page_of_another_site_changes_nothing_with_a_login_that_a_browser_has(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        leader = await farm.followed_leader()
        head = await authorized(farm, "POST", "/v1/stepdown", farm.admin)
        form = head.replace(b"application/json", b"application/x-www-form-urlencoded")
        assert (await raw(farm, form + b"Content-Length: 2\r\n\r\n{}")).startswith(b"HTTP/1.1 415 ")
        for origin, status in ((b"https://evil.example", 403), (b"null", 403), (b"https://x", 200)):
            head = await authorized(farm, "GET", "/v1/status", farm.admin)
            answer = await raw(farm, head + b"Origin: " + origin + b"\r\n\r\n")
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), origin
        assert await farm.followed_leader() == leader


async def ask_on_and_on(remote: RemoteApi, answers: list[object]) -> None:
    while True:
        answers.append(await remote.request("GET", "/v1/status"))


@pytest.mark.slow  # a farm of three of its own
async def test_a_user_has_few_requests_under_way(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        remote = RemoteApi(ClientFile.load(farm.viewer))
        await remote.request("GET", "/v1/status")
        path = "/v1/entries?first=100000&wait=60&stale=1"
        waiting = [asyncio.ensure_future(remote.request("GET", path)) for _ in range(REQUESTS_UNDER_WAY + 1)]
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        told = "viewer-wall has 4 requests under way: wait for an answer first"
        assert {str(each.exception()) for each in done} == {told}
        for each in pending:
            each.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


@pytest.mark.slow  # a farm of three of its own
async def test_long_answers_come_in_short_pages(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        code, _, error = await gf("post", farm.node(1), stdin="\n".join(["\x01" * 30_000] * 8))
        assert code == 0, error
        remote = RemoteApi(ClientFile.load(farm.viewer))
        page = await remote.request("GET", "/v1/entries?first=2&stale=1&wait=60")
        assert len(page["entries"]) == MAX_REMOTE_PAGE_BYTES // 30_013
        code, _, error = await gf("post", farm.admin, "x")
        assert (code, "post takes the directory of a running node" in error) == (2, True)


@pytest.mark.slow  # a farm of three of its own
async def test_a_user_who_asks_too_often_is_slowed_down(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        remote = RemoteApi(ClientFile.load(farm.viewer))
        answers: list[object] = []
        with pytest.raises(ApiError, match="viewer-wall asks more than 10 times a second: ask less often") as refused:
            await ask_on_and_on(remote, answers)
        assert refused.value.status == 429
        assert len(answers) >= REQUESTS_AT_ONCE
        code, _, _ = await gf("status", farm.admin)
        assert code == 0, "another user has requests of its own"


async def test_an_administrator_posts_only_in_the_administrators_own_name(tmp_path: Path) -> None:
    async with administered(tmp_path) as farm:
        remote = RemoteApi(ClientFile.load(farm.admin))
        entry = {"cluster": "farm", "date": 5, "by": "server-2", "action": "release"}
        with pytest.raises(ApiError, match="in the name of 'server-2'") as refused:
            await remote.request("POST", "/v1/entries", body={"values": [json.dumps(entry)]})
        assert (refused.value.status, refused.value.outcome) == (403, "no")
        entry["by"] = "admin-ops"
        assert (await remote.request("POST", "/v1/entries", body={"values": [json.dumps(entry)]}))["index"] > 1
