"""The first process inside the namespaces: keeps the network up, answers questions, and takes the network down.

`integration.testnet` runs this module; nobody runs it by hand.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from aiohttp import web

from gf_i2p.admin.local_socket import socket_address
from integration.harness.local_farm import NotSeenError
from integration.testnet.namespace import Ending
from integration.testnet.network import Testnet
from integration.testnet.router import INTERFACES, RouterProcess

CONTROL_SOCKET: Final = "control.sock"
DIRECTORY_VARIABLE: Final = "GF_I2P_TESTNET"
"""Names the network's directory to a command that runs inside."""
READY: Final = "ready\n"
"""The line printed when the network is up."""


class NetworkKeeper:
    """Runs the network from start to end, and answers questions about the network on a Unix socket."""

    def __init__(self, directory: Path, lifeline: int, *, routers: int, java: int, java_floodfills: int) -> None:
        self._directory = directory
        self._lifeline = lifeline
        self._net = Testnet(
            directory,
            routers=routers,
            java=java,
            java_floodfills=java_floodfills,
            waiting_for=self._say,
            happened=_print,
        )
        self._doing = "starting"
        self._ready = False
        self._ending: Ending | None = None

    async def run(self, command: Sequence[str]) -> int:
        """Bring the network up. Run `command` and return the exit code; without a command, stay until SIGTERM."""
        task = asyncio.current_task()
        assert task is not None
        self._ending = ending = Ending(task, self._lifeline)
        runner = web.AppRunner(self._app(), access_log=None)
        open_directory = contextlib.ExitStack()
        try:
            self._directory.mkdir(mode=0o700, parents=True)
            await runner.setup()
            name = open_directory.enter_context(socket_address(self._directory / CONTROL_SOCKET))
            await web.UnixSite(runner, name).start()
            async with self._net:
                self._ready = True
                self._say(READY.strip())
                if command:
                    ending.interruptible = False  # Ctrl-C is for the command
                    return await self._command(command)
                await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
        except (NotSeenError, OSError, subprocess.SubprocessError) as error:
            print(f"testnet: {error}", file=sys.stderr)
            return 1
        finally:
            await runner.cleanup()
            open_directory.close()
            shutil.rmtree(self._directory, ignore_errors=True)
        return 0

    def _say(self, line: str) -> None:
        self._doing = line
        _print(line)

    async def _command(self, command: Sequence[str]) -> int:
        environment = {**os.environ, DIRECTORY_VARIABLE: str(self._directory)}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            raise

    # Answers --------------------------------------------------------------------------------------------------------

    def _app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/status", self._status),
                web.get("/logs", self._logs),
                web.get("/password", self._password),
                web.post("/end", self._end),
                web.post("/routers/{number}/stop", self._stop),
                web.post("/routers/{number}/start", self._start),
            ]
        )
        return app

    async def _status(self, _request: web.Request) -> web.Response:
        routers = []
        for router in self._net.routers:
            is_java = router.kind == "java"
            summary = await self._net.summary(router) if self._ready else None
            java = await self._net.java_status(router) if self._ready and is_java else None
            routers.append(
                {
                    "number": router.number,
                    "kind": router.kind,
                    "address": router.address,
                    "directory": str(router.directory),
                    "floodfill": router.floodfill,
                    "running": router.running,
                    "console": None if summary is None else asdict(summary),
                    "java": None if java is None else asdict(java),
                    "warnings": len(router.complaints()),
                }
            )
        return web.json_response(
            {
                "ready": self._ready,
                "doing": self._doing,
                "times": self._net.times,
                "crashes": self._net.crashes,
                "routers": routers,
            }
        )

    async def _logs(self, request: web.Request) -> web.Response:
        return web.Response(text=self._net.complaints(int(request.query.get("most", "20"))))

    async def _password(self, _request: web.Request) -> web.Response:
        return web.json_response(self._net.password)

    async def _end(self, _request: web.Request) -> web.Response:
        assert self._ending is not None
        self._ending.end()
        return web.Response()

    async def _stop(self, request: web.Request) -> web.Response:
        router = self._router(request)
        await asyncio.to_thread(router.stop)
        return web.json_response({"running": router.running})

    async def _start(self, request: web.Request) -> web.Response:
        """The body turns interfaces on or off: {"sam": false} leaves SAM out, and the others as they are."""
        router = self._router(request)
        interfaces = await request.json() if request.can_read_body else {}
        unknown = set(interfaces) - set(INTERFACES)
        if router.running or unknown:
            raise web.HTTPConflict(text="it runs already" if router.running else f"no interfaces: {unknown}")
        if interfaces and router.kind == "java":
            raise web.HTTPConflict(text="a Java router keeps its interfaces: they stand in files that it rewrites")
        router.interfaces.update(interfaces)
        router.start()
        return web.json_response({"running": router.running})

    def _router(self, request: web.Request) -> RouterProcess:
        try:
            return self._net.routers[int(request.match_info["number"])]
        except (ValueError, IndexError):
            raise web.HTTPNotFound(text="there is no router with this number") from None


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # `up` has ended after the line `READY`
        print(line, flush=True)


def main() -> int:
    """Parse the arguments from `integration.testnet`, and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    for name in ("--routers", "--java", "--java-floodfills"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    inside = NetworkKeeper(
        options.directory,
        options.lifeline,
        routers=options.routers,
        java=options.java,
        java_floodfills=options.java_floodfills,
    )
    return asyncio.run(inside.run(options.command))


if __name__ == "__main__":
    sys.exit(main())
