"""`make torture`: five servers suffer kill -9, SIGSTOP and network cuts while clients write and read registers.

The servers' history processes suffer kill -9, too.

    python -m integration.runs.torture [--seconds 600] [--seed N] [--clients 8] [--snapshot-entries N]
        [--failing-disk ONE_IN] [--keep DIR] [--json]

Each server is a real process in a network namespace of its own. A router that can drop packets joins the namespaces;
no packet leaves the machine. Two faults at a time go on side by side. The seed, which is printed, chooses the faults:
the same seed gives the same faults in the same order, but they hit the farm at other moments.

With `--failing-disk`, one in ONE_IN operations on the log of one server fails (`integration.load.failing_disk`). That
server stops by itself and says why; the run starts the server again at once, on the same disk. The disk is sound again
after the last fault.

The exit code is 0 when all of this holds, else 1:

- The history of each register is linearizable, and the history of the whole log is, too.
- Acknowledged entries stand at the promised index, refused entries nowhere, and no entry stands twice.
- A read returns what the log has.
- After the last fault the logs become equal. The exported histories are then the same record by record, except for the
  entries that a snapshot replaced, and for the times of receipt.
- No server ends by itself or reports a defect, except for the failing disk.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gf_i2p.cli.shared.logs import configure
from gf_i2p.node.files.file_names import HISTORY_DIRECTORY
from gf_i2p.simulator.cluster.linearizability import OperationKind
from integration.harness import short_log
from integration.harness.local_farm import PROGRAM, becomes
from integration.harness.long_run import Figures, Say, between, conclude, say
from integration.harness.network_farm import NEEDED, FarmNet, NetFarm
from integration.harness.processes import Processes
from integration.load.failing_disk import program as on_failing_disk
from integration.load.log_comparison import compare_exports, compare_logs, read_export, read_log, union
from integration.load.register_clients import AccessHistory, RegisterClient, judge_accesses
from integration.load.server_faults import Tormentor, plan_faults
from integration.testnet.namespace import MissingError, check_programs, run_inside

SERVERS: Final = 5
LANES: Final = 2
"""Number of faults that may last at the same time."""
HEAL_SECONDS: Final = 180.0
"""The time limit for all logs to become equal after the last fault."""
_THINK_SECONDS: Final = 0.03
_TELL_SECONDS: Final = 30.0
_HISTORY_KILLED: Final = "the history process was ended by signal 9"
_DEFECTS: Final = ("Traceback", "defect", "broke the protocol", "[critical", "[error", "violat")
_MOST_LINES: Final = 5
_RESTART_SECONDS: Final = 0.5
_DISK_FAULTS: Final = ("the disk under ",)
"""Texts of the messages about a failing disk."""


async def run(
    directory: Path,
    *,
    seconds: float,
    seed: int,
    clients: int,
    snapshot_entries: int | None = None,
    failing_disk: int | None = None,
    tell: Say = say,
) -> Figures:
    """Do the whole run, inside own namespaces; return the figures."""
    program = PROGRAM if snapshot_entries is None else short_log.program(snapshot_entries, snapshot_entries // 10)
    with Processes(signal.SIGKILL) as processes:
        net = FarmNet(range(1, SERVERS + 1), processes, directory / "net.log")
        await net.start()
        with NetFarm(directory, net, servers=SERVERS, program=program) as farm:
            disk = None if failing_disk is None else _FailingServer(farm, random.Random(seed), failing_disk, tell)
            farm.start_all()
            await farm.leader()
            tell(f"server {await farm.leader()} leads; the faults begin")
            history, tormentor = AccessHistory(), Tormentor(farm, net, tell)
            began = time.monotonic()
            async with asyncio.TaskGroup() as group:
                watch = None if disk is None else group.create_task(disk.run(tormentor))
                await _torment(farm, history, tormentor, seconds=seconds, seed=seed, clients=clients, tell=tell)
                if watch is not None:
                    watch.cancel()
            if disk is not None:
                await disk.mend()
            tormented = time.monotonic() - began
            tell("all is mended; waiting for equal logs")
            healed = time.monotonic()
            leader = await farm.leader(HEAL_SECONDS)
            length = await farm.converged(HEAL_SECONDS)
            healed = time.monotonic() - healed
            await farm.exported(length, HEAL_SECONDS)
            status = await farm.status(leader)
            farm.stop()
            return {
                "seed": seed,
                "seconds": round(tormented, 1),
                "faults": [f"{count:>4}  {what}" for what, count in sorted(tormentor.done.items())],
                "writes_acknowledged": history.count(OperationKind.WRITE, done=True),
                "writes_of_unknown_outcome": history.count(OperationKind.WRITE, done=False),
                "writes_refused": sum(each.refused and each.kind is OperationKind.WRITE for each in history.accesses),
                "reads_answered": history.count(OperationKind.READ, done=True),
                "reads_refused": sum(each.refused and each.kind is OperationKind.READ for each in history.accesses),
                "longest_pause_seconds": round(history.longest_pause, 2),
                "last_term": None if status is None else status["term"],
                "equal_after_seconds": round(healed, 2),
                "log_length": length,
                **({} if disk is None else {"server_with_failing_disk": disk.server, "disk_failures": disk.ended}),
                **_judged(farm, history, length, tell, None if disk is None else disk.server),
            }


class _FailingServer:
    """One server, on a disk that fails at random, which is started again after each end."""

    def __init__(self, farm: NetFarm, rng: random.Random, one_in: int, tell: Say) -> None:
        self.server = rng.choice(farm.ids)
        self.ended = 0
        """How often the server has ended by itself."""
        self._farm = farm
        self._rng = rng
        self._one_in = one_in
        self._say = tell
        farm.fragile.add(self.server)
        self._choose()

    async def run(self, tormentor: Tormentor) -> None:
        """Start the server again whenever it has ended; never return."""
        while True:
            await asyncio.sleep(_RESTART_SECONDS)
            if self.server not in self._farm.running and self.server not in tormentor.busy:
                self.ended += 1
                self._say(f"server {self.server} has ended by itself: {self.ended}")
                self._choose()
                self._farm.start(self.server)

    async def mend(self) -> None:
        """Give the server a sound disk."""
        await asyncio.to_thread(self._farm.kill, self.server)
        self._farm.programs.pop(self.server)
        self._farm.fragile.discard(self.server)
        self._farm.start(self.server)

    def _choose(self) -> None:
        """Let other operations fail after the next start."""
        self._farm.programs[self.server] = on_failing_disk(
            self._rng.randrange(1 << 32), self._one_in, self._farm.program
        )


async def _torment(
    farm: NetFarm, history: AccessHistory, tormentor: Tormentor, *, seconds: float, seed: int, clients: int, tell: Say
) -> None:
    """Run clients and faults side by side until the faults have ended."""
    rng = random.Random(seed)
    lanes = [plan_faults(random.Random(rng.random()), seconds, farm.ids) for _ in range(LANES)]
    users = [
        RegisterClient(farm, farm.client_file, history, random.Random(rng.random()), _THINK_SECONDS)
        for _ in range(clients)
    ]
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_watch(farm, history, tell))
        for user in users:
            group.create_task(user.run())
        faults = [group.create_task(tormentor.run(lane)) for lane in lanes]
        await asyncio.wait(faults)
        count = history.count(OperationKind.WRITE, done=True)
        await becomes(
            "writes go on when all is mended",
            lambda: history.count(OperationKind.WRITE, done=True) > count + 2 * clients,
            HEAL_SECONDS,
            poll=0.2,
        )
        for user in users:
            user.stop()
        watch.cancel()


async def _watch(farm: NetFarm, history: AccessHistory, tell: Say) -> None:
    """Watch for servers that end by themselves, and print the progress now and then."""
    told = time.monotonic()
    while True:
        await asyncio.sleep(1)
        farm.check()
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            done = [history.count(kind, done=True) for kind in (OperationKind.WRITE, OperationKind.READ)]
            tell(f"{done[0]} writes acknowledged, {done[1]} reads answered")


def _judged(farm: NetFarm, history: AccessHistory, length: int, tell: Say, failing: int | None = None) -> Figures:
    """Compare the stopped servers with each other, and with the answers that the clients got.

    `failing`: the server whose disk failed.
    """
    tell("comparing logs, histories, and what clients were told")
    exports = {server: read_export(farm.node(server)) for server in farm.ids}
    log = union(exports)
    logs = {server: read_log(farm.node(server), server) for server in farm.ids}
    wrong = compare_logs(logs, length) + compare_exports(exports, until=length)
    told, undecided = judge_accesses(history, log, length)
    wrong += told
    for server in farm.ids:
        expected = (_HISTORY_KILLED, *(_DISK_FAULTS if server == failing else ()))
        wrong += _verified(farm.node(server)) + _complaints(server, farm.log(server), expected)
    return {
        "registers": 1 + max((each.key for each in history.accesses), default=0),
        "registers_undecided": undecided,
        "entries_in_histories": len(log),
        "left_to_snapshots": {
            server: sum(last - first + 1 for first, last in export.gaps) for server, export in exports.items()
        },
        "wrong": wrong,
    }


def _verified(node: Path) -> list[str]:
    """Check a history with `gf-i2p history verify`."""
    command = [sys.executable, *PROGRAM, "history", "verify", str(node / HISTORY_DIRECTORY), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"history verify: {done.stdout}{done.stderr}"]


def _complaints(server: int, log: Path, expected: Sequence[str] = ()) -> list[str]:
    """Return the lines of a server's log that report a defect; `expected`: texts of lines that report none."""
    lines = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if any(word in line for word in _DEFECTS) and not any(text in line for text in expected)
    ]
    return [f"server {server} says: {line[:300]}" for line in lines[:_MOST_LINES]]


