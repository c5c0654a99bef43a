"""`gf-i2p router-config`: the fewest lines for each router, and the check beside scripted routers."""

import json
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.doctor.remedies import certificate_compare
from gf_i2p.cli.doctor.router_lines import (
    I2PD_FILE,
    JAVA_CONSOLE,
    JAVA_NOTES,
    JAVA_PLUGIN,
    JAVA_PROXY,
    JAVA_ROUTER,
    JAVA_SAM,
    JAVA_SOCKS,
    JAVA_WEBAPPS,
    i2pd_lines,
    java_lines,
    java_notes,
)
from gf_i2p.cli.main import main
from gf_i2p.node.files.router_settings import RouterTable
from tests.cli.program import gf
from tests.cli.routers import Place, ScriptedRouter
from tests.transport.harness import Identity


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({}, ["[i2cp]", "enabled = true"]),
        ({"i2cp": "127.0.0.1:7000"}, ["[i2cp]", "enabled = true", "port = 7000"]),
        ({"sam": "[::1]:7656"}, ["[sam]", "address = ::1", "[i2cp]", "enabled = true"]),
        ({"way": "socks5", "proxy": "127.0.0.1:4447"}, ["[i2cp]", "enabled = true"]),
        ({"way": "socks5"}, ["[socksproxy]", "port = 4444", "[i2cp]", "enabled = true"]),
        (
            {"i2pcontrol": "https://127.0.0.1:7650/"},
            ["[i2cp]", "enabled = true", "[i2pcontrol]", "enabled = true", "password = …"],
        ),
        (
            {"i2pcontrol": "https://localhost/"},
            ["[i2cp]", "enabled = true", "[i2pcontrol]", "enabled = true", "port = 443", "password = …"],
        ),
        (
            {"i2pcontrol": "https://router.example:7650/"},
            ["[i2cp]", "enabled = true", "[i2pcontrol]", "enabled = true", "address = …", "password = …"],
        ),
    ],
)
def test_i2pd_is_told_only_what_it_does_not_do_by_itself(settings: dict[str, Any], lines: list[str]) -> None:
    assert i2pd_lines(RouterTable(**settings)) == {I2PD_FILE: lines}


_SAM_ON = {JAVA_SAM: ["clientApp.0.startOnLoad=true"]}
_JSONRPC_ON = {JAVA_WEBAPPS: ["webapps.jsonrpc.startOnLoad=true"]}
_FINGERPRINT = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ({}, {}),
        ({"sam": "127.0.0.1:7001"}, {JAVA_SAM: [*_SAM_ON[JAVA_SAM], "clientApp.0.args=sam.keys 127.0.0.1 7001"]}),
        ({"i2cp": "127.0.0.1:7000"}, {JAVA_ROUTER: ["i2cp.port=7000"]}),
        ({"i2cp": "[::1]:7654"}, {JAVA_ROUTER: ["i2cp.hostname=::1"]}),
        ({"i2cp_fingerprint": _FINGERPRINT}, {JAVA_ROUTER: ["i2cp.SSL=true"]}),
        ({"proxy": "127.0.0.2:4445"}, {JAVA_PROXY: ["interface=127.0.0.2", "listenPort=4445"]}),
        (
            {"way": "socks5", "proxy": "127.0.0.1:4447"},
            {
                JAVA_SOCKS: [
                    *("name=SOCKS", "type=sockstunnel", "sharedClient=true"),
                    *("interface=127.0.0.1", "listenPort=4447"),
                ]
            },
        ),
        ({"i2pcontrol": "http://127.0.0.1:7657/jsonrpc/"}, _JSONRPC_ON),
        ({"i2pcontrol": "http://[::1]:7657/jsonrpc/"}, _JSONRPC_ON),
        (
            {"i2pcontrol": "http://localhost:7000/jsonrpc/"},
            {**_JSONRPC_ON, JAVA_CONSOLE: ["clientApp.0.args=7000 127.0.0.1 ./webapps/"]},
        ),
        (
            {"i2pcontrol": "https://127.0.0.1:7667/jsonrpc/"},
            {**_JSONRPC_ON, JAVA_CONSOLE: ["clientApp.0.args=7657 ::1,127.0.0.1 -s 7667 127.0.0.1 ./webapps/"]},
        ),
        ({"i2pcontrol": "https://127.0.0.1:7650/"}, {}),
        ({"i2pcontrol": "https://127.0.0.1:7000/"}, {JAVA_PLUGIN: ["i2pcontrol.listen.port=7000"]}),
    ],
)
def test_java_is_told_only_what_it_does_not_do_by_itself(settings: dict[str, Any], lines: dict[str, list[str]]) -> None:
    assert java_lines(RouterTable(**settings)) == {**_SAM_ON, **lines}


