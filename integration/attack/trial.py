"""One attack on a farm: the farm before, the attacker's process beside an honest client, and the farm afterwards."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from integration.attack.attack import AHEAD, Attack, Load, Outcome, Scene
from integration.attack.attacked_farm import AttackedFarm, LogEntry
from integration.attack.hostile_requests import MARK
from integration.attack.judgement import MOST_KIB, Service, Trial, View
from integration.harness.local_farm import NotSeenError, becomes, until
from integration.harness.processes import Processes, tail
from integration.load.posting_clients import value_of
from integration.load.steady_load import Paced

RATE: Final = 20.0
"""Honest posts a second."""
USUAL_POSTS: Final = 20
"""Honest posts before an attack, for the usual time of an answer."""
_AFTER_POSTS: Final = 5
"""Honest posts that must be acknowledged after an attack."""
_FEW: Final = 3
"""Honest posts that may wait for their answers at any time."""
_NEWCOMER_DELAY: Final = 1.0
"""Seconds from the start of the attacker's process to a new honest login: the process needs most of them to start."""
_NEWCOMER_SECONDS: Final = 30.0
_EVIDENCE: Final = 100
"""Committed entries that are compared."""
_BACK_SECONDS: Final = 90.0
_SETTLE_SECONDS: Final = 10.0
_LATE_SECONDS: Final = 40.0
"""Most seconds of an attack's process beyond the attack's time: Python's start, 30 s for pages of honest clients."""


async def suffer(farm: AttackedFarm, load: Paced, attack: Attack, *, seconds: float, seed: int) -> Trial:
    """Attack the farm once, and measure. Raises `NotSeenError` when a node ends, or the farm does not commit again."""
    mark = load.mark()
    await becomes("honest posts before the attack", lambda: _posted(farm, load, mark, USUAL_POSTS), _BACK_SECONDS)
    usual = Service(load.since(mark))
    before, scene = await _begin(farm, seconds, seed)
    mark, unanswered = load.mark(), load.unanswered
    newcomer = asyncio.ensure_future(_newcomer(farm))
    try:
        held = await endure(farm, load, attack, scene)
    except BaseException:
        newcomer.cancel()
        raise
    ended, end_mark = time.monotonic(), load.mark()
    await becomes(
        f"honest posts after {attack.name}", lambda: _posted(farm, load, end_mark, _AFTER_POSTS), _BACK_SECONDS
    )
    back = time.monotonic() - ended
    await becomes(f"answers to all posts during {attack.name}", lambda: load.unfinished < _FEW, _BACK_SECONDS)
    meanwhile = Service(load.since(mark), load.unanswered - unanswered)
    first = await newcomer
    after = await _end(farm, before, attack)
    return Trial(attack, held, before, after, usual, meanwhile, first, back, farm.new_output())


async def _newcomer(farm: AttackedFarm) -> float:
    """Begin to log in and post once in the middle of the attack; return the seconds, infinite without an answer."""
    await asyncio.sleep(_NEWCOMER_DELAY)
    began = time.monotonic()
    try:
        async with ClientFile.load(farm.client_file).open() as client:
            await client.post([value_of("0:newcomer")], timeout=_NEWCOMER_SECONDS)
    except (NotCommittedError, OutcomeUnknownError):
        return float("inf")
    return time.monotonic() - began


def _posted(farm: AttackedFarm, load: Paced, mark: int, count: int) -> bool:
    farm.check()
    load.check()
    return len(load.since(mark)) >= count


async def _begin(farm: AttackedFarm, seconds: float, seed: int) -> tuple[View, Scene]:
    """Look at the farm before an attack."""
    leader = await farm.leader()
    statuses = await farm.statuses()
    commit = min(status["log"]["applied"] for status in statuses.values())
    view = await _view(farm, leader, max(1, commit - _EVIDENCE), commit)
    proved = max(index for index in view.entries[leader] if index <= commit - 5)
    scene = Scene(
        str(farm.directory), seconds, seed, leader, view.term, commit, proved, view.entries[leader][proved][0], farm.ids
    )
    farm.new_output()
    farm.forget_peaks()
    return view, scene


