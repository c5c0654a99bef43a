"""`make bench-i2p`: the farm through a private I2P network.

Three nodes run beside three i2pd routers. Rounds alternate between two measurements. A raw stream goes from the
leader's router to each follower's router, and echoes 1 KiB. The stream uses the same proxy as the nodes, and tunnels of
the same length. Then entries of 1 KiB are posted at the leader, one after another. No commit is faster than the faster
stream and a sync of the disk. After that the publisher is killed by SIGKILL again and again. The time until three
floodfills hold a newer set counts.

Without a private network around it, the program starts one. Exit codes: 0 measured, 1 failed, 2 wrong usage.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from bridges.sam.client import Sam
from gf_i2p.admin.local_socket import socket_address
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import SOCKET_FILE
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.wire.endpoint import Endpoint
from integration.bench.limits import fsync_ms
from integration.bench.pinger import Pinger
from integration.bench.report import percentile
from integration.bench.suite import BUILD, describe_machine, say
from integration.bench.systems.farm import FARM
from integration.bench.systems.system import BenchError
from integration.bench.tls_echo import Echo
from integration.bench.workloads import VALUE_BYTES
from integration.harness.lease_set_check import META
from integration.harness.local_farm import NotSeenError, until
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.namespace import MissingError, check_programs
from integration.testnet.router import PROXY_PORT, SAM_PORT
from integration.testnet.router_console import StoredLeaseSet
from integration.testnet.router_files import SESSION
from integration.testnet.router_network import RouterNetwork, RouterPlace

SERVERS: Final = 3
ENOUGH: Final = 3
"""Floodfills that must hold a set."""
STEP_SECONDS: Final = 300.0
"""Most seconds for each thing to be seen: routers build tunnels meanwhile."""
_LOOK_SECONDS: Final = 0.25
_ROUND_SECONDS: Final = 3.0
"""Length of one echo of each follower, and of one run of commits."""
_ECHO_SECONDS: Final = 10.0
"""Most seconds for one round trip. A stream without an answer by then is given up, and another one is opened."""


@dataclass
class Figures:
    """The figures, in seconds."""

    echoes: dict[int, list[float]] = field(default_factory=dict)
    """Round trips of the raw streams, by the follower's id."""
    commits: list[float] = field(default_factory=list)
    takeovers: list[float] = field(default_factory=list)
    """From the kill of a publisher to a newer set on `ENOUGH` floodfills."""
    led: list[bool] = field(default_factory=list)
    """Whether the killed publisher led the farm, too."""
    fsync: float = 0.0

    @property
    def echo(self) -> float:
        """The median round trip to the follower that is faster by its median."""
        return min(statistics.median(times) for times in self.echoes.values())

    def document(self) -> dict[str, Any]:
        """Return the figures for JSON, with times in milliseconds or seconds as the names say."""
        commits = sorted(self.commits)
        p50 = percentile(commits, 0.5)
        return {
            "machine": describe_machine((FARM,)),
            "commits": len(commits),
            "commit_p50_ms": p50 * 1e3,
            "commit_p99_ms": percentile(commits, 0.99) * 1e3,
            "raw_stream_p50_ms": {
                server: statistics.median(times) * 1e3 for server, times in sorted(self.echoes.items())
            },
            "fsync_p50_ms": self.fsync * 1e3,
            "commit_to_raw_stream_and_fsync": p50 / (self.echo + self.fsync),
            "publisher_killed_to_newer_set_s": self.takeovers,
            "publisher_killed_to_newer_set_median_s": statistics.median(self.takeovers) if self.takeovers else None,
            "killed_publisher_led": self.led,
        }


def table(document: Mapping[str, Any]) -> str:
    """Return the figures as a table in Markdown."""
    streams = ", ".join(f"{each:.1f}" for each in document["raw_stream_p50_ms"].values())
    rows = [
        ("raw stream, round trip of 1 KiB to each follower, p50, ms", streams),
        ("fsync of 4 KiB, p50, ms", f"{document['fsync_p50_ms']:.2f}"),
        ("commit of 1 KiB at the leader, p50, ms", f"{document['commit_p50_ms']:.1f}"),
        ("commit of 1 KiB at the leader, p99, ms", f"{document['commit_p99_ms']:.1f}"),
        ("commit p50 / (raw stream and fsync)", f"{document['commit_to_raw_stream_and_fsync']:.2f}"),
    ]
    if document["publisher_killed_to_newer_set_s"]:
        kills = document["publisher_killed_to_newer_set_s"]
        median = document["publisher_killed_to_newer_set_median_s"]
        rows.append(
            (
                f"publisher killed to a newer set on {ENOUGH} floodfills, median of {len(kills)}, s",
                f"{median:.1f} ({min(kills):.1f} to {max(kills):.1f})",
            )
        )
    lines = ["| Through I2P | |", "|---|---|", *(f"| {title} | {figure} |" for title, figure in rows)]
    return "\n".join(lines)


