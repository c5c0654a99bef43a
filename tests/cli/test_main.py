"""Commands that need no running node: `init`, and the failures of all commands."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.cli.commands import help as help_command
from gf_i2p.cli.main import main
from gf_i2p.node.files import farm_setup
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.storage.database import Storage
from integration.harness.processes import free_ports
from tests.tier import mostly_slow

SERVERS = ["--server", "1=tcp://127.0.0.1:9001", "--server", "2=tcp://127.0.0.1:9002"]


def test_init_makes_directories_and_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "f"), *SERVERS, "--client", "web"]) == 0
    output = capsys.readouterr().out
    assert f"gf-i2p run {tmp_path / 'f' / 'server-1'}" in output
    assert "survives the loss of no server" in output
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == [
        ".gitignore",
        "client-web.toml",
        "server-1",
        "server-2",
    ]


def test_init_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path), *SERVERS, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"ok": True, "written": [str(tmp_path / "server-1"), str(tmp_path / "server-2")]}


def test_init_beside_another_farm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["init", str(first), *SERVERS]) == 0
    assert main(["init", str(second), *SERVERS, "--cluster", "second", "--beside", str(first)]) == 0
    for server in ("server-1", "server-2"):
        for name in ("certificate.pem", "key.pem"):
            assert (first / server / name).read_bytes() == (second / server / name).read_bytes()
        assert (second / server / "key.pem").stat().st_mode & 0o077 == 0
    capsys.readouterr()
    assert main(["init", str(tmp_path / "third"), *SERVERS, "--beside", str(tmp_path / "nowhere")]) == 1
    assert "there is no gf-i2p.toml in it" in capsys.readouterr().err
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--server", "1=http://x"], "is not an endpoint"),
        (["--server", "x=tcp://a:1"], "expected ID=i2p or ID=tcp://HOST:PORT"),
        (["--server", "4294967295=tcp://a:1"], "expected ID=i2p or ID=tcp://HOST:PORT"),
        (["--server", "1=tcp://0.0.0.0:1"], "no other server reaches 0.0.0.0"),
        (["--server", "1=tcp://[::]:1"], "no other server reaches ::"),
        (["--server", "1=tcp://a:99999"], "99999 is not a port"),
    ],
)
def test_init_with_bad_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["init", str(tmp_path), *arguments])
    assert raised.value.code == 2
    assert expected in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["status", "--json"])
    assert raised.value.code == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], "DIR" in answer["error"]) == (False, True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["statsu", "x"], "there is no command 'statsu': did you mean `gf-i2p status`?"),
        (["publisher", "mov", "x"], "there is no command 'mov': did you mean `gf-i2p publisher move`?"),
        (["xyzzy"], "there is no command 'xyzzy': `gf-i2p --help` lists the commands"),
    ],
)
def test_a_mistyped_command_is_recognised(capsys: pytest.CaptureFixture[str], words: list[str], hint: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert (end.value.code, hint in capsys.readouterr().err) == (2, True)


def test_init_with_servers_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for pair in (["1=tcp://a:1", "1=tcp://b:1"], ["1=tcp://a:1", "2=tcp://a:1"], ["1=tcp://abc.i2p:1"]):
        assert main(["init", str(tmp_path), *(word for one in pair for word in ("--server", one))]) == 2
        assert capsys.readouterr().err.startswith("gf-i2p: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["status"], ["post", "x"], ["entries"], ["run"]])
def test_a_directory_that_is_no_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    name, *rest = command
    assert main([name, str(tmp_path), *rest]) == 1
    assert CONFIG_FILE in capsys.readouterr().err
    assert main([name, str(tmp_path), *rest, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["outcome"]) == (False, "no")


@pytest.mark.parametrize("command", [["find"], ["members", "list"]])
@pytest.mark.parametrize(("mode", "text"), [(0o644, None), (0o600, "cluster = 1"), (0o600, "[")])
def test_a_wrong_file_is_a_wrong_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], mode: int, text: str | None
) -> None:
    assert main(["init", str(tmp_path), *SERVERS, "--client", "web", "--admin", "a"]) == 0
    for name in ("client-web.toml", "admin-a.toml"):
        path = tmp_path / name
        path.chmod(mode)
        if text is not None:
            path.write_text(text)
        assert main([*command, str(path)]) == 2
        assert str(path) in capsys.readouterr().err


def test_find_without_a_file_and_with_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", str(tmp_path / "client-web.toml")]) == 1
    said = capsys.readouterr().err
    assert "There is no file" in said
    assert "client-web.toml: gf-i2p init makes such a file" in said
    ports = free_ports(2)
    servers = [
        word for number, port in enumerate(ports, 1) for word in ("--server", f"{number}=tcp://127.0.0.1:{port}")
    ]
    assert main(["init", str(tmp_path), *servers, "--client", "web"]) == 0
    capsys.readouterr()
    path = tmp_path / "client-web.toml"
    assert main(["find", str(path), "--json", "--timeout", "3"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["outcome"]) == (False, "no")
    assert f"{path}: no server was reached (tcp://127.0.0.1:{ports[0]}" in answer["error"]


@pytest.mark.parametrize("command", [["status"], ["post", "x"], ["entries"]])
def test_a_node_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    main(["init", str(tmp_path), *SERVERS])
    node = tmp_path / "server-1"
    assert main([command[0], str(node), *command[1:]]) == 1
    assert f"Start it: gf-i2p run {node}" in capsys.readouterr().err


def test_what_is_no_text_is_not_posted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["post", str(tmp_path), "caf\udce9"]) == 2
    assert "the entry is not UTF-8 text: unexpected end of data at byte 3" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"good\nb\xff\n")))
    assert main(["post", str(tmp_path), "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "standard input is not UTF-8 text: invalid start byte at byte 6"


@pytest.mark.parametrize(
    "words",
    [
        ["post", "DIR", ""],
        ["post", "DIR", "--json", "a", "b"],
        ["post", "DIR", "a", "--nonsense"],
        ["entries", "DIR", "--first", "0"],
        ["entries", "DIR", "--limit", "1001"],
        ["entries", "DIR", "--first", "1", "--last", "1"],
        ["entries", "DIR", "--first", "9" * 5000],
        ["status", "DIR", "more"],
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    try:
        code = main(words)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else -1
    assert code == 2
    assert "".join(capsys.readouterr())


def test_a_failed_init_leaves_nothing_and_names_the_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["init", str(tmp_path / "f"), *SERVERS, "--client", "a", "--client", "a"]) == 2
    assert "the same name" in capsys.readouterr().err

    def full(path: Path, **_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Storage, "create", full)
    assert main(["init", str(tmp_path / "f"), *SERVERS]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"gf-i2p: the disk under {tmp_path / 'f' / 'server-1'} is full. Nothing was changed: free ")
    assert list(tmp_path.iterdir()) == []


def write_nowhere(*_: object) -> None:
    """Fail as a write on a full disk does: the error names no file."""
    Path("/dev/full").write_text("x")


def test_a_full_disk_is_told_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(help_command, "run", write_nowhere)
    assert main(["help"]) == 1
    assert capsys.readouterr().err == "gf-i2p: the disk is full: free some space, then repeat the command\n"

    monkeypatch.setattr(farm_setup, "write_private", write_nowhere)
    assert main(["init", str(tmp_path / "f"), *SERVERS, "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "error": f"the disk under {tmp_path / 'f'} is full. Nothing was changed: free some space, then repeat the "
        "command",
        "outcome": "no",
    }
    assert list(tmp_path.iterdir()) == []


def test_who_reads_no_more_gets_no_message(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gf_i2p.cli.main", "init", str(tmp_path / "f"), *SERVERS, "--json"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as output:
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert (result.returncode, result.stderr) == (1, "")


def test_output_on_a_full_disk_is_told_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gf_i2p.cli.main", "init", str(tmp_path / "f"), *SERVERS, "--json"]
    with Path("/dev/full").open("wb") as output:
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert result.returncode == 1
    assert result.stderr.startswith("gf-i2p: the output cannot be written (No space left on device). The command may ")
    assert (tmp_path / "f").is_dir()


def test_nothing_to_post(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n  \r\n")))
    assert main(["post", str(tmp_path), "-"]) == 1
    assert "nothing to post" in capsys.readouterr().err


def test_run_with_a_bad_configuration_names_file_key_and_expectation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["init", str(tmp_path), *SERVERS])
    path = tmp_path / "server-1" / CONFIG_FILE
    path.write_text(path.read_text().replace('profile = "auto"', 'profile = "fast"'))
    assert main(["run", str(tmp_path / "server-1")]) == 2
    assert f"{path}: timing.profile: input should be 'auto', 'lan' or 'i2p'" in capsys.readouterr().err


def test_run_never_begins_with_an_empty_log_where_one_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", str(tmp_path), *SERVERS])
    (tmp_path / "server-1" / "log.sqlite").unlink()
    capsys.readouterr()
    assert main(["run", str(tmp_path / "server-1")]) == 1
    assert "log.sqlite" in capsys.readouterr().err
    assert not (tmp_path / "server-1" / "log.sqlite").exists()


@pytest.mark.parametrize(
    "words",
    mostly_slow(
        [
            ["doctor", "DIR"],
            ["simulate", "--canary", "nope", "--json"],
            ["status", "DIR", "--json"],
            ["post", "--json"],
        ],
        ["status", "DIR", "--json"],
    ),
)
@pytest.mark.parametrize("closed", [False, True])
def test_who_reads_no_more_gets_no_traceback(tmp_path: Path, words: list[str], closed: bool) -> None:
    """A command ends quietly when the reader of its output has closed the pipe, or when standard output is closed."""
    main(["init", str(tmp_path / "f"), *SERVERS])
    command = [sys.executable, "-m", "gf_i2p.cli.main"]
    command += [str(tmp_path / "f" / "server-1") if word == "DIR" else word for word in words]
    read, write = os.pipe()
    os.close(read)
    if closed:
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    with os.fdopen(write, "wb") as output:
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert result.stderr == ""
    assert result.returncode in {1, 2}


def test_nothing_typed_is_no_confirmation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["init", str(tmp_path), "--server", "0=tcp://127.0.0.1:9001"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)

    def ends(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", ends)
    assert main(["recover", str(tmp_path / "server-0")]) == 2
    assert "nothing was changed" in capsys.readouterr().err


def test_ids_begin_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", str(tmp_path), "--server", "0=tcp://127.0.0.1:9001"])
    assert main(["members", "remove", str(tmp_path / "server-0"), "0"]) == 1
    assert "Start it" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["members", "remove", str(tmp_path / "server-0"), "4294967295"])
    assert "expected a whole number from 0 to 4294967294" in capsys.readouterr().err
