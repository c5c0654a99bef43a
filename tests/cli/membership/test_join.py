"""`gf-i2p members invite --code` and `gf-i2p join`, with a farm of real nodes."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.admin.client import ApiError, RemoteApi
from gf_i2p.cli.membership.join import joined_text
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm, new_server
from gf_i2p.node.membership.join_code import JoinCode, JoinCodeError, Joined, write
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import until
from integration.harness.processes import free_ports
from tests.cli.program import PATIENCE, gf, gf_json
from tests.cli.test_from_afar import Administered


class Founded(Administered):
    """A farm that begins with one server."""

    ADMIN = "owner"

    async def code(self, server: int, port: int) -> str:
        code, answer = await gf_json("members", "invite", self.admin, f"{server}=tcp://127.0.0.1:{port}", "--code")
        assert code == 0
        assert isinstance(answer["code"], str)
        return answer["code"]

    async def grows(self, server: int) -> str:
        """Bring in one server; return the code that was used."""
        (port,) = free_ports(1)
        code = await self.code(server, port)
        status, text, error = await gf("join", self.node(server), stdin=code + "\n")
        assert status == 0, error
        assert f"gf-i2p run {self.node(server)}" in text
        self.start(server)
        self.ids = (*self.ids, server)
        await self.is_member(server)
        return code

    async def is_member(self, server: int) -> None:
        async def all_know() -> bool:
            told = [await self.status(each) for each in self.ids]
            return all(each is not None and server in [s["id"] for s in each["servers"]] for each in told)

        await until(f"server {server} is a member for all", PATIENCE, all_know)

    async def all_connected(self) -> bool:
        told = [await self.status(each) for each in self.ids]
        return all(
            each is not None and len(each["servers"]) == len(self.ids) and all(s["connected"] for s in each["servers"])
            for each in told
        )


@asynccontextmanager
async def founded(directory: Path) -> AsyncIterator[Founded]:
    with Founded(directory, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        yield farm


async def test_a_farm_of_three_grows_from_one_by_two_codes(tmp_path: Path) -> None:
    async with founded(tmp_path) as farm:
        await farm.grows(2)
        code = await farm.grows(3)
        await until("all see all", PATIENCE, farm.all_connected)  # server 2 knows server 3 by the log alone
        _, answer = await gf_json("post", farm.node(3), "hello")
        assert answer["index"] > 0

        shutil.move(farm.node(3), tmp_path / "used")
        try:
            status, _, error = await gf("join", tmp_path / "again", stdin=code)
        finally:
            shutil.move(tmp_path / "used", farm.node(3))
        assert (status, "ids are never used twice" in error, (tmp_path / "again").exists()) == (1, True, False)

        for server in farm.ids:
            farm.kill(server)
        farm.start_all()
        await until("all see all after a restart", PATIENCE, farm.all_connected)

        farm.kill(1)  # the server that let the others in is not needed any more
        assert await farm.leader() in {2, 3}
        _, answer = await gf_json("post", farm.node(2), "without server 1")
        assert answer["index"] > 0


async def test_a_new_server_takes_the_endpoint_of_a_dead_one_by_a_code(tmp_path: Path) -> None:
    async with founded(tmp_path) as farm:
        await farm.grows(2)
        place = str(Config.load(farm.node(2)).own_endpoint)
        status, _, error = await gf("members", "invite", farm.admin, f"3={place}", "--code")
        assert (status, f"server 2 has the endpoint {place}, and belongs to the farm" in error) == (1, True)
        assert (await gf("members", "remove", farm.admin, "2"))[0] == 0
        farm.kill(2)
        farm.ids = (1,)
        code = await farm.code(3, int(place.rpartition(":")[2]))
        status, _, error = await gf("join", farm.node(3), stdin=code)
        assert status == 0, error
        farm.start(3)
        farm.ids = (1, 3)
        await farm.is_member(3)
        await until("the two see each other", PATIENCE, farm.all_connected)
        for server in farm.ids:
            assert {each.id for each in Config.load(farm.node(server)).servers} == {1, 3}
            assert "server-2" not in Secrets.load(farm.node(server)).users


async def test_users_with_passwords_are_left_out_and_named(tmp_path: Path) -> None:
    async with founded(tmp_path) as farm:
        (port,) = free_ports(1)
        _, answer = await gf_json("join", tmp_path / "new", stdin=await farm.code(2, port))
        assert answer["left_out"] == ["viewer-wall"]
        secrets = (tmp_path / "new" / "secrets.toml").read_text()
        assert '[users."admin-owner"]' in secrets
        assert "md5" not in secrets.replace("has md5 and sha256", "")


async def test_a_newcomer_may_do_nothing_but_join(tmp_path: Path) -> None:
    async with founded(tmp_path) as farm:
        (port,) = free_ports(1)
        code = JoinCode.parse(await farm.code(2, port))
        api = RemoteApi(code.access("127.0.0.1:4444", "get"))
        for method, path in (
            ("GET", "/v1/status"),
            ("POST", "/v1/stepdown"),
            ("POST", "/v1/entries"),
            ("GET", "/v1/no"),
        ):
            with pytest.raises(ApiError) as caught:
                await api.request(method, path, body={} if method == "POST" else None)
            assert caught.value.status == 404, path
        with pytest.raises(ApiError) as caught:
            await api.request("POST", "/v1/admission", body={"endpoint": 5})
        assert caught.value.status == 400
        admin = RemoteApi(ClientFile.load(farm.admin))
        with pytest.raises(ApiError) as caught:
            await admin.request("POST", "/v1/admission", body={})
        assert caught.value.status == 404, "an administrator has no ticket"


async def test_a_forged_or_old_code_is_refused(tmp_path: Path) -> None:
    make_farm(
        tmp_path / "other", {1: Endpoint("127.0.0.1", 9)}, cluster="farm", profile="lan", clients=[], admins=["owner"]
    )
    async with founded(tmp_path / "farm") as farm:
        (port,) = free_ports(1)
        right, other = ClientFile.load(farm.admin), ClientFile.load(tmp_path / "other" / "admin-owner.toml")
        forged = other.model_copy(update={"servers": right.servers})
        code = JoinCode.make(forged, 2, Endpoint("127.0.0.1", port), now_ms())
        status, _, error = await gf("join", tmp_path / "new", stdin=code.text)
        assert (status, "the farm refuses the code" in error, "admin-owner" in error) == (1, True, True)
        old = JoinCode.make(right, 2, Endpoint("127.0.0.1", port), now_ms() - 3_700_000)
        status, _, error = await gf("join", tmp_path / "new", stdin=old.text)
        assert (status, "too old" in error) == (1, True)
        assert not (tmp_path / "new").exists()


async def test_a_code_that_is_none_is_a_wrong_argument(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 9)}, cluster="farm", profile="lan", clients=["web"], admins=["owner"])
    text = JoinCode.make(ClientFile.load(tmp_path / "admin-owner.toml"), 2, None, now_ms()).text
    for wrong in ("", "nonsense", text[:-1], text[2:], text[:40] + text[41:], text + "A", "a" * 5000):
        status, answer = await gf_json("join", tmp_path / "new", stdin=wrong)
        assert (status, answer["ok"]) == (2, False), wrong
    below = f"{text}\n\nThis code lets one new server in.\n"
    assert JoinCode.parse(below).text == text, "all that `members invite --code` prints, as by a pipe"
    assert text.startswith("gf"), "a code that began with a hyphen would be an option, and be shown in the error"
    status, _, error = await gf("join", text, stdin="")
    assert (status, "Other users of this machine can see arguments" in error, text[:20] in error) == (2, True, False)
    status, _, error = await gf("members", "invite", tmp_path / "server-1", "2=i2p", "--code")
    assert (status, "admin-NAME.toml" in error) == (2, True)
    status, _, error = await gf("members", "invite", tmp_path / "client-web.toml", "2=i2p", "--code")
    assert (status, "only an administrator may do this" in error) == (2, True)
    status, _, error = await gf("members", "invite", tmp_path / "admin-owner.toml", "2=i2p")
    assert (status, "--code" in error) == (2, True)


RIGHT: dict[str, Any] = {
    "profile": "auto",
    "servers": [{"id": 1, "endpoint": "tcp://127.0.0.1:9001", "fingerprint": f"sha256:{'ab' * 32}", "founder": True}],
    "removed": [3],
    "users": {"server-1": f"ed25519:{'ab' * 32}"},
    "left_out": ["viewer-wall"],
}


def test_an_answer_of_a_server_is_checked_before_it_is_written(tmp_path: Path) -> None:
    Joined.parse(RIGHT)
    evil = 'x"]\nkey = "ed25519:'
    wrongs: list[dict[str, Any]] = [
        {"profile": 'auto"\nelection_min = 9'},
        {"servers": [{"id": 1, "endpoint": f"tcp://127.0.0.1:9001{evil}"}]},
        {"servers": [{"id": "1", "endpoint": "tcp://127.0.0.1:9001"}]},
        {"removed": ["3"]},
        {"users": {evil: f"ed25519:{'ab' * 32}"}},
        {"users": {"server-1": evil}},
        {"users": []},
        {"left_out": [evil]},
        {"left_out": None},
    ]
    for wrong in wrongs:
        with pytest.raises(JoinCodeError, match="same version"):
            Joined.parse({**RIGHT, **wrong})
    with pytest.raises(JoinCodeError):
        Joined.parse([])
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 9001)}, cluster="farm", profile="lan", clients=[], admins=["a"])
    code = JoinCode.make(ClientFile.load(tmp_path / "admin-a.toml"), 2, Endpoint("127.0.0.1", 9002), now_ms())
    server = new_server(2, Endpoint("127.0.0.1", 9002))
    twice = {**RIGHT, "servers": [*RIGHT["servers"], {"id": 5, "endpoint": "tcp://127.0.0.1:9002"}]}
    with pytest.raises(ConfigError, match="same endpoint"):
        write(tmp_path / "new", code, server, Joined.parse(twice))
    assert not (tmp_path / "new").exists()
    write(tmp_path / "new", code, server, Joined.parse(RIGHT))
    assert {table.id for table in Config.load(tmp_path / "new").removed} == {3}


def test_a_code_is_read_as_it_was_made_and_hides_its_key(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: None, 2: Endpoint("192.0.2.2", 9)}, cluster="barn", profile="lan", clients=[], admins=["a"])
    admin = ClientFile.load(tmp_path / "admin-a.toml")
    code = JoinCode.make(admin, 7, None, 5)
    assert JoinCode.parse(f"  {code.text[:50]}\n{code.text[50:]} \n") == code
    assert [server.id for server in code.servers] == [1, 2]
    assert code.private.hex() not in repr(code)
    with pytest.raises(JoinCodeError, match="server 2 exists already"):
        JoinCode.make(admin, 2, None, 5)
    with pytest.raises(JoinCodeError, match="add the fingerprint"):
        JoinCode.make(
            admin.model_copy(update={"servers": (admin.servers[1].model_copy(update={"fingerprint": None}),)}),
            7,
            None,
            5,
        )


def test_the_steps_after_a_join_are_numbered_and_the_table_stands_last() -> None:
    server = new_server(4, Endpoint("127.0.0.1", 9104))
    table = "[[servers]]\nid = 4"
    text = joined_text(Path("a farm/server-4"), "farm", server, ["client-foreign"], table)
    users, run, clients = (text.index(f"\n{number}. ") for number in (1, 2, 3))
    assert text.startswith("wrote a farm/server-4: the farm farm knows server 4 now, at tcp://127.0.0.1:9104.")
    assert "end of a farm/server-4/secrets.toml" in text[users:run]
    assert '[users."client-foreign"]' in text[users:run]
    assert "gf-i2p run 'a farm/server-4'" in text[run:clients]
    assert text.endswith(f"client-NAME.toml:\n\n{table}")
    assert "users" not in joined_text(Path("server-4"), "farm", server, [], table)
