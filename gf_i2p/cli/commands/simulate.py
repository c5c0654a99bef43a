"""`gf-i2p simulate`: runs many seeds on all cores, prints one seed as a trace, or measures the canaries.

With `--exhaustive`, the command searches small scopes instead: all runs, not random ones.
"""

import json
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any, Final

from gf_i2p.cli.shared.argument_types import whole_number
from gf_i2p.cli.shared.errors import CommandError, Exit, result_fields
from gf_i2p.simulator.canaries import CANARIES
from gf_i2p.simulator.cluster.invariants.all_invariants import ALL
from gf_i2p.simulator.cluster.plan import MOST_NODES
from gf_i2p.simulator.exhaustive.scope import SCOPES
from gf_i2p.simulator.exhaustive.search import Search
from gf_i2p.simulator.life.invariants import FARM_RULES
from gf_i2p.simulator.seed_run import SeedResult, run_life, simulate
from gf_i2p.simulator.totals import COUNTED, COUNTED_IN_LIVES, Totals

CANARY_SEEDS: Final = 1500
"""Seeds within which every canary must be caught. The rarest mistakes show in one of 100 seeds: with 500 seeds and five
starts, one run of all canaries in thirty failed by chance."""
CANARY_STARTS: Final = 5
_CHUNK: Final = 8
"""Seeds that one process takes at a time."""
_PROGRESS_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Seed:
    """One run of the simulator."""

    number: int
    nodes: int | None
    lives: bool = False
    """Whether the run has only hours of a farm's life, without elections."""

    def run(self, *, trace: bool = False) -> SeedResult:
        """Run the seed; with `trace`, print each event as a line."""
        write = print if trace else None
        if self.lives:
            return run_life(self.number, write=write)
        return simulate(self.number, self.nodes, trace=trace, write=write)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--seeds", type=whole_number(10**6), metavar="N", help="how many runs (default: 100; 1 with --seed)"
    )
    parser.add_argument(
        "--nodes",
        type=whole_number(MOST_NODES),
        metavar="K",
        help=f"servers at first, 1 to {MOST_NODES} (default: each seed decides)",
    )
    parser.add_argument(
        "--seed",
        type=whole_number(10**12),
        metavar="S",
        help="the first seed; the same seed gives the same run (default: a random seed)",
    )
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="run the seeds of a file instead: SEED or SEED NODES in each line"
    )
    parser.add_argument("--jobs", type=whole_number(256), metavar="J", help="processes (default: one for each core)")
    parser.add_argument(
        "--lives", action="store_true", help="run only the hours of farms' lives, on a given log, without elections"
    )
    parser.add_argument("--trace", action="store_true", help="print each event of one seed as a line")
    parser.add_argument(
        "--canary",
        metavar="NAME",
        help="break the code on purpose, in the way of this canary; a check must notice that",
    )
    parser.add_argument(
        "--canaries",
        action="store_true",
        help="count for each canary the seeds until a check notices the canary; takes minutes",
    )
    parser.add_argument(
        "--exhaustive",
        choices=(*SCOPES, "all"),
        metavar="SCOPE",
        help=f"search all runs of three servers in a small scope instead: {', '.join(SCOPES)}, or all",
    )
    parser.add_argument(
        "--seconds",
        type=whole_number(10**6),
        metavar="T",
        help="most seconds of a processor for each scope (default: no limit); exit code 3 when they do not suffice",
    )


def run(options: Namespace) -> Exit:
    """Run the seeds or canaries that the options name. Raises `CommandError`."""
    if options.canaries:
        return _canaries(options)
    if options.canary is not None and options.canary not in CANARIES:
        raise CommandError(
            f"there is no canary {options.canary!r}: choose one of {', '.join(CANARIES)}", code=Exit.USAGE
        )
    if options.exhaustive is not None:
        return _exhaustive(options)
    seeds = _seeds(options)
    if options.trace:
        return _trace(options, seeds)
    began = time.monotonic()
    totals = Totals()
    for result in _results(options, seeds):
        totals.add(result)
        if result.violation is not None and not options.json:
            print(_failure(result, options), flush=True)
    duration = time.monotonic() - began
    if options.json:
        failed = [_failure_object(result, options) for result in totals.failed]
        error = _violated([each["invariant"] for each in failed], len(seeds), "seeds")
        answer = {"firstSeed": seeds[0].number, "seconds": round(duration, 1), **totals.as_object()}
        print(json.dumps({**result_fields(error), **answer, "violations": failed}))
    else:
        print(_summary(totals, seeds, duration))
    return Exit.FAILED if totals.failed else Exit.OK


