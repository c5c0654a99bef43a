"""Settings that are allowed and do harm."""

import time
from pathlib import Path

import pytest

from bridges.i2pcontrol.router_answers import RouterProgram
from gf_i2p.cli.doctor.checks import CheckState
from gf_i2p.cli.doctor.settings import listening_anywhere, session_result
from gf_i2p.node.files.file_names import CONFIG_FILE
from tests.cli.routers import Place, RunningNode, ScriptedRouter, having, remedy
from tests.netdb.test_router_info import build
from tests.transport.harness import Identity

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@pytest.mark.parametrize(
    ("options", "kind", "state", "text"),
    [
        ({}, RouterProgram.I2PD, "ok", "the router's own"),
        ({"inbound.quantity": "4", "inbound.length": "1"}, RouterProgram.I2PD, "ok", "no harmful option"),
        (
            {"inbound.quantity": "3"},
            RouterProgram.I2PD,
            "warn",
            "inbound.quantity = 3: i2pd may leave the node unpublished",
        ),
        ({"inbound.quantity": "3"}, None, "warn", "inbound.quantity = 3"),
        ({"inbound.quantity": "2"}, RouterProgram.JAVA, "ok", "no harmful option"),
        ({"i2cp.dontPublishLeaseSet": "true"}, RouterProgram.I2PD, "warn", "means the opposite to an i2pd"),
        (
            {"inbound.length": "0"},
            RouterProgram.JAVA,
            "warn",
            "inbound.length = 0: peers see which router is this node's",
        ),
        ({"inbound.nickname": "my farm"}, RouterProgram.JAVA, "fail", "inbound.nickname: has a space"),
    ],
)
def test_options_of_the_session(options: dict[str, str], kind: RouterProgram | None, state: str, text: str) -> None:
    result = session_result(options, kind)
    assert result.state == state
    assert text in result.text
    assert (result.remedy is None) is (state == "ok")


async def test_the_routers_own_file(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            assert "router info" not in await place.look()
            place.change(CONFIG_FILE, ('# info_file = "/var/lib/i2pd/router.info"', 'info_file = "router.info"'))
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"router info"}
            assert f"{place.directory / 'router.info'} cannot be read" in found["router info"].text
            assert "Correct info_file in [router]" in remedy(found["router info"])
            (place.directory / "router.info").write_bytes(build(published=int(time.time() * 1000)).data)
            found = await place.look()
    assert having(CheckState.FAIL, found) == {}
    assert "sees the router's IP addresses" in found["router info"].text


def test_what_listens_at_every_address() -> None:
    v4 = HEAD + (
        "   0: 0100007F:1DE8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
        "   1: 00000000:115C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1\n"
        "   2: 00000000:1DE6 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 3 1\n"
    )
    v6 = HEAD + (
        "   0: 00000000000000000000000000000000:1DE2 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4 1\n"
        "   1: 00000000000000000000000001000000:1DE3 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 5 1\n"
    )
    assert listening_anywhere([v4, v6]) == {4444, 7650}
    assert listening_anywhere([]) == set()


async def test_an_interface_that_other_machines_reach(
    tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path / "farm", router)
        table = tmp_path / "tcp"
        table.write_text(f"{HEAD}   0: 00000000:{router.ports['sam']:04X} 00000000:0000 0A 0:0 0:0 0 0 0 1 1\n")
        monkeypatch.setattr("gf_i2p.cli.doctor.settings._TABLES", (table,))
        async with RunningNode(place.directory):
            found = await place.look()
    assert having(CheckState.FAIL, found) == {}
    assert having(CheckState.WARN, found)["interfaces"].startswith(f"sam ({router.ports['sam']}): the router takes")


async def test_an_interface_on_another_machine(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        place.change(
            CONFIG_FILE, ("[router]\n", "[router]\nbeyond_loopback = true\n"), ("tcp://127.0.0.1", "tcp://192.0.2.1")
        )
        async with RunningNode(place.directory):
            found = await place.look()
    assert having(CheckState.WARN, found)["interfaces"].startswith("node.listen: beyond this machine")
