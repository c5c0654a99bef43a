"""A node tells systemd how the node does, at a real datagram socket."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gf_i2p.cli.shared.service_manager import ServiceManager
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.processes import free_ports


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def heard(manager: socket.socket) -> str:
    return manager.recv(4096).decode()


def heard_without_signs_of_life(manager: socket.socket) -> str:
    while (text := heard(manager)) == "WATCHDOG=1":
        pass
    return text


async def test_a_node_tells_its_life(manager: socket.socket) -> None:
    service = ServiceManager(manager.getsockname(), watchdog_seconds=0.03)
    service.ready()
    assert heard(manager) == "READY=1"
    for _ in range(3):
        assert await asyncio.to_thread(heard, manager) == "WATCHDOG=1"
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    with service.reloading():
        told = dict(line.split("=") for line in heard_without_signs_of_life(manager).splitlines())
        assert told.keys() == {"RELOADING", "MONOTONIC_USEC"}
        assert before <= int(told["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert heard_without_signs_of_life(manager) == "READY=1"
    service.stopping()
    assert heard_without_signs_of_life(manager) == "STOPPING=1"
    service.close()


async def test_a_stuck_loop_gives_no_sign_of_life(manager: socket.socket) -> None:
    service = ServiceManager(manager.getsockname(), watchdog_seconds=0.03)
    service.ready()
    assert [heard(manager), heard(manager)] == ["READY=1", "WATCHDOG=1"]
    manager.settimeout(0.1)  # the loop is stuck, because this call does not give it a turn
    with pytest.raises(TimeoutError):
        heard(manager)
    service.close()


async def test_a_failed_reload_ends_as_well(manager: socket.socket) -> None:
    def fails() -> None:
        raise ValueError("wrong")

    service = ServiceManager(manager.getsockname())
    service.ready()
    assert heard(manager) == "READY=1"
    with pytest.raises(ValueError, match="wrong"):
        service.wrap_reload(fails)()
    assert heard(manager).startswith("RELOADING=1\n")
    assert heard(manager) == "READY=1"


async def test_a_reload_during_the_start_tells_nothing(manager: socket.socket) -> None:
    ServiceManager(manager.getsockname()).wrap_reload(lambda: None)()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard(manager)


async def test_a_node_that_stops_is_not_ready_again(manager: socket.socket) -> None:
    service = ServiceManager(manager.getsockname())
    service.ready()
    service.stopping()
    service.wrap_reload(lambda: None)()
    assert [heard(manager), heard(manager)] == ["READY=1", "STOPPING=1"]
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard(manager)


async def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"gf-i2p-test-{os.getpid()}"
        listening.bind(f"\0{name}")
        ServiceManager(f"@{name}").ready()
        assert heard(listening) == "READY=1"


@pytest.mark.parametrize("address", [None, "", "/nowhere/notify"])
async def test_a_node_runs_without_a_manager(address: str | None) -> None:
    service = ServiceManager(address, watchdog_seconds=1)
    service.ready()
    service.stopping()
    service.close()


@pytest.mark.parametrize("address", ["/dev/null", "/tmp"])
async def test_a_deaf_manager_stops_nobody(address: str) -> None:
    ServiceManager(address).ready()


@pytest.mark.parametrize(
    ("micros", "pid", "every"),
    [
        ("3000000", "", 1.0),
        ("3000000", "own", 1.0),
        ("3000000", "1", None),
        ("0", "", None),
        ("x", "", None),
    ],
)
def test_children_inherit_nothing(micros: str, pid: str, every: float | None) -> None:
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": micros, "HOME": "/"}
    environment["WATCHDOG_PID"] = str(os.getpid()) if pid == "own" else pid
    assert ServiceManager.of_environment(environment)._every == every
    assert environment == {"HOME": "/"}


@pytest.mark.slow  # a real node starts and stops
def test_the_program_tells_systemd(tmp_path: Path, manager: socket.socket) -> None:
    """From the start to the end of a real node: ready, alive, reloaded, alive, stopping."""
    make_farm(
        tmp_path / "farm", {1: Endpoint("127.0.0.1", free_ports(1)[0])}, cluster="farm", profile="lan", clients=[]
    )
    environment = os.environ | {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "300000"}
    environment.pop("WATCHDOG_PID", None)
    command = [sys.executable, "-m", "gf_i2p.cli.main", "run", str(tmp_path / "farm" / "server-1")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            assert [heard(manager) for _ in range(3)] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
            process.send_signal(signal.SIGHUP)
            assert heard_without_signs_of_life(manager).startswith("RELOADING=1\nMONOTONIC_USEC=")
            assert heard_without_signs_of_life(manager) == "READY=1"
            assert heard(manager) == "WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
            assert heard_without_signs_of_life(manager) == "STOPPING=1"
            assert process.wait(60) == 0
        finally:
            process.kill()