def _violated(invariants: Sequence[str], count: int, runs: str) -> str | None:
    """Return the sentence about the violated invariants of `count` runs; None without a violation."""
    if not invariants:
        return None
    return f"{len(invariants)} of {count} {runs} violated an invariant, and the first is {invariants[0]}"


def _seeds(options: Namespace) -> list[Seed]:
    if options.file is not None:
        return read_seeds(options.file)
    first = options.seed or 1 + secrets.randbelow(10**9)
    count = options.seeds or (1 if options.seed else 100)
    if not options.json:
        print(f"{count} seed{'s' * (count > 1)} from {first} on", flush=True)
    canary, nodes, lives = CANARIES.get(options.canary), options.nodes, options.lives
    if canary is not None:
        nodes, lives = nodes or canary.nodes, lives or canary.lives
    return [Seed(first + i, nodes, lives) for i in range(count)]


def read_seeds(path: Path) -> list[Seed]:
    """Read a file with `SEED` or `SEED NODES` in each line; # begins a comment. Raises `CommandError`."""
    seeds: list[Seed] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise CommandError(f"{path}, line {number}: expected SEED or SEED NODES, two whole numbers")
        seeds.append(Seed(int(words[0]), int(words[1]) if len(words) == 2 else None))
    if not seeds:
        raise CommandError(f"{path} has no seeds")
    return seeds


# Running --------------------------------------------------------------------------------------------------------------


def _run(seeds: Sequence[Seed], canary: str | None) -> list[SeedResult]:
    with nullcontext() if canary is None else CANARIES[canary].applied():
        return [seed.run() for seed in seeds]


@contextmanager
def _pool(options: Namespace, tasks: int) -> Iterator[ProcessPoolExecutor]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = min(options.jobs or usable, tasks)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_end_with_parent) as pool:
        try:
            yield pool
        except BaseException:  # Ctrl-C among others: the end of the block would wait for all running tasks
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, even by SIGKILL: nothing else would stop this process.

    A terminal sends Ctrl-C to this process, too. The parent alone decides what then happens.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _results(options: Namespace, seeds: Sequence[Seed]) -> Iterator[SeedResult]:
    chunks = [seeds[i : i + _CHUNK] for i in range(0, len(seeds), _CHUNK)]
    if len(chunks) == 1 or options.jobs == 1:
        for chunk in chunks:
            yield from _run(chunk, options.canary)
        return
    done = 0
    with _pool(options, len(chunks)) as pool:
        for results in _as_they_come(pool, [pool.submit(_run, chunk, options.canary) for chunk in chunks]):
            yield from results
            done += len(results)
            _progress(done, len(seeds), "seeds")


