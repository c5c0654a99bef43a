"""The program that runs the containers of `docker/`, without any container: requirements, and messages if one lacks."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from integration.containers import __main__, base_image, engine, podman
from integration.containers.__main__ import FOLDER, MUST_VARIABLE, main
from integration.containers.container_farm import published
from integration.containers.engine import Engine, EngineError
from integration.containers.images import COMPOSE, DOCKERFILES, alone, build
from integration.containers.project import Project
from integration.harness.local_farm import NotSeenError
from integration.harness.pytest_outcomes import Outcome
from integration.harness.waiting import wait_for
from integration.testnet.namespace import MissingError, inside
from tests.tier import mostly_slow


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with no program at all, and root as the user."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda *arguments, **named: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv(MUST_VARIABLE, raising=False)


def test_what_is_missing_is_named_with_its_packages(bare: None) -> None:
    with pytest.raises(MissingError, match=r"apt-get install .*debootstrap.*podman"):
        engine.find_engine()


def test_podman_needs_root(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingError, match="run it as root"):
        engine.find_engine()


def test_a_docker_that_has_no_engine_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n[ $1 = compose ] || exit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingError, match="no Docker engine"):
        engine.find_engine()
    docker.write_text("#!/bin/sh\nexit 0\n")
    assert engine.find_engine().name == "docker"


def test_it_says_in_a_sentence_why_it_was_skipped(
    bare: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([]) == 0
    assert "SKIPPED. no Docker engine answers" in capsys.readouterr().out
    monkeypatch.setenv(MUST_VARIABLE, "1")
    assert main([]) == 1


GOOD = Outcome(("f::x", "f::y"), ())
BAD = Outcome(("f::x",), ("f::y",))
NO_FARM = Outcome((), ("f",), ended=False)
WORSE = Outcome((), ("f::x", "f::y", "f::z"))


@pytest.mark.parametrize(
    ("outcomes", "ran", "status", "last"),
    [
        ([(0, GOOD)], [["f"]], 0, "containers: 2 passed, 0 failed"),
        ([(1, BAD), (0, Outcome(("f::y",), ()))], [["f"], ["f::y"]], 0, "PASSED ONLY WHEN IT RAN ONCE MORE: f::y"),
        ([(1, BAD), (1, Outcome((), ("f::y",)))], [["f"], ["f::y"]], 1, "FAILED f::y"),
        ([(1, NO_FARM), (0, GOOD)], [["f"], ["f"]], 0, "PASSED ONLY WHEN IT RAN ONCE MORE: f"),
        ([(1, WORSE)], [["f"]], 1, "FAILED f::z"),
        ([(143, NO_FARM)], [["f"]], 1, "FAILED f"),
    ],
    ids=["passed", "again", "failed twice", "no farm", "too many", "ended from outside"],
)
def test_what_failed_runs_once_more_if_it_is_little(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    outcomes: list[tuple[int, Outcome]],
    ran: list[list[str]],
    status: int,
    last: str,
) -> None:
    seen: list[list[str]] = []
    answers = iter(outcomes)

    def outcome(_engine: Engine, _cache: Path, group: Sequence[str], **_: bool) -> tuple[int, Outcome]:
        seen.append(list(group))
        return next(answers)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(__main__, "find_engine", engine.docker)
    monkeypatch.setattr(__main__, "_outcome", outcome)
    monkeypatch.chdir(tmp_path)
    Path("f").touch()
    assert main(["f"]) == status
    assert seen == ran
    assert capsys.readouterr().out.strip().endswith(last)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], [str(FOLDER)]),
        (["-k", "farm"], ["-k", "farm", str(FOLDER)]),
        ([f"{FOLDER}/test_farm.py::test_x", "-x"], [f"{FOLDER}/test_farm.py::test_x", "-x"]),
        (["-x", "--fresh"], ["-x", str(FOLDER)]),
    ],
    ids=["nothing", "options", "a test", "fresh"],
)
def test_where_no_test_is_named_it_takes_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], given: list[str]
) -> None:
    """Otherwise pytest would run all tests of the project."""
    seen: list[list[str]] = []

    def outcome(_engine: Engine, _cache: Path, group: Sequence[str], *, fresh: bool) -> tuple[int, Outcome]:
        seen.append(list(group))
        assert fresh == ("--fresh" in words)
        return 0, GOOD

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(__main__, "find_engine", engine.docker)
    monkeypatch.setattr(__main__, "_outcome", outcome)
    assert main(words) == 0
    assert seen == [given]


TEST_THAT_STARTS_SOMETHING = """
import pathlib, subprocess, threading, pytest

@pytest.fixture
def farm():
    pathlib.Path("up").touch()
    yield
    subprocess.run(["cat"], input=b"x" * 10_000_000, stdout=subprocess.DEVNULL)  # takes a moment
    pathlib.Path("up").unlink()

def test_is_stopped(farm):
    pathlib.Path("begun").touch()
    threading.Event().wait(60)