def main() -> int:
    """Parse the options, enter the namespaces, run, and print; return 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=between(1, 86_400), default=600, help="seconds of faults, 1 to 86,400")
    parser.add_argument("--seed", type=between(0, 2**32 - 1), default=None)
    parser.add_argument("--clients", type=between(1, 32), default=8, metavar="N", help="clients, 1 to 32")
    parser.add_argument(
        "--snapshot-entries", type=between(20, 1_000_000), metavar="N", help="shorten the logs after so many entries"
    )
    parser.add_argument(
        "--failing-disk",
        type=between(1, 1_000_000),
        metavar="ONE_IN",
        help="let one in so many operations on one server's log fail",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy all directories there if anything is wrong")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lifeline", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return _outside(options) if options.inside is None else _inside(options)


def _outside(options: argparse.Namespace) -> int:
    """Make the namespaces, and remove the files from inside afterwards."""
    try:
        check_programs(NEEDED)
    except MissingError as error:
        if options.json:
            print(json.dumps({"ok": False, "error": str(error)}))
        print(f"torture: {error}", file=sys.stderr)
        return 1
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    directory = Path(tempfile.mkdtemp(prefix="gf-i2p-torture-"))
    arguments = ["--inside", str(directory), "--seed", str(seed)]
    arguments += ["--seconds", str(options.seconds), "--clients", str(options.clients)]
    if options.snapshot_entries is not None:
        arguments += ["--snapshot-entries", str(options.snapshot_entries)]
    if options.failing_disk is not None:
        arguments += ["--failing-disk", str(options.failing_disk)]
    arguments += ["--json"] if options.json else []
    try:
        code = run_inside("integration.runs.torture", arguments, interrupt=True)
        if code == 1 and options.keep is not None:
            shutil.copytree(directory, options.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _inside(options: argparse.Namespace) -> int:
    configure("error", "text")
    os.chdir(Path(__file__).parents[2])  # the child processes are modules of this checkout

    async def work() -> Figures:
        return await run(
            options.inside,
            seconds=options.seconds,
            seed=options.seed,
            clients=options.clients,
            snapshot_entries=options.snapshot_entries,
            failing_disk=options.failing_disk,
        )

    limit = 2 * options.seconds + 4 * HEAL_SECONDS
    return conclude(options, "torture", work, limit=limit, lifeline=options.lifeline)


if __name__ == "__main__":
    sys.exit(main())