# Commits beside raw streams -------------------------------------------------------------------------------------------


class _EchoBehindSam(Echo):
    """Sends back what comes after the first line, which is the router's: the peer's destination."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begun = False

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            _, line_end, data = data.partition(b"\n")
            self._begun = bool(line_end)
        super().data_received(data)


@contextlib.asynccontextmanager
async def _echo_behind(network: RouterNetwork, router: RouterPlace) -> AsyncIterator[Endpoint]:
    """Serve echoes at a new destination of this router, which a floodfill knows."""
    keys = DestinationKeys.generate()
    server = await asyncio.get_running_loop().create_server(_EchoBehindSam, router.programs, 0)
    async with server:
        session = await Sam(router.address, SAM_PORT).session(keys, SESSION)
        try:
            await session.forward(*server.sockets[0].getsockname()[:2])

            async def known() -> bool:
                return any([await network.holds(each, keys.destination.hash) for each in network.floodfills])

            await until("a lease set of the echo server", STEP_SECONDS, known)
            yield Endpoint(keys.destination.b32, 1)
        finally:
            session.close()


async def _echo(router: RouterPlace, peer: Endpoint) -> list[float]:
    """Return the round trips of values through this router's proxy."""
    proxy = I2pTransport(ProxySettings(router.address, PROXY_PORT, ProxyMethod.CONNECT))
    found: list[float] = []

    async def answered() -> bool:
        """Try until the routers know the new destination."""
        pinger = Pinger(seconds=_ROUND_SECONDS)
        try:
            transport = await proxy.dial(peer, lambda: pinger, deadline=_ECHO_SECONDS)
        except TransportError:
            return False
        try:
            found[:] = await asyncio.wait_for(pinger.done, _ROUND_SECONDS + _ECHO_SECONDS)
        except (OSError, TimeoutError):
            return False
        finally:
            transport.abort()
        return True

    await until(f"an echo from {peer.host[:8]}", STEP_SECONDS, answered)
    return found


async def _commit(farm: I2pFarm, leader: int) -> list[float]:
    """Post entries at the leader, one after another, on one connection; return the times of the requests."""
    times = []
    value = os.urandom(VALUE_BYTES // 2).hex()
    timeout = aiohttp.ClientTimeout(total=STEP_SECONDS)
    with socket_address(farm.node(leader) / SOCKET_FILE) as name:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(name), timeout=timeout) as session:
            end = time.monotonic() + _ROUND_SECONDS
            while time.monotonic() < end:
                began = time.perf_counter()
                async with session.post("http://node/v1/entries?timeout=60", json={"values": [value]}) as answer:
                    if answer.status != 200:
                        raise BenchError(f"server {leader} refused an entry: {await answer.text()}")
                    await answer.read()
                times.append(time.perf_counter() - began)
    return times


async def _measure_commits(network: RouterNetwork, farm: I2pFarm, rounds: int, figures: Figures) -> None:
    leader = await farm.leader(STEP_SECONDS)
    async with contextlib.AsyncExitStack() as stack:
        peers = {
            server: await stack.enter_async_context(_echo_behind(network, farm.routers[server]))
            for server in farm.ids
            if server != leader
        }
        for number in range(rounds):
            for server, peer in peers.items():
                figures.echoes.setdefault(server, []).extend(await _echo(farm.routers[leader], peer))
            commits = await _commit(farm, leader)
            figures.commits += commits
            shown = ", ".join(f"{statistics.median(each) * 1e3:.1f}" for each in figures.echoes.values())
            say(
                f"[round {number + 1}/{rounds}] raw streams {shown} ms so far, "
                f"commits {statistics.median(commits) * 1e3:.1f} ms"
            )


# The death of the publisher -------------------------------------------------------------------------------------------


async def _publishes(farm: I2pFarm) -> tuple[int, int]:
    """Wait until a server says what the server has published; return its id, and the time of publication."""
    found = (0, 0)

    async def seen() -> bool:
        nonlocal found
        farm.check()
        for server in farm.running:
            answer = await farm.status(server)
            if answer is not None and (sent := answer["farm"]["publishing"]) is not None:
                found = max(found, (server, sent["published"]), key=lambda each: each[1])
        return found[0] != 0

    await until("a publisher says what it has published", STEP_SECONDS, seen)
    return found