async def _view(farm: AttackedFarm, leader: int, first: int, last: int) -> View:
    statuses = await farm.statuses()
    entries: dict[int, dict[int, LogEntry]] = {server: await farm.entries(server, first, last) for server in farm.ids}
    endpoints = {server["id"]: server["endpoint"] for server in statuses[leader]["servers"]}
    log = statuses[leader]["log"]
    return View(leader, statuses[leader]["term"], endpoints, farm.memory(), entries, log["last_index"])


async def endure(farm: AttackedFarm, load: Paced, attack: Attack, scene: Scene) -> Load:
    """Run the attacker's process to its end; return the load."""
    with Processes() as processes:
        process = start(processes, farm.directory, attack, scene)
        try:
            await becomes(
                f"the end of {attack.name}",
                lambda: _posted(farm, load, 0, 0) and process.poll() is not None,
                scene.seconds + _LATE_SECONDS,
            )
        finally:
            farm.check()
        return result(farm.directory, attack, process)


def start(processes: Processes, directory: Path, attack: Attack, scene: Scene) -> "subprocess.Popen[bytes]":
    """Start the attacker's process."""
    files = directory / f"{attack.name}.scene", directory / f"{attack.name}.load"
    files[0].write_text(scene.encode())
    command = [sys.executable, "-m", "integration.attack.enemy", attack.name, *map(str, files)]
    return processes.spawn(attack.name, command, directory / f"{attack.name}.log")


def result(directory: Path, attack: Attack, process: "subprocess.Popen[bytes]") -> Load:
    """Read the load of an attacker's process that has ended. Raises `NotSeenError` when the process has failed."""
    if process.returncode != 0:
        raise NotSeenError(f"{attack.name} failed ({process.returncode}):\n{tail(directory / f'{attack.name}.log')}")
    fields = json.loads((directory / f"{attack.name}.load").read_text())
    return Load(fields["text"], tuple(fields["harm"]))


async def _leader(farm: AttackedFarm, attack: Attack) -> int:
    """Return the leader that all servers know. After an attack whose cost is accepted, a majority is enough."""
    if attack.outcome is not Outcome.SHOWN:
        return await farm.leader()
    named = Counter(status["leader"] for status in (await farm.statuses()).values() if status["leader"] is not None)
    return int(named.most_common(1)[0][0])


async def _end(farm: AttackedFarm, before: View, attack: Attack) -> View:
    """Look at the farm after an attack, when the memory is back, and all servers have the same entries."""
    leader = await _leader(farm, attack)
    first = min(min(entries, default=1) for entries in before.entries.values())
    last = 0 if attack.outcome is Outcome.SHOWN else (await farm.statuses())[leader]["log"]["applied"]

    async def applied() -> bool:
        return all(status["log"]["applied"] >= last for status in (await farm.statuses()).values())

    await until(f"entry {last} on all servers", _BACK_SECONDS, applied)
    with contextlib.suppress(NotSeenError):  # the judgement says so
        await becomes("memory in its bound", lambda: farm.memory().now <= MOST_KIB, _SETTLE_SECONDS, poll=0.2)
    if attack.writes:  # the attacker's own entries may be large and many
        last = before.last_index
    view = await _view(farm, leader, first, last)
    return replace(view, strayed=await _strayed(farm, before)) if attack.outcome is Outcome.SHOWN else view


async def _strayed(farm: AttackedFarm, before: View) -> int:
    """Count the servers whose log or snapshot has the attacker's bytes."""
    count = 0
    for server, status in (await farm.statuses()).items():
        snapshot, log = status["snapshot"], status["log"]
        entries = await farm.entries(server, before.last_index, log["applied"])
        marked = any(value == MARK.decode() for _, _, value in entries.values())
        count += marked or (snapshot is not None and snapshot["index"] >= before.last_index + AHEAD // 2)
    return count
