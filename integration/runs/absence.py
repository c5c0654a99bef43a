"""The cost for the other servers when a server catches up after a long absence: `make absence`.

    python -m integration.runs.absence [--entries 100000] [--rate 1000] [--writers 64] [--seconds 10] [--rounds 3]
                                  [--load below|full] [--log short|whole] [--same-priority] [--json]

The farm has three servers. In each round one server is stopped, 100,000 entries of 1 KiB are committed, and the server
starts again. The round measures until that server has caught up. The load is the same all the time: a rate that the
farm bears easily, or as much as some sequential writers achieve. The log is as short as usual (a snapshot, and later
entries), or kept whole, so that all missed data come as entries. Without --load and --log all four combinations are
measured. Exit 1 when a load was slowed by more than a tenth of its usual throughput with three servers, when histories
differ, or when the log had another length than was planned.

All servers and clients share this machine, while a real farm has a machine for each server. So the returning server
gets only the processor time that the others leave: on a separate machine, too, that server would take no time from the
others. With --same-priority the server competes with the others, and the measurement shows mostly this competition. As
root, the farm goes before other processes of this machine. `cores` is the mean number of cores in use, by process.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from gf_i2p.cli.shared import local_client
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.farm_client import FarmClient
from integration.harness import short_log
from integration.harness.local_farm import PROGRAM, LocalFarm, until
from integration.harness.long_run import Figures, Say, between, say
from integration.harness.long_run import run as run_command
from integration.harness.processes import cpu_seconds, machine_cpu_seconds, session_niceness, set_share
from integration.load.log_comparison import compare_exports, read_export
from integration.load.posting_clients import VALUE_BYTES
from integration.load.steady_load import Paced, Saturating, SteadyLoad

BEFORE: Final = "three servers, before"
AWAY: Final = "two servers"
STARTS: Final = "the third starts"
CATCHES_UP: Final = "it catches up"
AFTER: Final = "three servers, after"
LOADS: Final = ("below", "full")
LOGS: Final = ("short", "whole")

MOST_SLOWED: Final = 0.1
"""Most loss of throughput, as a share of the usual throughput."""
ALMOST: Final = 500
"""A server that lacks no more entries than this has caught up: under load a follower always lacks some."""
CATCH_UP_SECONDS: Final = 300.0
"""Time after which the server counts as lost."""
_FILL_BATCH: Final = 100
_FILL_WRITERS: Final = 4
_POLL_SECONDS: Final = 0.05
_NICER: Final = 10
"""Niceness of the returning server above the others: that server gets a tenth when all want the processor."""
_WHOLE_LOG: Final = 10_000_000
_RECORD_PAD: Final = 60_000


class Shares(NamedTuple):
    """Niceness of sessions, see `integration.harness.processes.session_niceness`."""

    others: int
    """Niceness of the clients, and of the servers that stay."""
    away: int


@dataclass(slots=True)
class AbsencePhase:
    """Measurements of the clients in some stretches of time with the same situation."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds of each acknowledged post."""
    cores: dict[str, float] = field(default_factory=dict)
    """Processor seconds by process: "clients", "leader", "away", "follower" and "others", the rest of the machine."""

    @property
    def rate(self) -> float:
        """Posts acknowledged in a second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def shown(self, what: str) -> dict[str, Any]:
        """Return the phase as a row of the printed table, named `what`."""
        ordered = sorted(self.latencies) or [0.0]
        return {
            "phase": what,
            "seconds": round(self.seconds, 2),
            "posts/s": round(self.rate),
            "p50 ms": round(1e3 * ordered[len(ordered) // 2], 1),
            "p99 ms": round(1e3 * ordered[len(ordered) * 99 // 100], 1),
            "cores": " ".join(f"{who} {used / self.seconds:.2f}" for who, used in self.cores.items())
            if self.seconds
            else "",
        }


class Absence:
    """One farm under one load."""

    def __init__(self, farm: LocalFarm, load: SteadyLoad, shares: Shares | None, *, shortens: bool, tell: Say) -> None:
        """`shortens`: the log is shortened, so that the missed entries come by a snapshot."""
        self.farm = farm
        self.phases: dict[str, AbsencePhase] = {}
        self.rounds: list[dict[str, Any]] = []
        self._load = load
        self._say = tell
        self._away: int | None = None
        self._shares = shares
        self._shortens = shortens

    async def watch(self, what: str, leader: int, away: int, awaited: Awaitable[object]) -> float:
        """Measure until `awaited` is done. Add the measurements to the phase `what`; return the seconds that passed."""
        pids = {server: self.farm.pid(server) for server in self.farm.running}
        before, mark, began = _used(pids, leader, away), self._load.mark(), time.monotonic()
        await awaited
        seconds = time.monotonic() - began
        phase = self.phases.setdefault(what, AbsencePhase())
        phase.seconds += seconds
        phase.latencies += self._load.since(mark)
        for who, used in _used(pids, leader, away).items():
            phase.cores[who] = phase.cores.get(who, 0.0) + used - before[who]
        self._load.check()
        self.farm.check()
        return seconds

    async def fill(self, count: int) -> None:
        """Post `count` entries beside the load, as fast as possible."""
        shares = [count // _FILL_WRITERS + (number < count % _FILL_WRITERS) for number in range(_FILL_WRITERS)]
        async with ClientFile.load(self.farm.client_file).open() as farm, asyncio.TaskGroup() as group:
            for share in shares:
                group.create_task(_post(farm, share))

    async def status(self, server: int) -> dict[str, Any]:
        """Return the status of a server. The server must be running and answer."""
        answer = await self.farm.status(server)
        assert answer is not None, f"server {server} does not answer"
        return answer

    async def roles(self) -> tuple[int, int]:
        """Return the leader and the server to stop, and set the priorities of all servers.

        The server to stop is always the same server, unless that server leads.
        """
        leader = await self.farm.leader()
        if self._away in {None, leader}:
            self._away = max(server for server in self.farm.ids if server != leader)
        assert self._away is not None
        for server in self.farm.running:
            self._weigh(server)
        return leader, self._away

    def _weigh(self, server: int) -> None:
        if self._shares is not None:
            set_share(self.farm.pid(server), self._shares.away if server == self._away else self._shares.others)

    async def round(self, entries: int, seconds: float) -> None:
        """Run one round: measure before the server stops, while the server is away, while it catches up, and after."""
        farm = self.farm
        leader, away = await self.roles()
        await self.watch(BEFORE, leader, away, asyncio.sleep(seconds))
        await asyncio.to_thread(farm.kill, away, signal.SIGTERM)
        last = (await self.status(leader))["log"]["commit"]
        await self.fill(entries)
        if self._shortens:  # this takes time: the log keeps entries that the history does not have yet

            async def dropped() -> bool:
                return bool((await self.status(leader))["log"]["first_index"] > last + 1)

            await until("the log is shortened beyond what is missed", CATCH_UP_SECONDS, dropped, poll=_POLL_SECONDS)
        await self.watch(AWAY, leader, away, asyncio.sleep(seconds))
        status = await self.status(leader)
        behind, first = status["log"]["commit"] - last, status["log"]["first_index"]
        farm.start(away)
        self._weigh(away)
        connecting = await self.watch(STARTS, leader, away, self._until_connected(leader, away))
        catching_up = await self.watch(CATCHES_UP, leader, away, self._until_caught_up(leader, away))
        await self.watch(AFTER, leader, away, asyncio.sleep(seconds))
        if await farm.leader() != leader:
            self._say("another server leads now: that was no quiet catching up")
        self.rounds.append(
            {
                "missed entries": behind,
                "dropped": max(0, first - 1 - last),
                "snapshot bytes": 0 if first - 1 <= last else status["snapshot"]["bytes"],
                "start-up s": round(connecting, 2),
                "catching up s": round(catching_up, 2),
                "leader": f"{leader}, then {await farm.leader()}",
            }
        )
        self._say(f"round {len(self.rounds)}: {behind} entries missed, caught up in {catching_up:.2f} s")

    async def _until_connected(self, leader: int, away: int) -> None:
        async def connected() -> bool:
            server = await self._returning_server(leader, away)
            return bool(server["connected"])

        await until(f"server {away} is back", CATCH_UP_SECONDS, connected, poll=_POLL_SECONDS)

    async def _until_caught_up(self, leader: int, away: int) -> None:
        async def almost() -> bool:
            lag = (await self._returning_server(leader, away))["lag"]
            return lag is not None and lag <= ALMOST

        await until(f"server {away} has caught up", CATCH_UP_SECONDS, almost, poll=_POLL_SECONDS)

    async def _returning_server(self, leader: int, away: int) -> dict[str, Any]:
        """Return the leader's view of the returning server.

        The higher term of the returning server may end the present leadership; then any later leader answers.
        """
        answer = await self.status(leader)
        if answer["role"] != "leader" and answer["leader"] in self.farm.running:
            answer = await self.status(answer["leader"])
        return next(server for server in answer["servers"] if server["id"] == away)

    async def large_records(self) -> None:
        """Let each server post a status record of almost the largest size: snapshots hold these records."""
        for server in self.farm.ids:
            record = {
                "cluster": "farm",
                "date": int(time.time() * 1000),
                "id": server,
                "router": {"up": True},
                "destinations": [],
                "pad": "x" * _RECORD_PAD,
            }
            body = {"values": [json.dumps(record)]}
            await local_client.request(self.farm.node(server), "POST", "/v1/entries", seconds=30, body=body)


async def _post(client: FarmClient, count: int) -> None:
    value = b'{"fill":"' + b"x" * (VALUE_BYTES - 11) + b'"}'
    while count > 0:
        batch = min(_FILL_BATCH, count)
        await client.post([value] * batch)
        count -= batch


def _used(pids: dict[int, int], leader: int, away: int) -> dict[str, float]:
    """Return processor seconds so far: of the clients, the servers, and all other processes of the machine."""
    nodes = {server: cpu_seconds(pid) for server, pid in pids.items()}
    used = {
        "clients": time.process_time(),
        "leader": nodes.pop(leader, 0.0),
        "away": nodes.pop(away, 0.0),
        "follower": sum(nodes.values()),
    }
    return {**used, "others": machine_cpu_seconds() - sum(used.values())}


async def run(
    directory: Path,
    *,
    kind: str,
    log: str,
    entries: int,
    rate: float,
    writers: int,
    seconds: float,
    rounds: int,
    snapshot_entries: int | None = None,
    shares: Shares | None = None,
    most_slowed: float = MOST_SLOWED,
    tell: Say = say,
) -> Figures:
    """Measure one load, of `LOADS`, on one farm with one of `LOGS`; return its figures."""
    program = PROGRAM if snapshot_entries is None else short_log.program(snapshot_entries, snapshot_entries // 10)
    if log == "whole":
        program = short_log.program(_WHOLE_LOG, _WHOLE_LOG)
    with LocalFarm(directory, program=program) as farm:
        farm.start_all()
        await farm.leader()
        load: SteadyLoad = Saturating(farm.client_file, writers) if kind == "full" else Paced(farm.client_file, rate)
        absence = Absence(farm, load, shares, shortens=log == "short", tell=tell)
        await absence.large_records()
        ours = session_niceness(os.getpid())
        if shares is not None:
            set_share(os.getpid(), shares.others)
        try:
            async with load:
                await asyncio.sleep(min(seconds, 2.0))  # time for connections, and for each process's first work
                for _ in range(rounds):
                    await absence.round(entries, seconds)
        finally:
            set_share(os.getpid(), ours)
        length = await farm.converged(CATCH_UP_SECONDS)
        await farm.exported(length, CATCH_UP_SECONDS)
        farm.stop()
        wrong = compare_exports({server: read_export(farm.node(server)) for server in farm.ids}, until=length)
    if any((not each["dropped"]) != (log == "whole") for each in absence.rounds):
        wrong.append("the log was not shortened, or was, against what was to be measured")
    usual, slow = _joined(absence.phases[BEFORE], absence.phases[AFTER]), absence.phases[CATCHES_UP]
    slowed = 1 - slow.rate / usual.rate if usual.rate else 1.0
    if slowed > most_slowed:
        wrong.append(f"catching up has slowed the load {kind!r}, with the log {log!r}, by {slowed:.0%}")
    return {
        "load": f"{rate:g} posts/s" if kind == "below" else f"{writers} sequential writers",
        "log": "shortened" if log == "short" else "whole",
        "usual_posts_per_second": round(usual.rate),
        "slowed_by_catching_up": f"{slowed:.1%}",
        "slowed_by_starting": f"{1 - absence.phases[STARTS].rate / usual.rate:.1%}" if usual.rate else "",
        "unanswered": load.unanswered,
        "rounds": absence.rounds,
        "phases": [phase.shown(what) for what, phase in absence.phases.items()],
        "wrong": wrong,
    }


def _joined(*phases: AbsencePhase) -> AbsencePhase:
    return AbsencePhase(sum(phase.seconds for phase in phases), [each for phase in phases for each in phase.latencies])


async def run_all(directory: Path, options: argparse.Namespace) -> Figures:
    """Measure each load with each log, one after the other."""
    figures: Figures = {"priority": "the same for all" if options.same_priority else "the lowest for who was away"}
    wrong: list[str] = []
    most = -_NICER if os.geteuid() == 0 else 0
    for kind in options.load:
        for log in options.log:
            say(f"load {kind}, log {log}")
            found = await run(
                directory / f"{kind}-{log}",
                kind=kind,
                log=log,
                entries=options.entries,
                rate=options.rate,
                writers=options.writers,
                seconds=options.seconds,
                rounds=options.rounds,
                shares=Shares(most, most if options.same_priority else most + _NICER),
            )
            wrong += found.pop("wrong")
            figures |= {f"{kind}, {log}: {name}": value for name, value in found.items()}
    return {**figures, "wrong": wrong}


def main() -> int:
    """Parse the options, run, print; return 0 when all checks hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=between(1, 1_000_000), default=100_000, metavar="N", help="entries to miss")
    parser.add_argument("--rate", type=between(1, 10_000), default=1000, help="posts a second of the load `below`")
    parser.add_argument("--writers", type=between(1, 512), default=64, help="clients of the load `full`")
    parser.add_argument("--seconds", type=between(0.1, 300), default=10.0, help="seconds before, during and after each")
    parser.add_argument("--rounds", type=between(1, 20), default=3, metavar="N")
    parser.add_argument("--load", choices=LOADS, action="append", help="measure this load only")
    parser.add_argument("--log", choices=LOGS, action="append", help="measure this kind of log only")
    parser.add_argument("--same-priority", action="store_true", help="let the server that was away compete")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.load, options.log = options.load or LOADS, options.log or LOGS
    each = options.rounds * (3 * options.seconds + 2 * CATCH_UP_SECONDS + options.entries / 1000) + CATCH_UP_SECONDS
    limit = len(options.load) * len(options.log) * each
    return run_command(options, "absence", lambda directory: run_all(directory, options), limit=limit)


if __name__ == "__main__":
    sys.exit(main())
