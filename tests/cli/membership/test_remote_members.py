"""`gf-i2p members` with an administrator's file, against real nodes over TLS."""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from gf_i2p.cli.main import main
from gf_i2p.cli.membership import remote_members
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.membership import joining
from gf_i2p.node.membership.invitation import accept, invite
from gf_i2p.node.node import Node
from gf_i2p.transport.client.farm_client import FarmClient, FoundFarm
from gf_i2p.transport.client.server_queries import Survey
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response
from integration.harness.local_farm import becomes
from integration.harness.processes import free_ports
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import ids, joins, sees

PATIENCE = 60.0
"""Seconds for servers to answer and for a client to find the leader on a busy machine."""


class Typed:
    """Types commands on "another machine": with a file, and nothing else of the farm."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    async def __call__(self, *words: object) -> tuple[int, Any]:
        code = await asyncio.to_thread(main, [*map(str, words), "--json"])
        return code, json.loads(self._capsys.readouterr().out)

    async def text(self, *words: object) -> tuple[int, str]:
        code = await asyncio.to_thread(main, [*map(str, words)])
        read = self._capsys.readouterr()
        return code, read.out + read.err


@pytest.fixture
def gf(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    for name in ("_FIND_SECONDS", "_ASK_SECONDS"):
        monkeypatch.setattr(remote_members, name, PATIENCE)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # of the nodes, which run in this process
    return Typed(capsys)


async def test_the_servers_are_listed_and_removed(tmp_path: Path, gf: Typed) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader = (await farm.calm()).driver.core.id
        file = tmp_path / "admin-test.toml"
        code, answer = await gf("members", "list", file)
        assert (code, answer["leader"]) == (0, leader)
        assert [(each["id"], each["leader"], each["connected"]) for each in answer["servers"]] == [
            (server, server == leader, True) for server in (1, 2, 3)
        ]
        other, third = (server for server in (1, 2, 3) if server != leader)
        code, answer = await gf("members", "remove", file, 9)
        assert (code, answer["outcome"]) == (1, "no")
        assert "the farm has no server 9" in answer["error"]
        await farm.stop(third)
        code, answer = await gf("members", "remove", file, third)
        assert code == 1
        assert "add --force" in answer["error"]
        code, answer = await gf("members", "remove", file, other)
        assert code == 1
        assert "only 1 of the 2 other servers can be reached" in answer["error"]
        code, answer = await gf("members", "remove", file, third, "--force")
        assert (code, sorted(answer["servers"]), answer["committed"]) == (0, sorted([leader, other]), True)
        await sees(farm.nodes[leader], leader, other)
        code, text = await gf.text("members", "list", file)
        assert code == 0
        assert f"{leader}  tcp://127.0.0.1:{farm.endpoints[leader].port}  leader" in text
        assert str(farm.endpoints[third]) not in text


async def test_a_server_is_added_by_a_follower_that_is_all_the_file_knows(
    tmp_path: Path, gf: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AGAIN_SECONDS", "SOON_SECONDS"):
        monkeypatch.setattr(joining, name, 3600.0)  # the new server asks once, before anybody knows the server
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        written = invite(farm.path(1), farm.directory, 4, Endpoint("127.0.0.1", free_ports(1)[0]))
        new = await farm.start(4)
        await becomes("it was refused", lambda: all(link.last_error for link in new.links.values()))
        for server in (1, 2, 3):
            accept(farm.path(server), written.accept)
            reloaded(farm, server)
        endpoint = f"tcp://127.0.0.1:{new._config.own_endpoint.port}"
        code, answer = await gf("members", "add", tmp_path / "admin-test.toml", f"4={endpoint}")
        # Three of four are a majority; the file lacks the new server's certificate.
        assert (code, sorted(answer["servers"]), answer["committed"]) == (0, [1, 2, 3, 4], True)
        await sees(leader, 1, 2, 3, 4)
        code, answer = await gf("members", "list", tmp_path / "admin-test.toml")
        assert code == 0
        assert "Add the [[servers]] table of server 4" in answer["servers"][3]["error"]
        code, answer = await gf("members", "add", tmp_path / "admin-test.toml", f"5={endpoint}")
        assert (code, answer["outcome"]) == (1, "no")
        assert "the leader, refuses" in answer["error"]


async def test_what_cannot_be_seen_from_here_is_said(
    tmp_path: Path, gf: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "AGAIN_SECONDS", 0.2)
    async with NodeFarm(tmp_path, servers=1) as farm:
        await farm.leader()
        new = await joins(farm, 2)
        await sees(new, 1, 2)
        code, answer = await gf("members", "add", tmp_path / "admin-test.toml", f"2={new._config.own_endpoint}")
        assert (code, answer["servers"], answer["committed"]) == (3, [1, 2], None)


async def test_servers_that_the_file_does_not_know_are_no_silent_ones(
    tmp_path: Path, gf: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "AGAIN_SECONDS", 0.2)
    async with NodeFarm(tmp_path, servers=1) as farm:
        file = tmp_path / "admin-test.toml"
        code, answer = await gf("members", "remove", file, 1, "--force")
        assert (code, answer["outcome"]) == (1, "no")
        assert "the last server cannot leave its farm: stop the node" in answer["error"]
        for server in (2, 3):
            await sees(await joins(farm, server), *range(1, server + 1))
        code, text = await gf.text("members", "list", file)
        assert code == 0
        assert text.count("cannot be asked with this file") == 2
        assert text.count("[[servers]]") == 1
        assert f"{file} has no certificate fingerprint for servers 2, 3" in text
        for server, which in ((1, "servers 2, 3"), (2, "server 2")):
            code, answer = await gf("members", "remove", file, server)
            assert (code, answer["outcome"]) == (3, "no")
            assert f"has no certificate fingerprint for {which}: add" in answer["error"]
            assert "gf-i2p.toml" in answer["error"]
            assert "Start" not in answer["error"]
        assert ids(farm.nodes[1]) == [1, 2, 3]


async def test_a_server_that_nobody_started_is_given_up_and_said_to_be(
    tmp_path: Path, gf: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_members, "_AGAIN_SECONDS", 0.05)
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        await becomes("a change can begin", lambda: node.driver.core.change_obstacle is None)
        (port,) = free_ports(1)
        file = tmp_path / "admin-test.toml"
        code, answer = await gf("members", "add", file, f"5=tcp://127.0.0.1:{port}")
        assert (code, answer["outcome"]) == (1, "no")
        assert "the leader's files do not know the server" in answer["error"]
        assert node.driver.core.change_obstacle is None, "nothing was begun"
        assert node.driver.notice is not None
        assert "gf-i2p members accept DIR FILE" in node.driver.notice
        accept(farm.path(1), invite(farm.path(1), farm.directory, 5, Endpoint("127.0.0.1", port)).accept)
        reloaded(farm, 1)
        code, answer = await gf("members", "add", file, f"5=tcp://127.0.0.1:{port}")
        assert (code, answer["outcome"]) == (1, "unknown")
        assert "server 1, the leader, has given server 5 up" in answer["error"]
        assert 'on that machine "change_refused" in gf-i2p status DIR' in answer["error"]
        await becomes(
            "given up again", lambda: node.driver.notice is not None and "cannot be reached" in node.driver.notice
        )
        assert ids(node) == [1]


def configuration(index: int, *members: int) -> Configuration:
    return Configuration(index, 0, tuple(ClusterServer(each, f"tcp://h:{each}") for each in members))


class Farm:
    """Gives the answers of a `FarmClient`; the last survey and the last response stay."""

    def __init__(self, surveys: list[Survey], responses: list[Response | Exception]) -> None:
        self._surveys = surveys
        self._responses = responses
        self.asked: list[MessageType] = []

    async def find(self, *, timeout: float) -> FoundFarm:  # noqa: ASYNC109
        return FoundFarm(1, None, 1, ())

    async def survey(self, *, timeout: float) -> Survey:  # noqa: ASYNC109
        return self._surveys.pop(0) if len(self._surveys) > 1 else self._surveys[0]

    async def change_servers(self, request: Request, *, timeout: float) -> Response:  # noqa: ASYNC109
        self.asked.append(request.type)
        response = self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]
        if isinstance(response, Exception):
            raise response
        return response


def seen(index: int, *members: int, by: tuple[int, ...] = (1, 2, 3)) -> Survey:
    return Survey(dict.fromkeys(by, configuration(index, *members)), {}, {})


def says(leader: int, term: int, *, accepted: bool = True) -> Response:
    return Response(MessageType.ADD_SERVER_RESPONSE, leader, leader, term, 1, accepted=accepted)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_AGAIN_SECONDS", "_POLL_SECONDS", "_LEAVING_SECONDS"):
        monkeypatch.setattr(remote_members, name, 0.0)
    monkeypatch.setattr(remote_members, "CHANGE_SECONDS", 5.0)


async def changed(farm: Farm, *, add: int | None = None, remove: int | None = None) -> Any:
    remote = remote_members._Remote(cast(FarmClient, farm), Path("admin.toml"), through_i2p=False, ca=False, quiet=True)
    if add is not None:
        return await remote.add(argparse.Namespace(server=(add, Endpoint("h", add))))
    return await remote.remove(argparse.Namespace(id=remove, force=False))


@pytest.mark.usefixtures("impatient")
async def test_one_that_joins_is_waited_for_while_its_leader_is_busy_or_another_has_begun_anew() -> None:
    without, within = seen(1, 1, 2, 3), seen(2, 1, 2, 3, 4, by=(1, 2, 3, 4))
    farm = Farm(
        [without] * 6 + [within],
        [
            says(1, 5),
            says(1, 5, accepted=False),
            OutcomeUnknownError("it hung up"),
            says(2, 6),  # another server leads, and takes the change
            says(2, 6, accepted=False),
        ],
    )
    change = await changed(farm, add=4)
    assert change.sure
    assert len(farm.asked) == 6, "once to begin, and after each further look at the farm"


@pytest.mark.usefixtures("impatient")
async def test_one_that_is_in_when_it_is_asked_about_again_has_not_been_given_up() -> None:
    change = await changed(Farm([seen(1, 1, 2, 3), seen(2, 1, 2, 3, 4)], [says(1, 5)]), add=4)
    assert change.sure


@pytest.mark.usefixtures("impatient")
async def test_one_that_joins_is_not_waited_for_when_nobody_leads_any_more() -> None:
    farm = Farm([seen(1, 1, 2, 3)], [says(1, 5), NotCommittedError("server 2 knows no leader")])
    with pytest.raises(CommandError, match="server 2 knows no leader") as caught:
        await changed(farm, add=4)
    assert (caught.value.code, caught.value.outcome) == (Exit.DEGRADED, "unknown")


@pytest.mark.usefixtures("impatient")
async def test_a_removal_that_no_log_shows_is_not_waited_for_and_not_asked_for_again() -> None:
    farm = Farm([seen(1, 1, 2, 3)], [says(1, 5)])
    with pytest.raises(CommandError, match="every log that can be seen from here still has server 3") as caught:
        await changed(farm, remove=3)
    assert caught.value.outcome == "unknown"
    assert farm.asked == [MessageType.REMOVE_SERVER_REQUEST], "meanwhile it might cost the farm its majority"


def reloaded(farm: NodeFarm, server: int) -> Node:
    node = farm.nodes[server]
    assert node.reload(Config.load(farm.path(server)), Secrets.load(farm.path(server))) == []
    return node


async def test_others_are_told_whose_business_it_is(tmp_path: Path, gf: Typed) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        node = await farm.leader()
        client = tmp_path / "client-test.toml"
        for words in (["list", client], ["remove", client, 1], ["add", client, "2=tcp://h:1"], ["stepdown", client]):
            code, answer = await gf("members", *words)
            assert (code, answer["outcome"]) == (2, "no")
            assert "only an administrator may" in answer["error"]
        code, answer = await gf("members", "stepdown", tmp_path / "admin-test.toml")
        assert code == 2
        assert "no message" in answer["error"]
        nobody = tmp_path / "nobody.toml"
        nobody.touch(mode=0o600)
        nobody.write_text(client.read_text().replace('"client-test"', '"test"'))
        code, answer = await gf("members", "list", nobody)
        assert code == 2
        assert "names are server-ID" in answer["error"]
        # A client that lies about the role in the file logs in under the false name, and no server knows this user.
        liar = tmp_path / "liar.toml"
        liar.touch(mode=0o600)
        liar.write_text(client.read_text().replace('"client-test"', '"admin-test"'))
        code, answer = await gf("members", "remove", liar, 1, "--force")
        assert (code, answer["outcome"]) == (1, "no")
        assert "refuses user admin-test" in answer["error"]
        assert ids(node) == [1]


async def test_without_a_majority_nothing_is_changed_and_that_is_said_soon(tmp_path: Path, gf: Typed) -> None:
    file = tmp_path / "admin-test.toml"
    async with NodeFarm(tmp_path) as farm:
        await farm.leader()
        await farm.stop(1)
        await farm.stop(2)
        await becomes("no leader", lambda: farm.nodes[3].driver.core.leader not in {1, 2, 3})
        began = time.monotonic()
        code, answer = await gf("members", "list", file)
        assert (code, answer["leader"]) == (3, None)
        for words in (["remove", file, 1, "--force"], ["remove", file, 1], ["add", file, "4=tcp://127.0.0.1:1"]):
            code, answer = await gf("members", *words)
            assert (code, answer["outcome"]) == (3, "no")
            assert "nothing was changed" in answer["error"]
            assert "only 1 of the 3 servers can be reached from here (not 1, 2)" in answer["error"]
        code, text = await gf.text("members", "list", file)
        assert code == 3
        assert "no leader is found: only 1 of the 3 servers" in text
        assert time.monotonic() - began < PATIENCE, "all of them together"
        await farm.stop(3)
        code, answer = await gf("members", "list", file)
        assert code == 1
        assert "cannot be reached" in answer["error"]


async def test_a_majority_without_a_leader_is_not_waited_for_long(
    tmp_path: Path, gf: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_members, "_FIND_SECONDS", 0.5)
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()  # nobody calls an election soon
        leader = await farm.leader()
        await farm.stop(leader.driver.core.id)
        for node in farm.nodes.values():
            node.driver.core._state.leader = NOBODY
        code, answer = await gf("members", "remove", tmp_path / "admin-test.toml", leader.driver.core.id, "--force")
        assert (code, answer["outcome"]) == (3, "no")
        assert "nothing was changed, because no leader is found" in answer["error"]
