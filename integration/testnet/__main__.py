"""`python -m integration.testnet`: a private I2P network on this machine, brought up, asked, and taken down."""

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # while the other modules are imported, which takes a while
# ruff: noqa: E402

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp

from gf_i2p.admin.local_socket import socket_address
from integration.testnet.java_build import I2PD_VARIABLE, JAVA_VARIABLE, JavaBuild
from integration.testnet.java_build import NEEDED as NEEDED_WITH_JAVA
from integration.testnet.namespace import (
    KEEP,
    MissingError,
    check_programs,
    environment,
    inside,
    run_inside,
    signals_held,
)
from integration.testnet.network import MAX_JAVA, MAX_ROUTERS, MIN_ROUTERS
from integration.testnet.network_keeper import CONTROL_SOCKET, READY

_MODULE: Final = "integration.testnet.network_keeper"
ROUTERS: Final = 8
ROUTERS_BESIDE_JAVA: Final = 6
_STOP_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


class NetworkCommandError(Exception):
    """A command failed. The text gives the reason and the next step."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0 when it worked."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return int(options.function(options))
    except (NetworkCommandError, MissingError) as error:
        if options.json:
            print(json.dumps({"ok": False, "error": str(error)}))
        else:
            print(f"testnet: {error}", file=sys.stderr)
        return 1


def _absolute(text: str) -> Path:
    return Path(text).resolve()


def _default() -> Path:
    return Path(tempfile.gettempdir()) / f"gf-i2p-testnet-{os.getuid()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.testnet", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    default = _default()
    for name, function, text in [
        ("up", _up, "bring a network up, and leave it running"),
        ("run", _run, "bring a network up, run a command inside it, take it down"),
        ("status", _status, "say what runs"),
        ("logs", _logs, "show the routers' last warnings"),
        ("down", _down, "take it down; nothing stays behind"),
    ]:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        command.add_argument(
            "--directory", type=_absolute, default=default, help=f"where it lives (default: {default})"
        )
        command.add_argument("--json", action="store_true", help="print one JSON object")
        if name in {"up", "run"}:
            command.add_argument(
                "--routers",
                type=int,
                choices=range(MIN_ROUTERS, MAX_ROUTERS + 1),
                default=None,
                metavar="N",
                help=f"number of i2pd (default: {ROUTERS}, and {ROUTERS_BESIDE_JAVA} beside Java routers)",
            )
            command.add_argument(
                "--java",
                type=int,
                choices=range(MAX_JAVA + 1),
                default=0,
                metavar="N",
                help=f"number of Java routers; needs {JAVA_VARIABLE} and {I2PD_VARIABLE}",
            )
            command.add_argument(
                "--java-floodfills", type=int, choices=range(MAX_JAVA + 1), default=1, metavar="N", help="(default: 1)"
            )
        if name == "run":
            command.add_argument("words", nargs="+", metavar="COMMAND", help="after --, with its own options")
    return parser


# Starting -----------------------------------------------------------------------------------------------------------


def _arguments(options: argparse.Namespace) -> list[str]:
    if options.java:
        JavaBuild.find()
        check_programs(NEEDED_WITH_JAVA)
    else:
        check_programs()
    routers = options.routers or (ROUTERS_BESIDE_JAVA if options.java else ROUTERS)
    directory = options.directory
    if _runs(directory):
        raise NetworkCommandError(
            f"a network runs in {directory} (see `status`); take it down, or choose another --directory"
        )
    if (directory / CONTROL_SOCKET).is_socket():
        raise NetworkCommandError(f"{directory} is left of a network that was killed; `down` removes it")
    if directory.exists():
        raise NetworkCommandError(f"{directory} exists, and is no network's; choose another --directory")
    java = ["--java", str(options.java), "--java-floodfills", str(options.java_floodfills)]
    return ["--directory", str(options.directory), "--routers", str(routers), *java]


def _run(options: argparse.Namespace) -> int:
    return run_inside(_MODULE, [*_arguments(options), "--", *options.words], interrupt=False)


def _up(options: argparse.Namespace) -> int:
    arguments = _arguments(options)
    read, write = os.pipe()
    command = inside(_MODULE, [*arguments, "--lifeline", str(read)])
    # The network outlives this process, so the network gets no output of the caller: a pipe behind would never end.
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with signals_held():
            process = subprocess.Popen(
                command[command.index("unshare") :],  # without the guard, which would end the network with this process
                env=environment(),
                pass_fds=[read],  # the guard until the network is up: the pipe ends with this process
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        os.close(read)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if not options.json:
                    print(line, end="", flush=True)
                if line == READY:
                    break
            else:
                raise NetworkCommandError("it did not come up; the reason stands above")
        except KeyboardInterrupt:
            os.close(write)
            process.wait()
            raise NetworkCommandError(
                "the network was stopped before it was up; nothing is left of the network"
            ) from None
        finally:
            errors.seek(0)
            print(errors.read(), end="", file=sys.stderr, flush=True)
    os.write(write, KEEP)
    if options.json:
        print(json.dumps({"ok": True, **json.loads(_ask(options.directory, "/status"))}))
    else:
        where = "" if options.directory == _default() else f" --directory {options.directory}"
        print(f"It runs in {options.directory}. To take it down: python -m integration.testnet down{where}")
    return 0


# A running one ------------------------------------------------------------------------------------------------------


def _ask(directory: Path, path: str, method: str = "GET") -> str:
    """Ask the process inside over its Unix socket. A socket file crosses network namespaces."""
    return asyncio.run(_fetch(directory / CONTROL_SOCKET, path, method))


async def _fetch(path: Path, request: str, method: str) -> str:
    try:
        with socket_address(path) as name:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(name)) as session,
                session.request(method, f"http://testnet{request}") as answer,
            ):
                return await answer.text()
    except (aiohttp.ClientConnectorError, FileNotFoundError) as error:
        raise NetworkCommandError(f"no network runs in {path.parent}; start one with `up`") from error
    except aiohttp.ClientError as error:
        raise NetworkCommandError(f"the network in {path.parent} ended while it was asked: see `status`") from error


def _status(options: argparse.Namespace) -> int:
    answer = json.loads(_ask(options.directory, "/status"))
    if options.json:
        print(json.dumps({"ok": True, **answer}))
        return 0
    print("ready" if answer["ready"] else f"not ready, waiting for: {answer['doing']}")
    for router in answer["routers"]:
        print(_line(router))
    for line in answer["crashes"]:
        print(f"  {line}")
    return 0


def _line(router: dict[str, Any]) -> str:
    kind = "floodfill" if router["floodfill"] else "router"
    console, java = router["console"], router["java"]
    if not router["running"]:
        state = "stopped"
    elif java is not None:
        state = f"Java, {java['known']} other routers known, {java['status']}"
    elif console is None:
        state = "does not answer"
    else:
        known, tunnels, held = console["routers"], console["client_tunnels"], console["lease_sets"]
        state = f"{known} routers known, {tunnels} tunnels, {held} lease sets"
    return f"  {router['number']:>2}  {router['address']:<12}  {kind:<9}  {state}, {router['warnings']} warnings"


def _logs(options: argparse.Namespace) -> int:
    text = _ask(options.directory, "/logs")
    print(json.dumps({"ok": True, "text": text}) if options.json else text)
    return 0


def _runs(directory: Path) -> bool:
    """Whether a network listens on the directory's socket, ready or not. The routers are not asked."""
    with (
        socket.socket(socket.AF_UNIX) as ours,
        contextlib.suppress(OSError),
        socket_address(directory / CONTROL_SOCKET) as name,
    ):
        ours.connect(name)
        return True
    return False


def _down(options: argparse.Namespace) -> int:
    directory = options.directory
    if not _runs(directory):
        # Either the processes were killed, and the namespaces with them, or this is no network's directory.
        left = (directory / CONTROL_SOCKET).is_socket()
        if left:
            shutil.rmtree(directory)
        _say(options, "nothing ran there any more; its files are removed" if left else "nothing runs there")
        return 0
    _ask(directory, "/end", method="POST")
    end = time.monotonic() + _STOP_SECONDS
    while directory.exists():
        if time.monotonic() > end:
            raise NetworkCommandError(
                f"it does not end within {_STOP_SECONDS:.0f} s. To end it by force: "
                f"pkill -9 -f '{_MODULE} .*{directory}'; then `down` once more, for its files"
            )
        time.sleep(_POLL_SECONDS)
    _say(options, "it is down, and nothing of it is left")
    return 0


def _say(options: argparse.Namespace, text: str) -> None:
    print(json.dumps({"ok": True, "text": text}) if options.json else text)


if __name__ == "__main__":
    sys.exit(main())