async def _holders(network: RouterNetwork, farm: I2pFarm) -> list[StoredLeaseSet]:
    """Return the farm's set as each floodfill that has one holds it."""
    farm.check()
    return list((await network.holders(farm.master.destination.b32, META)).values())


async def _kill_publisher(network: RouterNetwork, farm: I2pFarm, figures: Figures) -> None:
    publisher, published = await _publishes(farm)
    leader = await farm.leader(STEP_SECONDS)
    newest = max((held.expires for held in await _holders(network, farm)), default=None)
    farm.kill(publisher)
    began = time.monotonic()

    async def replaced() -> bool:
        answers = [await farm.status(server) for server in farm.running]
        sent = [answer["farm"]["publishing"] for answer in answers if answer is not None]
        if all(each is None or each["published"] <= published for each in sent):
            return False  # a newer set than before may be the last one of the killed publisher
        return sum(newest is None or each.expires > newest for each in await _holders(network, farm)) >= ENOUGH

    await until(f"a newer set on {ENOUGH} floodfills", STEP_SECONDS, replaced, poll=_LOOK_SECONDS)
    figures.takeovers.append(time.monotonic() - began)
    figures.led.append(publisher == leader)
    also = ", which led" if publisher == leader else ""
    say(f"publisher {publisher}{also}, killed to a newer set on {ENOUGH} floodfills: {figures.takeovers[-1]:.1f} s")
    farm.start(publisher)
    await farm.whole(STEP_SECONDS)  # a peer's i2pd may need two minutes to learn the new keys of a destination


async def _measure_farm(network: RouterNetwork, farm: I2pFarm, figures: Figures, *, rounds: int, kills: int) -> None:
    farm.place(themselves=True)
    farm.start_all()
    await farm.leader(STEP_SECONDS)
    say("the farm has a leader")
    await _publishes(farm)

    async def held() -> bool:
        return len(await _holders(network, farm)) >= ENOUGH

    await until(f"the set on {ENOUGH} floodfills", STEP_SECONDS, held)
    say(f"the set is on {ENOUGH} floodfills")
    await _measure_commits(network, farm, rounds, figures)
    for _ in range(kills):
        await _kill_publisher(network, farm, figures)


async def measure(network: RouterNetwork, directory: Path, rounds: int, kills: int) -> dict[str, Any]:
    """Measure on this network; return the document. Raises `BenchError`, also with the ends of the nodes' logs."""
    routers = [router for router in network.of("i2pd") if not router.floodfill][-SERVERS:]
    figures = Figures(fsync=fsync_ms(directory) / 1e3)
    with I2pFarm(directory / "farm", routers, password=network.password) as farm:
        try:
            await _measure_farm(network, farm, figures, rounds=rounds, kills=kills)
        except NotSeenError as error:
            raise BenchError(f"{error}\n{farm.complaints()}") from error
    return figures.document()


# The program ----------------------------------------------------------------------------------------------------------


async def _inside(network: RouterNetwork, options: argparse.Namespace) -> int:
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-i2p-", dir=BUILD) as directory:
        async with network:
            try:
                document = await measure(network, Path(directory), options.rounds, options.kills)
            except (BenchError, aiohttp.ClientError, TimeoutError) as error:
                if options.json:
                    print(json.dumps({"error": str(error)}))
                else:
                    print(f"bench-i2p: {error}", file=sys.stderr)
                return 1
    text = json.dumps(document, indent=2)
    if options.output is not None:
        options.output.write_text(text + "\n")
    print(text if options.json else "\n" + table(document))
    return 0


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m integration.bench.through_i2p", description=__doc__)
    parser.add_argument("--rounds", type=int, choices=range(1, 101), default=5, metavar="N", help="(default: 5)")
    parser.add_argument("--kills", type=int, choices=range(101), default=5, metavar="N", help="(default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON, not the table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the JSON to this file too")
    options = parser.parse_args()
    network = RouterNetwork.here()
    if network is not None:
        return asyncio.run(_inside(network, options))
    try:
        check_programs()
    except MissingError as error:
        print(f"bench-i2p: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="gf-i2p-bench-", ignore_cleanup_errors=True) as directory:
        testnet = [sys.executable, "-m", "integration.testnet", "run", "--directory", f"{directory}/network", "--"]
        command = [*testnet, sys.executable, "-m", "integration.bench.through_i2p", *sys.argv[1:]]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
