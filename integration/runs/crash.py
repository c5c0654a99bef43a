"""Kills nodes, and their history processes, with -9 while clients post, then compares logs and acknowledgements.

    python -m integration.runs.crash --entries 10000 --kills 20 [--clients 16] [--seed N] [--json]

The exit code is 0 when all of this holds, else 1:

- All three logs have every acknowledged entry.
- The logs are equal.
- The entries of each client stand in the order of the posts.
- An entry stands twice only if a post of the entry had an unknown outcome and the client posted again.

A log drops old entries; the run reads those in the server's history. Entries that a server got only as part of a
snapshot are read in the other servers' histories.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gf_i2p.cli.shared.logs import configure
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.storage.database import Storage
from gf_i2p.storage.history_lines import ConfigurationLine, Gap
from gf_i2p.storage.history_reader import read_history
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.harness.local_farm import LocalFarm
from integration.load.log_comparison import judge_posts

VALUE_BYTES = 1024


@dataclass
class CrashRecord:
    """The posts of the clients, and their outcomes."""

    acknowledged: list[str] = field(default_factory=list)
    retried: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    last: float = field(default_factory=time.monotonic)
    longest_pause: float = 0.0
    begun: int = 0
    allowed: int = 0  # posts that may begin so far; without this limit the clients would end before the kills
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def acknowledge(self, key: str) -> None:
        """Note that an entry has been committed."""
        now = time.monotonic()
        self.longest_pause = max(self.longest_pause, now - self.last)
        self.last = now
        self.acknowledged.append(key)
        async with self.progress:
            self.progress.notify_all()


async def post_all(client: FarmClient, number: int, count: int, record: CrashRecord) -> None:
    """Post `count` entries one after the other, each again and again until the farm acknowledges the entry."""
    for position in range(count):
        async with record.progress:
            await record.progress.wait_for(lambda: record.begun < record.allowed)
            record.begun += 1
        key = f"{number}:{position}"
        value = f'{{"key":"{key}","pad":"'.encode()
        value += b"x" * (VALUE_BYTES - len(value) - 2) + b'"}'
        while True:
            try:
                await client.post([value])
            except NotCommittedError:
                record.refused += 1
            except OutcomeUnknownError:
                record.retried[key] += 1
            else:
                await record.acknowledge(key)
                break


async def kill_all(farm: LocalFarm, rng: random.Random, kills: int, entries: int, record: CrashRecord) -> None:
    """Kill a random server and start it again, `kills` times. Each kill falls into its own share of the posts.

    Each time, the history process of a random server is killed, too.
    """
    for number in range(kills):
        due = int((number + rng.random()) * entries / kills)
        async with record.progress:
            record.allowed = (number + 1) * entries // kills
            record.progress.notify_all()
            while len(record.acknowledged) < due:
                await record.progress.wait()
        farm.check()
        server = rng.choice(farm.ids)
        await asyncio.to_thread(farm.kill, server)
        print(f"  {len(record.acknowledged):>6} acknowledged, server {server} killed", file=sys.stderr)
        # The time until the restart is random, too: from nothing to two elections.
        await asyncio.sleep(rng.uniform(0, 2.0))
        farm.start(server)
        farm.kill_history(rng.choice([each for each in farm.ids if each != server]))
    async with record.progress:
        record.allowed = entries
        record.progress.notify_all()


def stored_keys(farm: LocalFarm, server: int) -> dict[int, str]:
    """Read the keys of the posted entries by index: from a stopped server's history, then from the rest of its log."""
    keys: dict[int, str] = {}
    end = 0
    for line in read_history(farm.node(server) / HISTORY_DIRECTORY):
        if isinstance(line, Gap):
            end = line.last
            continue
        end = line.index
        if not isinstance(line, ConfigurationLine):
            keys[line.index] = line.value["key"]
    storage = Storage.open(farm.node(server) / DATABASE_FILE, cluster="farm", server_id=server)
    try:
        first, last = max(end, storage.loaded.base[0]) + 1, storage.loaded.last_index
        while first <= last:
            for entry in storage.read(first, last, 1 << 24):
                if entry.value_type == ValueType.APPLICATION:
                    keys[first] = json.loads(entry.value)["key"]
                first += 1
    finally:
        storage.close()
    return keys


def gaps(farm: LocalFarm, server: int) -> set[int]:
    """Return the indexes of the entries that a server never had because a snapshot replaced the entries."""
    lines = read_history(farm.node(server) / HISTORY_DIRECTORY)
    return {index for line in lines if isinstance(line, Gap) for index in range(line.first, line.last + 1)}


def judge(farm: LocalFarm, record: CrashRecord) -> list[str]:
    """Compare the logs with the acknowledgements; return a description of each error."""
    wrong: list[str] = []
    logs = {server: stored_keys(farm, server) for server in farm.ids}
    whole = {index: key for log in logs.values() for index, key in log.items()}
    for server, log in logs.items():
        unseen = gaps(farm, server)
        if log != {index: key for index, key in whole.items() if index in log or index not in unseen}:
            wrong.append(f"the log of server {server} differs from the others")
    keys = [whole[index] for index in sorted(whole)]
    return wrong + judge_posts(keys, record.acknowledged, record.retried)


async def run(directory: Path, *, entries: int, kills: int, clients: int, seed: int) -> dict[str, object]:
    """Do the whole run; return the figures."""
    rng = random.Random(seed)
    record = CrashRecord()
    with LocalFarm(directory) as farm:
        farm.start_all()
        await farm.leader()
        begun = time.monotonic()
        writers = [ClientFile.load(farm.client_file).open() for _ in range(clients)]
        try:
            async with asyncio.TaskGroup() as group:
                for number, client in enumerate(writers):
                    share = entries // clients + (number < entries % clients)
                    group.create_task(post_all(client, number, share, record))
                group.create_task(kill_all(farm, rng, kills, entries, record))
        finally:
            for client in writers:
                await client.close()
        seconds = time.monotonic() - begun
        await farm.leader()
        length = await farm.converged()
        farm.stop()
        wrong = judge(farm, record)
    return {
        "seed": seed,
        "entries": entries,
        "kills": kills,
        "clients": clients,
        "seconds": round(seconds, 2),
        "acknowledged": len(record.acknowledged),
        "outcome_unknown": record.retried.total(),
        "refused": record.refused,
        "log_length": length,
        "longest_pause_seconds": round(record.longest_pause, 2),
        "wrong": wrong,
    }


def main() -> int:
    """Parse the options, run, and print the figures; return 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    configure("error", "text")
    with tempfile.TemporaryDirectory(prefix="gf-i2p-crash-") as directory:
        figures = asyncio.run(
            run(Path(directory), entries=options.entries, kills=options.kills, clients=options.clients, seed=seed)
        )
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name.replace('_', ' '):22} {value}")
    return 1 if figures["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
