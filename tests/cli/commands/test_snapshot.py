"""`gf-i2p snapshot`: as people type the command, and the answers to hostile files."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.cli.main import main
from gf_i2p.farm.state import FarmState
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.private_files import write_durably
from gf_i2p.storage.snapshot_file import SavedSnapshot
from gf_i2p.wire.log_values import ClusterServer, Configuration
from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, gf, gf_json
from tests.farm.strategies import leaf, record


def state() -> bytes:
    found = FarmState("farm")
    found.configure([1, 2])
    found.apply(record(1, leaf(1)).encode(), 1)
    found.last_published_ms = 1_795_000_000_000
    return found.encode()


def saved(data: bytes | None = None, *, endpoint: str = "tcp://192.0.2.1:9001", **changes: Any) -> SavedSnapshot:
    configuration = Configuration(1, 0, (ClusterServer(1, endpoint), ClusterServer(2, "tcp://h:2")))
    values = {"reached": 9, "saved_ms": 1_795_000_001_000, "committed": 51, **changes}
    return SavedSnapshot("farm", 2, snapshot=Snapshot(51, 8, configuration, data or state()), **values)


def put(path: Path, one: SavedSnapshot) -> Path:
    write_durably(path, one.encode(), force=True)
    return path


def test_inspect_shows_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "s", saved())
    assert main(["snapshot", "inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "farm     farm, entries up to 51 of term 8\n" in text
    assert "saved    2026-11-18 11:06:41 UTC by server 2, then in term 9" in text
    assert "state    1 status records" in text
    assert "publish  last at 2026-11-18 11:06:40 UTC" in text
    assert "  1  tcp://192.0.2.1:9001" in text
    assert "checksum ok" in text
    assert main(["snapshot", "inspect", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "ok": True, "file": str(path), "checksum": "ok", "cluster": "farm", "index": 51, "term": 8, "committed": 51,
        "servers": [{"id": 1, "endpoint": "tcp://192.0.2.1:9001"}, {"id": 2, "endpoint": "tcp://h:2"}],
        "records": 1, "published": 1_795_000_000.0, "bytes": len(state()), "saved": 1_795_000_001.0, "saved_by": 2,
        "reached_term": 9,
    }  # fmt: skip
    put(path, saved(committed=40))
    assert main(["snapshot", "inspect", str(path)]) == 0
    assert "those after 40 perhaps never committed" in capsys.readouterr().out


STATES = [
    b"[]",
    b"{}",
    b"\xff",
    b"[" * 100_000,
    b'{"format":1}',
    b'{"format":2}',
    b'{"format":"\x1b[2J"}',
    b'{"format":' + b"9" * 5000 + b"}",
    *(
        state().replace(good, bad)
        for good, bad in (
            (b'"format":2', b'"format":1'),
            (b'"servers":[1,2]', b'"servers":[1e999]'),
            (b'"servers":[1,2]', b'"servers":[-1]'),
            (b'"servers":[1,2]', b'"servers":[true]'),
            (b'"servers":[1,2]', b'"servers":[2]'),
            (b'"lastPublishedTime":1795000000000', b'"lastPublishedTime":Infinity'),
            (b'"lastPublishedTime":1795000000000', b'"lastPublishedTime":NaN'),
            (b'"lastPublishedTime":1795000000000', b'"lastPublishedTime":1e30'),
            (b'"posters":[{', b'"posters":["x",{'),
            (b'"posters":[{', b'"posters":[{},{'),
            (b'"value":"', b'"value":"\\ud800'),
            (b'"value":"', b'"value":7,"was":"'),
            (b'"posters":', b'"posters":7,"were":'),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("data", STATES, ids=range(len(STATES)))
def test_a_state_that_is_none_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    path = put(tmp_path / "s", saved(data))
    for command in (["inspect", str(path)], ["restore", str(path), str(tmp_path)]):
        assert main(["snapshot", *command, "--json"]) == 1
        answer = json.loads(capsys.readouterr().out)
        assert "cannot be used" in answer["error"]
        assert "\x1b" not in answer["error"]


@given(st.binary(max_size=200))
def test_no_state_leads_to_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = put(tmp_path_factory.getbasetemp() / "fuzzed", saved(b'{"format":2,' + data))
    assert main(["snapshot", "inspect", str(path)]) == 1


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89GFS\r\n\x1a\n", b"\x89GFS\r\n\x1a\n\0\0\0\x07"])
def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    assert main(["snapshot", "inspect", str(path)]) == (2 if content == b"hello" else 1), "damaged, or none at all"
    assert f"{path} cannot be used: it " in capsys.readouterr().err
    assert main(["snapshot", "inspect", str(tmp_path)]) == 2
    assert "it is not a regular file" in capsys.readouterr().err
    assert main(["snapshot", "inspect", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_restoring_is_not_done_by_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["init", str(tmp_path), "--server", "1=tcp://127.0.0.1:9001", "--server", "2=tcp://127.0.0.1:9002"]) == 0
    )
    node = tmp_path / "server-1"
    path = put(tmp_path / "s", saved())
    before = {each: each.read_bytes() for each in node.iterdir() if not each.name.endswith("-lock")}
    for words, code, says in (
        ([], 2, "--confirm farm"),
        (["--confirm", "other"], 2, "nothing was changed"),
    ):
        assert main(["snapshot", "restore", str(path), str(node), *words]) == code
        assert says in capsys.readouterr().err
    assert {each: each.read_bytes() for each in node.iterdir() if not each.name.endswith("-lock")} == before
    assert main(["snapshot", "restore", str(path), str(node), "--confirm", "farm", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    assert answer["index"] == 52
    assert (Path(answer["backup"]) / DATABASE_FILE).exists()
    assert main(["snapshot", "save", str(node), str(tmp_path / "again")]) == 0
    assert "entries up to 52 of term" in capsys.readouterr().out
    assert main(["history", "verify", str(node)]) == 0
    assert "restored 1 to 51" in capsys.readouterr().out


def test_a_wrong_name_is_noticed_before_anything_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "s", saved())
    assert main(["snapshot", "restore", str(path), str(tmp_path / "nowhere"), "--confirm", "other"]) == 2
    assert "not the farm's name" in capsys.readouterr().err


def test_what_is_typed_on_a_terminal_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        main(["init", str(tmp_path), "--server", "1=tcp://127.0.0.1:9001", "--server", "2=tcp://127.0.0.1:9002"]) == 0
    )
    path = put(tmp_path / "s", saved(committed=40))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    for typed, code in (("no", 2), (None, 2), ("farm", 0)):

        def typing(_: str, typed: str | None = typed) -> str:
            if typed is None:
                raise EOFError
            return typed

        monkeypatch.setattr("builtins.input", typing)
        assert main(["snapshot", "restore", str(path), str(tmp_path / "server-2")]) == code
        text = capsys.readouterr().out
        assert "Everything after entry 51 is forgotten" in text
        assert "Server 1 and any other server of the old farm must never run again" in text
        assert "the entries after 40 were perhaps never committed" in text


def test_saving_says_what_is_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path), "--server", "1=tcp://127.0.0.1:9001"]) == 0
    node, path = tmp_path / "server-1", tmp_path / "s"
    capsys.readouterr()
    for words, says in (
        ([tmp_path, path], "is a farm's directory: name one of its servers"),
        ([node, path], "is empty: there is nothing to save yet"),
        ([node, tmp_path / "none" / "s"], "none is not a directory"),
        ([node, tmp_path, "--force"], f"{tmp_path} is a directory: name a file"),
    ):
        assert main(["snapshot", "save", *map(str, words)]) == 1
        assert says in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.slow  # three nodes; tests/node/recovery/test_restore.py restores in one process
async def test_a_farm_is_saved_lost_and_begun_anew(tmp_path: Path) -> None:
    with LocalFarm(tmp_path) as farm:
        farm.start_all()
        leader = await farm.calm()
        code, posted = await gf_json("post", farm.node(leader), '{"kept": 1}')
        assert code == 0
        file = tmp_path / "farm.snapshot"
        code, answer = await gf_json("snapshot", "save", farm.node(leader), file)
        assert (code, answer["running"], answer["leader"]) == (0, True, leader)
        assert answer["index"] == answer["committed"] >= posted["index"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        code, failure = await gf_json("snapshot", "save", farm.node(leader), file)
        assert code == 1
        assert "--force" in failure["error"]
        code, _ = await gf_json("snapshot", "save", farm.node(leader), file, "--force")
        assert code == 0
        code, failure = await gf_json("snapshot", "restore", file, farm.node(1), "--confirm", "farm")
        assert code == 1
        assert f"(process {farm.pid(1)})" in failure["error"]
        code, _ = await gf_json("post", farm.node(leader), '{"lost": 1}')
        assert code == 0
        for server in farm.ids:
            farm.kill(server)
        code, failure = await gf_json("snapshot", "restore", file, farm.node(1), "--confirm", "farm")
        assert code == 1
        assert "gf-i2p recover" in failure["error"]
        for server in farm.ids:  # now all logs are lost
            for path in farm.node(server).glob(DATABASE_FILE + "*"):
                path.unlink()
        code, answer = await gf_json("snapshot", "restore", file, farm.node(1), "--confirm", "farm")
        assert code == 0
        farm.start(1)
        await until("it leads", PATIENCE, lambda: leads(farm, 1))
        code, posted = await gf_json("post", farm.node(1), '{"new": 1}')
        assert (code, posted["index"]) == (0, answer["index"] + 2)
        code, text, _ = await gf("history", "verify", farm.node(1))
        assert code == 0
        assert f"restored 1 to {answer['index'] - 1}" in text


@pytest.mark.slow  # three more nodes
async def test_a_node_without_a_leader_says_what_the_file_may_lack(tmp_path: Path) -> None:
    with LocalFarm(tmp_path) as farm:
        farm.start_all()
        await farm.leader()
        code, _ = await gf_json("post", farm.node(1), "x")
        assert code == 0
        farm.kill(2)
        farm.kill(3)
        await until("no leader", PATIENCE, lambda: led_by_nobody(farm, 1))
        code, text, _ = await gf("snapshot", "save", farm.node(1), tmp_path / "s")
        assert code == 3
        assert "this server has entries up to" in text


async def leads(farm: LocalFarm, server: int) -> bool:
    answer = await farm.status(server)
    return answer is not None and answer["leader"] == server


async def led_by_nobody(farm: LocalFarm, server: int) -> bool:
    answer = await farm.status(server)
    return answer is not None and answer["leader"] is None