def _as_they_come(pool: ProcessPoolExecutor, futures: Sequence[Future[Any]]) -> Iterator[Any]:
    # `concurrent.futures.wait` takes the locks of all futures. Ctrl-C there leaves one taken: the process never ends.
    ended: SimpleQueue[Future[Any]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(ended.put)
    try:
        for _ in futures:
            yield ended.get().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_progress_at = 0.0


def _progress(done: int, total: int, unit: str) -> None:
    if done < total:
        _say(f"{done} of {total} {unit}")


def _say(progress: str) -> None:
    global _progress_at  # noqa: PLW0603 -- one line for one process's standard error
    now = time.monotonic()
    if now - _progress_at >= _PROGRESS_SECONDS:
        _progress_at = now
        print(f"  {progress}", file=sys.stderr, flush=True)


def _trace(options: Namespace, seeds: Sequence[Seed]) -> Exit:
    if options.json or len(seeds) != 1:
        raise CommandError("--trace is for one seed (--seed S), and without --json", code=Exit.USAGE)
    with nullcontext() if options.canary is None else CANARIES[options.canary].applied():
        result = seeds[0].run(trace=True)
    print(f"trace {result.digest}")
    if result.violation is None:
        print(f"no violation: {result.nodes} servers, {result.profile}, {result.events} events")
        return Exit.OK
    print(_failure(result, options))
    return Exit.FAILED


# Canaries -------------------------------------------------------------------------------------------------------------


def _hunt(canary: str, first: int, nodes: int | None) -> tuple[str, int | None, str]:
    """Run seeds until the canary is caught.

    Returns the canary's name, the number of seeds that were run (None: not caught), and the name of the invariant or
    the error that caught the canary ("-": none).
    """
    with CANARIES[canary].applied():
        for i in range(CANARY_SEEDS):
            try:
                violation = Seed(first + i, nodes or CANARIES[canary].nodes, CANARIES[canary].lives).run().violation
            except Exception as error:  # noqa: BLE001 -- the core is broken on purpose, and may raise anything
                return canary, i + 1, type(error).__name__
            if violation is not None:
                return canary, i + 1, violation.invariant
    return canary, None, "-"


def _canaries(options: Namespace) -> Exit:
    first = options.seed or 1 + secrets.randbelow(10**9)
    starts = [first + i * CANARY_SEEDS for i in range(CANARY_STARTS)]
    caught: dict[str, list[tuple[int | None, str]]] = {name: [] for name in CANARIES}
    tasks = [(name, start) for name in CANARIES for start in starts]
    done = 0
    with _pool(options, len(tasks)) as pool:
        futures = [pool.submit(_hunt, name, start, options.nodes) for name, start in tasks]
        for name, seeds, invariant in _as_they_come(pool, futures):
            caught[name].append((seeds, invariant))
            done += 1
            _progress(done, len(tasks), "hunts")
    survivors = [name for name, hunts in caught.items() if any(seeds is None for seeds, _ in hunts)]
    rows = [_canary_object(name, hunts) for name, hunts in caught.items()]
    if options.json:
        error = f"{len(survivors)} of {len(CANARIES)} canaries survived: {', '.join(survivors)}" if survivors else None
        answer = {"firstSeed": first, "starts": CANARY_STARTS, "canaries": rows}
        print(json.dumps({**result_fields(error), **answer}))
    else:
        print(f"seeds until caught, from {CANARY_STARTS} starts ({first}, then every {CANARY_SEEDS})")
        print(f"{'canary':<16}{'median':>7}{'worst':>7}  {'caught by':<42} mistake")
        for row in rows:
            worst = row["worst"] or "never"
            print(f"{row['name']:<16}{row['median']:>7}{worst:>7}  {', '.join(row['by']):<42} {row['mistake']}")
        print("all caught" if not survivors else f"NOT TO BE TRUSTED: {', '.join(survivors)} survived")
    return Exit.FAILED if survivors else Exit.OK


def _canary_object(name: str, hunts: Sequence[tuple[int | None, str]]) -> dict[str, Any]:
    seeds = [CANARY_SEEDS + 1 if each is None else each for each, _ in hunts]
    return {
        "name": name,
        "mistake": CANARIES[name].mistake,
        "median": int(median(seeds)),
        "worst": None if any(each is None for each, _ in hunts) else max(seeds),
        "by": sorted({invariant for _, invariant in hunts}),
    }


# Exhaustive searches --------------------------------------------------------------------------------------------------


def _exhaustive(options: Namespace) -> Exit:
    rows = []
    for name in SCOPES if options.exhaustive == "all" else [options.exhaustive]:
        with nullcontext() if options.canary is None else CANARIES[options.canary].applied():
            row, trace = _search(name, options.seconds)
        rows.append(row)
        if not options.json:
            print(f"{name:<12}{_search_line(row)}", *trace, sep="\n", flush=True)
    error = _violated([row["violation"]["invariant"] for row in rows if row["violation"]], len(rows), "scopes")
    if options.json:
        print(json.dumps({**result_fields(error), "scopes": rows}))
    if error is not None:
        return Exit.FAILED
    return Exit.OK if all(row["exhausted"] for row in rows) else Exit.DEGRADED


def _search(name: str, seconds: int | None) -> tuple[dict[str, Any], list[str]]:
    search, began, trace = Search(SCOPES[name]), time.process_time(), list[str]()

    def enough() -> bool:
        _say(f"{search.states:,} states, {search.depth} choices deep")
        return seconds is not None and time.process_time() - began >= seconds

    search.run(enough)
    violation = search.violation
    if violation is not None:
        search.describe(trace.append)
    row = {
        "scope": name,
        "states": search.states,
        "depth": search.depth,
        "exhausted": search.exhausted,
        "processorSeconds": round(time.process_time() - began, 1),
        "stepsOfCores": search.tables.core_steps,
        "violation": None if violation is None else {"invariant": violation.invariant, "seen": violation.observation},
        "trace": trace,
    }
    return row, trace


def _search_line(row: dict[str, Any]) -> str:
    found = (
        f"VIOLATION of {row['violation']['invariant']}: {_statement(row['violation']['invariant'])}"
        if row["violation"] is not None
        else "exhausted, no violation"
        if row["exhausted"]
        else "no violation so far, not exhausted"
    )
    seconds = row["processorSeconds"]
    return (
        f"{row['states']:>9,} states, {row['depth']} choices deep, {row['stepsOfCores']:,} steps of cores, "
        f"{seconds:.0f} s of a processor, {row['states'] / max(seconds, 0.1):,.0f} states/s: {found}"
    )


# Texts ----------------------------------------------------------------------------------------------------------------


def _replay(result: SeedResult, options: Namespace) -> str:
    nodes = f" --nodes {result.nodes}" if options.nodes is not None else ""
    canary = f" --canary {options.canary}" if options.canary is not None else ""
    lives = " --lives" if options.lives else ""
    return f"gf-i2p simulate --seed {result.seed}{nodes}{canary}{lives} --trace"


def _statement(name: str) -> str:
    rule = next((each.__doc__ for each in (*ALL, *FARM_RULES) if each.__name__ == name), None)
    return " ".join((rule or name).split())


def _failure(result: SeedResult, options: Namespace) -> str:
    violation = result.violation
    assert violation is not None
    return (
        f"VIOLATION of {violation.invariant}: {_statement(violation.invariant)}\n"
        f"  seen    {violation.observation}\n"
        f"  seed    {result.seed} ({result.nodes} servers, {result.profile})\n"
        f"  replay  {_replay(result, options)}"
    )


def _failure_object(result: SeedResult, options: Namespace) -> dict[str, Any]:
    violation = result.violation
    assert violation is not None
    return {
        "seed": result.seed,
        "nodes": result.nodes,
        "invariant": violation.invariant,
        "statement": _statement(violation.invariant),
        "seen": violation.observation,
        "replay": _replay(result, options),
    }


def _summary(totals: Totals, seeds: Sequence[Seed], duration: float) -> str:
    median_, longest = totals.recovery
    lines = [
        f"{totals.seeds} seeds in {duration:.1f} s, {60 * totals.seeds / max(duration, 0.001):,.0f} a minute",
        f"{totals.events:,} events, {totals.entries:,} entries committed, {totals.elections:,} elections",
        f"{totals.operations:,} reads and writes checked; {totals.unknown:,} of unknown outcome",
        f"{totals.undecided} registers on which the check gave up",
        f"recovery after the last fault: median {median_:.1f}, longest {longest:.1f} election time-outs",
        "faults",
        *(f"  {name:<46}{totals.faults[name]:>10,}" for name in COUNTED),
        f"{totals.hours:,.1f} hours of farms' lives: publishers and leaves",
        *(f"  {name:<46}{totals.faults[name]:>10,}" for name in COUNTED_IN_LIVES),
    ]
    if totals.failed:
        numbers = ", ".join(str(result.seed) for result in totals.failed)
        lines.append(f"{len(totals.failed)} of {len(seeds)} seeds failed: {numbers}")
    else:
        lines.append("no invariant was violated")
    return "\n".join(lines)