@pytest.mark.parametrize(
    ("url", "plugin"), [(None, False), ("http://127.0.0.1:7657/jsonrpc/", False), ("https://127.0.0.1:7650/", True)]
)
def test_the_plugin_is_named_when_the_console_does_not_have_i2pcontrol(url: str | None, plugin: bool) -> None:
    notes = java_notes(RouterTable(i2pcontrol=url))
    assert tuple(notes[: len(JAVA_NOTES)]) == JAVA_NOTES
    assert ["plugin I2PControl" in note for note in notes[len(JAVA_NOTES) :]] == ([True] if plugin else [])


def test_the_certificate_of_the_console_is_not_that_of_the_plugin() -> None:
    assert "certificates/console/*.crt" in certificate_compare("https://127.0.0.1:7667/jsonrpc/").java
    assert "keytool" in certificate_compare("https://127.0.0.1:7650/").java


def test_what_is_printed_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["router-config", "--i2pd"]) == 0
    assert capsys.readouterr().out == (
        "# i2pd.conf\n[i2cp]\nenabled = true\n# then: systemctl restart i2pd; gf-i2p router-config --i2pd --check\n"
    )
    assert main(["router-config", "--java"]) == 0
    head, line, *comments = capsys.readouterr().out.splitlines()
    assert (head, line) == (f"# {JAVA_SAM}", "clientApp.0.startOnLoad=true")
    assert all(comment.startswith("# ") for comment in comments)
    assert "# SAM answers two minutes after each start of the router." in comments
    assert main(["router-config", "--java", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"ok": True, "router": "java", "files": _SAM_ON, "notes": list(JAVA_NOTES)}


def test_the_kind_of_router_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["router-config"])
    assert left.value.code == 2
    assert "--i2pd" in capsys.readouterr().err


@pytest.mark.parametrize("java", [False, True], ids=["i2pd", "java"])
async def test_the_running_router_is_checked(tmp_path: Path, identity: Identity, java: bool) -> None:
    kind, other = ("--java", "--i2pd") if java else ("--i2pd", "--java")
    async with ScriptedRouter(identity, java=java) as router:
        place = Place(tmp_path, router)
        code, output, _ = await gf("router-config", kind, place.directory, "--check", "--json")
        found = {check["name"]: check["state"] for check in json.loads(output)["checks"]}
        assert (code, set(found.values())) == (0, {"ok"}), output
        assert {"router", "proxy", "SAM", "I2CP", "clock", "i2pcontrol"} <= found.keys()
        code, output, _ = await gf("router-config", other, place.directory, "--check", "--json")
        answer = json.loads(output)
        found = {check["name"]: check["state"] for check in answer["checks"]}
        assert (code, found["I2CP"]) == (1, "fail"), "another kind of router than the operator thinks"
        assert (answer["ok"], answer["outcome"]) == (False, "no")
        assert "checks failed, and the first is " in answer["error"]
        code, output, _ = await gf("router-config", other, place.directory, "--check")
        assert f'[router] kind = "{kind[2:]}"; for router-config, {kind}' in " ".join(output.split())


async def test_the_check_that_is_named_is_of_the_same_directory(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        _, output, _ = await gf("router-config", "--i2pd", place.directory)
    assert output.endswith(f"gf-i2p router-config --i2pd --check {place.directory}\n")


async def test_an_interface_that_is_off_is_named(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity, without=("i2cp",)) as router:
        place = Place(tmp_path, router)
        code, output, _ = await gf("router-config", "--i2pd", "--check", place.directory)
    assert code == 1
    assert "section [i2cp]: enabled = true" in " ".join(output.split())
    assert "Java" not in output, "advice for a router that the operator does not have"
