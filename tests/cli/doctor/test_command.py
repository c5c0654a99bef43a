"""`gf-i2p doctor` beside scripted routers: all is well; each fault by itself is named, and nothing else is blamed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.doctor.checks import CheckResult, CheckState
from gf_i2p.cli.doctor.command import all_checks
from gf_i2p.cli.main import main
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.wire.endpoint import Endpoint
from tests.cli.program import gf
from tests.cli.routers import Place, RunningNode, ScriptedRouter, having, remedy
from tests.transport.harness import Identity

BOTH = pytest.mark.parametrize("java", [False, True], ids=["i2pd", "java"])


def only(results: dict[str, CheckResult], name: str, skipped: set[str] | None = None) -> CheckResult:
    """Check that this check alone fails, and that only `skipped` were passed over."""
    assert set(having(CheckState.FAIL, results)) == {name}, having(CheckState.FAIL, results)
    assert set(having(CheckState.SKIP, results)) == (skipped or set())
    assert having(CheckState.WARN, results) == {}
    return results[name]


@BOTH
async def test_all_is_well(tmp_path: Path, identity: Identity, java: bool) -> None:
    async with ScriptedRouter(identity, java=java) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            results = await place.look()
    assert having(CheckState.OK, results).keys() == results.keys(), results
    kind = "Java I2P" if java else "i2pd"
    assert results["node"].text == "follows server 2, reaches 3 of 3 servers, up 1:02:05"
    assert results["log"].text == f"in use by process {os.getpid()}"
    assert results["proxy"].text.startswith(f"{kind}'s HTTP proxy at 127.0.0.1:")
    assert results["I2CP"].text.startswith(f"{kind} at 127.0.0.1:")
    assert results["i2pcontrol"].text.startswith(f"{kind} 2.")
    assert results["server 2"].text.startswith(f"{place.peers[0]} lets this node in (")
    assert results["own address"].text.startswith(f"{place.own} has a current lease set (")
    assert [result.remedy for result in results.values()] == [None] * len(results)
    # Every peer is asked twice, for a challenge and with the answer; nobody else is asked for anything.
    assert sorted(router.asked) == sorted(["gf--doctor.i2p", *place.peers, *place.peers])
    assert [method for method in router.control.methods if method not in {"Authenticate", "RouterInfo"}] in (
        ["NetworkSetting"],
        ["NetworkSetting", "GetRate"],
    ), "questions only, none that changes anything"
    assert not router.i2cp.sessions


@BOTH
@pytest.mark.parametrize(
    ("interface", "name", "skipped", "i2pd", "for_java"),
    [
        ("proxy", "proxy", {"server 2", "server 3", "time-outs"}, "[httpproxy]: enabled = true", "I2P HTTP Proxy"),
        ("sam", "SAM", set(), "[sam]: enabled = true", "SAM application bridge"),
        ("i2cp", "I2CP", {"clock", "own address", "leaf"}, "[i2cp]: enabled = true", "i2cp.disableInterface=false"),
        ("i2pcontrol", "i2pcontrol", set(), "[i2pcontrol]: enabled = true", "jsonrpc"),
    ],
)
async def test_an_interface_that_is_off(
    tmp_path: Path,
    identity: Identity,
    java: bool,
    interface: str,
    name: str,
    skipped: set[str],
    i2pd: str,
    for_java: str,
) -> None:
    async with ScriptedRouter(identity, java=java, without=(interface,)) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            results = await place.look()
    result = only(results, name, skipped)
    assert results["router"].text == "runs: 3 of 4 interfaces take connections"
    assert result.text == f"nobody answers at 127.0.0.1:{router.ports[interface]} (Connection refused)"
    assert result.remedy is not None
    assert i2pd in result.remedy.i2pd
    assert for_java in result.remedy.java


@BOTH
async def test_a_wrong_password_of_i2pcontrol(tmp_path: Path, identity: Identity, java: bool) -> None:
    async with ScriptedRouter(identity, java=java) as router:
        place = Place(tmp_path, router)
        place.change(SECRETS_FILE, ('"recorded"', '"wrong"'))
        async with RunningNode(place.directory):
            results = await place.look()
    result = only(results, "i2pcontrol")
    assert result.text == "the router refuses the password"
    assert "section [i2pcontrol], into secrets.toml: i2pcontrol_password" in remedy(result)
    assert "/password" in remedy(result)
    assert "wrong" not in str(results)
    assert "recorded" not in str(results)


async def test_a_router_that_does_not_run_is_one_fault_and_not_four(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity, without=("proxy", "sam", "i2cp", "i2pcontrol")) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            results = await place.look()
    assert set(having(CheckState.FAIL, results)) == {"router"}
    assert "systemctl start i2pd" in remedy(results["router"])
    assert "i2prouter start" in remedy(results["router"])
    assert having(CheckState.SKIP, results)["SAM"] == "not looked at: this check needs router"


async def test_a_certificate_that_is_not_the_configured_one(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        place.change(CONFIG_FILE, (router.fingerprint, "sha256:" + "0" * 64))
        async with RunningNode(place.directory):
            result = only(await place.look(), "i2pcontrol")
            assert result.text.startswith("shows another certificate than the configured one")
            assert result.text.endswith(router.fingerprint)
            assert "openssl x509" in remedy(result)
            assert "keytool" in remedy(result)
            place.change(CONFIG_FILE, ('\ni2pcontrol_fingerprint = "sha256:' + "0" * 64 + '"', ""))
            result = only(await place.look(), "i2pcontrol")
    assert result.text.startswith("shows a certificate that nothing vouches for, so nothing was sent")
    assert router.control.methods == []


@pytest.mark.parametrize(("ahead", "state"), [(30, "ok"), (-90, "warn"), (200, "fail"), (-200, "fail")])
async def test_clocks(tmp_path: Path, identity: Identity, ahead: float, state: str) -> None:
    async with ScriptedRouter(identity, ahead=ahead) as router:
        place = Place(tmp_path, router)
        result = (await place.look())["clock"]
    assert result.state == state
    which = "ahead of" if ahead > 0 else "behind"
    assert result.text.startswith("the router's clock is ")
    assert f" s {which} this machine's" in result.text


async def test_a_router_that_is_not_the_configured_one(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        place.change(CONFIG_FILE, ('# kind = "i2pd"', 'kind = "java"'))
        async with RunningNode(place.directory):
            result = only(await place.look(), "I2CP", {"own address", "leaf"})
    assert 'the router is i2pd, and the configuration says kind = "java"' in result.text


async def test_without_publishing_i2cp_and_i2pcontrol_may_be_off(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity, without=("i2cp", "i2pcontrol")) as router:
        place = Place(tmp_path, router)
        place.change(CONFIG_FILE, ('mode = "meta"', 'mode = "off"'), ("\ni2pcontrol = ", "\n# i2pcontrol = "))
        place.change(CONFIG_FILE, ("\ni2pcontrol_fingerprint", "\n# i2pcontrol_fingerprint"))
        async with RunningNode(place.directory):
            assert set(having(CheckState.FAIL, await place.look())) == {"I2CP"}, (
                "a leaf's lease set is looked for by I2CP"
            )
            place.change(CONFIG_FILE, ("\nleaf = ", "\n# leaf = "))
            results = await place.look()
    assert having(CheckState.FAIL, results) == {}
    assert "only publishing, and the search for lease sets, need I2CP" in having(CheckState.WARN, results)["I2CP"]
    assert set(having(CheckState.SKIP, results)) == {"clock", "own address", "i2pcontrol"}


async def test_an_interface_that_is_silent_is_given_up(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        router.silent.add("sam")
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            result = only(await place.look(SAM=0.2), "SAM")
    assert result.text == "no result within 0.2 s"
    assert "[sam]" in remedy(result)


@pytest.mark.parametrize(
    ("said", "text"),
    [(b"", "closes the connection"), (b"SSH-2.0-OpenSSH_9.2\n", "answered HELLO VERSION with something else")],
)
async def test_sam_is_something_else(tmp_path: Path, identity: Identity, said: bytes, text: str) -> None:
    async with ScriptedRouter(identity) as router:
        router.sam_says = said
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            result = only(await place.look(), "SAM")
    assert text in result.text


# --- The node -------------------------------------------------------------------------------------------------------


async def test_a_node_that_does_not_run(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        before = {path: path.stat().st_mtime_ns for path in place.directory.iterdir()}
        results = await place.look()
    assert having(CheckState.FAIL, results) == {}
    assert having(CheckState.WARN, results) == {"node": "does not run"}
    assert having(CheckState.SKIP, results) == {"own address": "not looked for: the address exists while the node runs"}
    assert results["log"].text == "0 entries, term 0"
    assert {path: path.stat().st_mtime_ns for path in place.directory.iterdir()} == before, "nothing is written"


async def test_a_node_that_holds_the_log_and_does_not_answer(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            (place.directory / "node.sock").unlink()
            result = only(await place.look(), "node", {"own address"})
    assert result.text == f"process {os.getpid()} holds the log, and does not answer on node.sock"


async def test_a_farm_without_quorum_is_a_warning(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        quorum = {"reachable": 1, "needed": 2, "servers": 3}
        async with RunningNode(place.directory, leader=None, healthy=False, quorum=quorum):
            results = await place.look()
    assert having(CheckState.WARN, results) == {
        "node": "no leader is known, reaches 1 of 3 servers, up 1:02:05; 2 are needed"
    }


async def test_an_address_that_nobody_finds(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        router.i2cp.netdb.clear()
        async with RunningNode(place.directory):
            results = await place.look()
        assert set(having(CheckState.FAIL, results)) == {"own address", "leaf"}
        assert "inbound.quantity" in remedy(results["own address"])
        assert "tunnels.conf" in remedy(results["leaf"])
        async with RunningNode(place.directory, uptime=20.0):
            results = await place.look()
    assert "the node has run for 20 s only" in having(CheckState.WARN, results)["own address"]


# --- The command ----------------------------------------------------------------------------------------------------


async def test_the_command(tmp_path: Path, identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    async with ScriptedRouter(identity, without=("sam",)) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            code, output, error = await gf("doctor", place.directory)
            assert (code, error) == (1, "")
            lines = output.splitlines()
            assert any(line.startswith("  fail  SAM              nobody answers at 127.0.0.1:") for line in lines)
            assert lines[-1].startswith("To mend: SAM (22 ok).")
            assert "\x1b" not in output
            assert max(map(len, lines)) <= 80
            code, output, error = await gf("doctor", place.directory, "--json")
    answer: dict[str, Any] = json.loads(output)
    assert (code, error, answer["ok"]) == (1, "", False)
    sam = next(check for check in answer["checks"] if check["name"] == "SAM")
    assert set(sam) == {"name", "state", "text", "remedy"}
    assert (sam["state"], set(sam["remedy"])) == ("fail", {"i2pd", "java"})


def test_a_directory_that_is_no_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError):
        all_checks(tmp_path)
    assert main(["doctor", str(tmp_path)]) == 1
    assert f"there is no {CONFIG_FILE} in it" in capsys.readouterr().err
    assert main(["doctor", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    with pytest.raises(SystemExit) as raised:
        main(["doctor"])
    assert raised.value.code == 2


async def test_a_node_without_router_publishes_nothing_and_hears_so(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[])
    [check] = [each for group in all_checks(tmp_path / "server-1") for each in group if each.name == "publishing"]
    result = await check.look()
    assert (result.state, result.text[:4]) == (CheckState.OK, "off:")
