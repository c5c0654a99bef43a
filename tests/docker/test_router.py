"""`docker/router.sh` with a stand-in for i2pd: a router begins from any state."""

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.harness.waiting import wait_for

SCRIPT = Path(__file__).parents[2] / "docker" / "router.sh"
TEMPLATE = Path(__file__).parents[2] / "integration" / "testnet" / "i2pd.conf"
OWN, OTHER = "198.18.0.10", "198.18.0.11"
Start = Callable[[], "subprocess.Popen[str]"]


def router_info(seed: int) -> bytes:
    return random.Random(seed).randbytes(385) + bytes([0, 4]) + bytes(range(256))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the script with all places below `tmp_path`; this i2pd hangs in the shutdown, as 2.45 can."""
    for name in ("data", "introductions"):
        (tmp_path / name).mkdir()
    (tmp_path / "info").write_bytes(router_info(1))
    script, i2pd = tmp_path / "router", tmp_path / "i2pd"
    text = SCRIPT.read_text()
    for old, new in {
        "/var/lib/router": tmp_path / "data",
        "/var/lib/introductions": tmp_path / "introductions",
        "/usr/share/router/i2pd.conf": TEMPLATE,
        "patience=5 ": "patience=0 ",
    }.items():
        assert old in text
        text = text.replace(old, str(new))
    script.write_text(text)
    i2pd.write_text(
        f"""#!/bin/bash
echo "$@" >> {tmp_path}/told
[[ -e {tmp_path}/data/router.info ]] && exit 0
trap '' TERM
cp {tmp_path}/info {tmp_path}/data/router.info
while :; do read -r -t 0.2 <> <(:); done
"""
    )
    i2pd.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.defpath}:/usr/bin", "ADDRESS": OWN, "ROUTERS": "2"}
    running = []

    def started() -> "subprocess.Popen[str]":
        running.append(
            subprocess.Popen(
                ["/bin/bash", script, "run"], env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        )
        return running[-1]

    yield started
    for each in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def test_it_begins_when_i2pd_does_not_end_after_it_has_made_its_keys(start: Start, tmp_path: Path) -> None:
    """i2pd 2.45 can hang in the shutdown while a client is at an interface: no client may find an interface."""
    (tmp_path / "introductions" / f"{OTHER}.info").write_bytes(router_info(2))
    assert start().wait(30) == 0
    making, running = (tmp_path / "told").read_text().splitlines()
    for interface in ("http", "httpproxy", "socksproxy", "sam", "i2cp", "i2pcontrol"):
        assert f"--{interface}.enabled=false" in making
    assert "enabled" not in running
    assert len(list((tmp_path / "data").rglob("routerInfo-*.dat"))) == 1


@pytest.mark.parametrize(
    "broken",
    [b"", bytes(100), router_info(2)[:386], router_info(2)[:391], bytes(385) + b"\xff\xff" + bytes(100), bytes(10_000)],
    ids=["empty", "short", "no certificate", "nothing but an identity", "longer than it is", "too long"],
)
def test_a_router_info_that_is_not_whole_is_waited_for(start: Start, tmp_path: Path, broken: bytes) -> None:
    other = tmp_path / "introductions" / f"{OTHER}.info"
    other.write_bytes(broken)
    (tmp_path / "introductions" / "x[$(touch injected)].info").write_bytes(broken)
    process = start()
    assert process.stderr is not None
    said = [process.stderr.readline(), process.stderr.readline()]
    while not said[-1].startswith("router: waits"):
        said.append(process.stderr.readline())
    assert said[-1] == f"router: waits for 2 routers; there are: {OWN}\n"
    assert process.poll() is None
    other.with_suffix(".new").write_bytes(router_info(2))
    other.with_suffix(".new").rename(other)
    wait_for("it begins", 30, lambda: process.poll() is not None, poll=0.05)
    assert process.returncode == 0
    assert not list(tmp_path.rglob("injected"))


def test_a_console_that_does_not_answer_is_named() -> None:
    environment = {"PATH": os.defpath, "INTERFACES_ADDRESS": "127.0.2.1"}
    for command in ("page", "healthy"):
        done = subprocess.run(
            ["/bin/bash", SCRIPT, command], env=environment, capture_output=True, text=True, check=False, timeout=30
        )
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "127.0.2.1:7070 does not answer" in line
