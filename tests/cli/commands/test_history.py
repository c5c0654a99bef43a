"""`gf-i2p history verify`."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from gf_i2p.cli.main import main
from gf_i2p.storage.history_writer import Rotation
from tests.storage.exported_log import expected, export, open_history


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "copy"
    with closing(open_history(made, rotation=Rotation(bytes=3000))) as history:
        export(history, 80)
        history.gap(90)
    return made


def test_it_says_what_is_there(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "verify", str(directory)]) == 0
    output = capsys.readouterr().out
    assert "of server 7 of farm farm: entries 1 to 90, in" in output
    truth = expected(80)
    configurations = sum(isinstance(value, tuple) for _, _, value in truth)
    assert f"servers  {configurations} Configurations; {80 - len(truth)} entries of other kinds are left out" in output
    assert "gap      81 to 90: not in this directory, because the log lacked them, too; look in" in output
    assert "removed" not in output


def test_as_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "verify", str(directory), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    truth = expected(80)
    raw = sum(isinstance(value, bytes) for _, _, value in truth)
    configurations = sum(isinstance(value, tuple) for _, _, value in truth)
    assert answer == {
        "ok": True, "cluster": "farm", "server": 7, "files": len(list(directory.iterdir())), "first": 1, "last": 90,
        "records": len(truth) - configurations, "raw": raw, "configurations": configurations,
        "others": 80 - len(truth), "gaps": [[81, 90]], "restored": [],
    }  # fmt: skip


def test_a_nodes_directory_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path), "--server", "7=tcp://127.0.0.1:9001"]) == 0
    node = tmp_path / "server-7"
    capsys.readouterr()
    assert main(["history", "verify", str(node)]) == 1
    assert "a running node with history.enabled = true makes one" in capsys.readouterr().err
    with closing(open_history(node / "history")) as history:
        history.gap(3)
    assert main(["history", "verify", str(node)]) == 0
    assert "entries 1 to 3" in capsys.readouterr().out


def test_an_empty_one_and_one_whose_beginning_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "history"
    with closing(open_history(directory, rotation=Rotation(bytes=3000))) as history:
        assert main(["history", "verify", str(directory)]) == 0
        assert "no entries yet" in capsys.readouterr().out
        export(history, 80)
    min(directory.iterdir()).unlink()
    assert main(["history", "verify", str(directory)]) == 0
    assert "removed  the entries up to" in capsys.readouterr().out


def test_damage_and_a_wrong_directory_fail(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for path, expected_text in ((tmp_path / "empty", "has no history"), (tmp_path / "none", "is not a directory")):
        assert main(["history", "verify", str(path)]) == 1
        assert expected_text in capsys.readouterr().err
    first = min(directory.iterdir())
    first.write_bytes(first.read_bytes()[:-9])
    assert main(["history", "verify", str(directory), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert f"{first} is damaged" in answer["error"]
    with pytest.raises(SystemExit) as raised:
        main(["history", "verify"])
    assert raised.value.code == 2


def test_a_farm_that_began_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "history"
    with closing(open_history(directory)) as history:
        history.restored(40, 2**28, [1])
        history.gap(41)
    assert main(["history", "verify", str(directory)]) == 0
    output = capsys.readouterr().out
    assert f"restored 1 to 40: the farm began anew in term {2**28}, from a snapshot of entry 40" in output
    assert "gap      41 to 41" in output
    assert main(["history", "verify", str(directory), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["restored"], answer["gaps"], answer["last"]) == ([[1, 40, 2**28]], [[41, 41]], 41)