"""


@pytest.mark.parametrize("number", mostly_slow([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], signal.SIGTERM))
def test_with_docker_who_is_stopped_takes_down_what_he_started(
    said: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """The engine is the machine's: a container that stays runs for ever."""
    file = tmp_path / "test_it.py"
    file.write_text(TEST_THAT_STARTS_SOMETHING)
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(COMPOSE.parents[1])}
    with subprocess.Popen(
        [sys.executable, "-m", "integration.containers", str(file), "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, **variables},
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            begun = tmp_path / "begun"
            wait_for("the test has begun", 60, lambda: begun.exists() or process.poll() is not None, poll=0.05)
            os.killpg(process.pid, number)  # the terminal signals all processes
            output, _ = process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert not (tmp_path / "up").exists(), output
    assert "Stopping" in output
    assert process.returncode == 1


def test_of_two_runs_one_waits_for_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def wait() -> None:
        with alone(tmp_path):
            second_has_it.set()

    second_has_it = threading.Event()
    second = threading.Thread(target=wait)
    with alone(tmp_path):
        second.start()
        said = ""

        def told() -> bool:
            nonlocal said
            said += capsys.readouterr().out
            return "Another run" in said

        wait_for("the second says that it waits", 30, told, poll=0.01)
        assert not second_has_it.is_set()
    second.join(30)
    assert second_has_it.is_set()


def test_the_bases_are_read_from_the_dockerfiles(tmp_path: Path) -> None:
    assert set(base_image.needed(DOCKERFILES).values()) <= set(base_image.SUITES.values())
    file = tmp_path / "Dockerfile"
    file.write_text("ARG BASE=debian:12.11-slim\nFROM $BASE\n")
    assert base_image.needed([file]) == {"debian:12.11-slim": "bookworm"}
    file.write_text("FROM debian:latest\n")
    with pytest.raises(EngineError, match="ARG BASE"):
        base_image.needed([file])


def test_podman_is_set_up_in_namespaces_of_its_own_only() -> None:
    with pytest.raises(RuntimeError):
        podman.mount()


def test_with_podman_the_tests_end_at_ctrl_c() -> None:
    """The tests would not end if the first process ignored the signal, since children inherit ignored signals."""
    program = (
        "import os, sys\n"
        "from integration.containers.podman_run import Child\n"
        "sys.exit(Child(os.pipe()[0]).run(['grep', '^SigIgn', '/proc/self/status']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=COMPOSE.parents[1]
    )
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & 1 << signal.SIGINT - 1


def test_images_are_built_on_the_network_of_the_machine() -> None:
    assert "--net" in inside("module", [])
    assert "--net" not in inside("module", [], network=False)


def test_the_compose_file_names_its_images() -> None:
    images = Project(engine.docker(), "any", COMPOSE).images()
    assert len(images) == len(set(images)) == 3


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """File with the commands to a stand-in for `docker`, a line each; the stand-in knows one container, one image."""
    told = tmp_path / "told"
    program = tmp_path / "docker"
    program.write_text(
        f"""#!/bin/sh
echo "$1 $2 $3 $4 $5 $6 $7 $8 $9" >> {told}
case "$1 $2 $3" in
  ps*) echo 'abcdef router-0' ;;
  "image inspect "*) for name; do :; done; case $name in gf-i2p-*) echo 1000 ;; *) exit 1 ;; esac ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return told


def test_docker_keeps_the_base_that_it_has_fetched_to_its_builder(
    said: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GF_I2P_TIER", raising=False)  # the tier "all" also builds the pipeline's image
    built = build(engine.docker(), tmp_path)
    assert set(built.sizes) == set(Project(engine.docker(), "any", COMPOSE).images())


def test_a_container_that_docker_cuts_off_stays_in_its_networks(said: Path) -> None:
    """`docker network connect` knows no MAC: a container that left a network would come back with another MAC."""
    with Project(engine.docker(), "any", COMPOSE).cut_off("router-0"):
        cut = said.read_text().splitlines()
        assert cut
    all_commands = said.read_text().splitlines()
    assert len(all_commands) == 2 * len(cut)  # and back
    assert not [command for command in all_commands if command.startswith("network")]


def test_with_docker_what_an_earlier_run_has_left_goes_first(said: Path) -> None:
    with Project(engine.docker(), "any", COMPOSE):
        assert "-p any" in said.read_text()
        assert "down" in said.read_text()


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"exit code 3: sh.*\nno such thing"):
        engine.run(["sh", "-c", "echo no such thing >&2; exit 3"], os.environ, seconds=10)
    with pytest.raises(EngineError, match="no end within"):
        engine.run(["sleep", "10"], os.environ, seconds=0.05)


def test_waiting_ends_with_what_is_known() -> None:
    answers = itertools.chain([False, False], itertools.repeat(True))
    assert wait_for("three times", 10, lambda: next(answers), poll=0) < 10
    with pytest.raises(NotSeenError, match="never\nthe log"):
        wait_for("never", 0, lambda: False, poll=0, else_say=lambda: "the log")


def test_of_two_that_publish_the_newer_one_counts() -> None:
    def saying(time: int) -> dict[str, object]:
        return {"farm": {"publishing": {"published": time}}}

    assert published({"node-1": {"farm": {"publishing": None}}}) is None
    assert published({"node-1": saying(5), "node-2": saying(7), "node-3": saying(6)}) == ("node-2", {"published": 7})
