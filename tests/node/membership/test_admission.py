"""Admissions at running nodes: each server checks an admission of the log by itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.admission import Admission, Ticket
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files import admitted
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.membership import invitation
from gf_i2p.node.membership.admission import AdmissionRefusedError
from gf_i2p.node.recovery.farm_of_one import recover
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import becomes
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import removes, sees

TICKETS, OWN = LoginKey(bytes([2] * 32)), LoginKey(bytes([3] * 32))


def admission(
    admin: LoginKey, server: int = 7, *, until_ms: int | None = None, endpoint: str | None = None
) -> Admission:
    until_ms = now_ms() + 60_000 if until_ms is None else until_ms
    endpoint = endpoint or f"tcp://127.0.0.1:{9000 + server}"
    ticket = Ticket(server, endpoint, until_ms, "admin-test", TICKETS.public.raw)
    ticket = replace(ticket, signature=admin.sign(ticket.signed_text("farm")))
    told = Admission(ticket, endpoint, f"sha256:{'ab' * 32}", OWN.public.raw)
    return replace(told, signature=TICKETS.sign(told.signed_text("farm")))


async def say(farm: NodeFarm, *admissions: Admission, date_ms: int | None = None) -> None:
    """Have the leader append admissions without a check, as a leader with bad intentions would."""
    leader = await farm.leader()
    date_ms = now_ms() if date_ms is None else date_ms
    entries = [AdminEntry("farm", date_ms, "server-1", "admit", admission=each).encode() for each in admissions]
    index = await leader.driver.post(entries, seconds=20)
    for node in farm.nodes.values():
        await node.farm_tasks.view.reaches(index)


def known(farm: NodeFarm) -> set[tuple[int, ...]]:
    """Return the ids that the files of the servers know, and the users, for each server."""
    return {tuple(server.id for server in Config.load(farm.path(each)).servers) for each in farm.endpoints}


def admin_of(farm: NodeFarm) -> LoginKey:
    return ClientFile.load(farm.directory / "admin-test.toml").login.keys[0]  # type: ignore[return-value]


async def test_not_even_the_leader_admits_a_server_without_an_administrator(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        admin = admin_of(farm)
        stolen = replace(admission(admin, 8), key=TICKETS.public.raw)  # a right ticket, and another server's key
        await say(farm, admission(OWN), stolen, admission(admin, 9, until_ms=now_ms() - 1))
        await say(farm, admission(admin, 10))
        await becomes("all know server 10, and no other", lambda: known(farm) == {(1, 2, 3, 10)})
        for server, node in farm.nodes.items():
            assert node._user_keys.in_force["server-10"] == OWN.public
            assert not {"server-7", "server-8", "server-9"} & node._user_keys.in_force.keys()
            assert [each.id for each in admitted.load(farm.path(server))] == [10]


async def test_a_server_that_was_away_learns_of_admissions_later(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await farm.calm()
        away = (await farm.follower()).driver.core.id
        await farm.stop(away)
        await say(farm, admission(admin_of(farm)))
        node = await farm.start(away)
        await becomes("the server knows server 7", lambda: "server-7" in node._user_keys.in_force)
        await becomes("all know server 7", lambda: known(farm) == {(1, 2, 3, 7)})
        assert node.reload(Config.load(farm.path(away)), Secrets.load(farm.path(away))) == []


async def test_the_operators_files_win(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path, servers=1) as farm:
        path = farm.path(1) / CONFIG_FILE
        text = path.read_text()
        path.write_text(text + "\n[[removed]]\nid = 7\n")
        node = farm.nodes[1]
        node.reload(Config.load(farm.path(1)), Secrets.load(farm.path(1)))
        await say(farm, admission(admin_of(farm)), admission(admin_of(farm), 8))
        await becomes("the server knows server 8 only", lambda: known(farm) == {(1, 8)})
        path.write_text(text)
        assert node.reload(Config.load(farm.path(1)), Secrets.load(farm.path(1))) == []
        assert known(farm) == {(1, 8, 7)}
        admitted.forget(farm.path(1))
        assert node.reload(Config.load(farm.path(1)), Secrets.load(farm.path(1))) == []
        assert {frozenset(each) for each in known(farm)} == {frozenset({1, 7, 8})}, "the log still has the admissions"


async def test_invitations_by_files_pass_on_admitted_servers_and_a_farm_of_one_forgets_them(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path / "farm", servers=1) as farm:
        await say(farm, admission(admin_of(farm)))
        await becomes("the server knows server 7", lambda: known(farm) == {(1, 7)})
        invitation.invite(
            farm.path(1), tmp_path / "new", 4, Endpoint("127.0.0.1", 9), voters_of=lambda _: frozenset({1})
        )
        new = tmp_path / "new" / "server-4"
        assert [server.id for server in Config.load(new).servers] == [1, 7, 4]
        assert "server-7" in Secrets.load(new).users
    recover(farm.path(1))
    assert [server.id for server in Config.load(farm.path(1)).servers] == [1]
    assert "server-7" not in Secrets.load(farm.path(1)).users


async def test_a_newcomer_takes_the_place_of_a_server_that_has_left_and_of_no_member(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        leader, admin = await farm.calm(), admin_of(farm)
        own = leader.driver.core.id
        gone, other = (server for server in farm.nodes if server != own)
        place = str(farm.endpoints[gone])
        told = f"server {gone} has the endpoint {place}, and belongs to the farm"
        with pytest.raises(AdmissionRefusedError, match=f"{told}.* gf-i2p members remove admin-test.toml {gone} --fo"):
            await leader.admissions.admit(admission(admin, endpoint=place))
        await say(farm, admission(admin, endpoint=place), admission(admin, 8))
        await becomes("all know server 8, and all three have kept their places", lambda: known(farm) == {(1, 2, 3, 8)})
        assert all(f"server-{gone}" in Secrets.load(farm.path(each)).users for each in (own, other))
        assert all("server-7" not in Secrets.load(farm.path(each)).users for each in (own, other))

        await farm.stop(gone)
        await becomes("a change can begin", lambda: leader.driver.core.change_obstacle is None)
        assert await removes(leader, gone)
        for server in (own, other):
            await sees(farm.nodes[server], own, other)
        answer = await leader.admissions.admit(admission(admin, 9, endpoint=place))
        assert (sorted(each["id"] for each in answer["servers"]), answer["removed"]) == (
            sorted({own, other, 8}),
            [gone],
        )
        assert f"server-{gone}" not in answer["users"]
        with pytest.raises(AdmissionRefusedError, match="server 9 is to join at"):
            await leader.admissions.admit(admission(admin, 10, endpoint=place))
        for server in (own, other):
            node, path = farm.nodes[server], farm.path(server)
            await becomes("the old server has no login", lambda n=node: f"server-{gone}" not in n._user_keys.in_force)  # type: ignore[misc]
            config, secrets = Config.load(path), Secrets.load(path)
            assert {each.id: each.endpoint for each in config.servers}[9] == place
            assert ({each.id for each in config.servers}, [each.id for each in config.removed]) == (
                {own, other, 8, 9},
                [gone],
            )
            assert ("server-9" in secrets.users, f"server-{gone}" in secrets.users) == (True, False)
            assert node.reload(config, secrets) == []


async def test_a_place_passes_on_by_codes_and_then_by_files(tmp_path: Path) -> None:
    """Servers 2, 4 and 5 have the same endpoint, one after another."""
    async with NodeFarm(tmp_path / "farm", servers=2) as farm:
        leader, admin = await farm.calm(), admin_of(farm)
        own = leader.driver.core.id
        gone = 3 - own
        place, path = farm.endpoints[gone], farm.path(own)
        await becomes("a change can begin", lambda: leader.driver.core.change_obstacle is None)
        assert await removes(leader, gone)
        await sees(leader, own)
        await farm.stop(gone)
        await leader.admissions.admit(admission(admin, 4, endpoint=str(place)))
        new = invitation.invite(path, tmp_path / "new", 5, place, voters_of=lambda _: frozenset({own}))
        assert new.left_out == 4
        assert invitation.accept(path, new.accept, voters_of=lambda _: frozenset({own})).dropped == 4
        for directory in (path, new.server):
            config, secrets = Config.load(directory), Secrets.load(directory)
            assert [each.id for each in config.servers] == [own, 5]
            assert {each.id for each in config.removed} == {gone, 4}
            assert not {f"server-{gone}", "server-4"} & secrets.users.keys()
