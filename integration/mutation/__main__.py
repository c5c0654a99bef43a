"""Breaks the code by rules, and reports the mutants that a judge does not notice.

    python -m integration.mutation --by simulator gf_i2p/raft [--sample 200] [--seeds 300] [--jobs 2] [--json FILE]
    python -m integration.mutation --by tests --tests tests/raft gf_i2p/raft

A mutant that changes nothing that anybody could see stands in `equivalent.txt`, with the reason, and is not tried. The
exit code is 0 when at least `--at-least` percent were noticed, else 1.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

# Imported here, so that each trial's process has these already: the project's own modules must come in each trial.
import cryptography.x509  # noqa: F401
import pytest  # noqa: F401
import structlog  # noqa: F401

from integration.mutation.judges import simulator, unit_tests
from integration.mutation.rules import Mutant, mutants_of
from integration.mutation.trials import Trial, run_trials

_EQUIVALENT: Final = Path(__file__).with_name("equivalent.txt")
_PATIENCE: Final = 5.0
"""Times the seconds of the unchanged code: a mutant that takes longer does not end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    options = _parser().parse_args(arguments)
    mutants = [each for path in _modules(options.paths) for each in mutants_of(str(path), path.read_text("utf-8"))]
    known = equivalent_mutants(_EQUIVALENT.read_text("utf-8"))
    tried = [each for each in mutants if _key(each) not in known]
    first = options.first if options.first is not None else random.randrange(1 << 30)
    if options.sample and options.sample < len(tried):
        tried = random.Random(first).sample(tried, options.sample)
    judge = simulator(first, options.seeds) if options.by == "simulator" else unit_tests(options.tests)
    print(f"{len(tried)} of {len(mutants)} mutants, judged by {options.by}; --first {first} repeats this")
    (unchanged,) = run_trials([None], judge, jobs=1, most_seconds=3600)
    if unchanged.noticed is not None:
        print(f"the unchanged code does not pass: {unchanged.noticed}")
        return 1
    print(f"the unchanged code passes in {unchanged.seconds:.0f} s")
    trials = []
    began = time.monotonic()
    most = _PATIENCE * unchanged.seconds + 10
    for trial in run_trials(tried, judge, jobs=options.jobs, most_seconds=most):
        trials.append(trial)
        if trial.noticed is None:
            print(f"SURVIVED {trial.mutant}", flush=True)
        if len(trials) % 10 == 0:
            survived = sum(trial.noticed is None for trial in trials)
            passed = time.monotonic() - began
            print(f"{len(trials)} of {len(tried)} tried in {passed:.0f} s, {survived} survived", flush=True)
    noticed = sum(trial.noticed is not None for trial in trials)
    share = 100 * noticed / max(len(trials), 1)
    print(f"noticed {noticed} of {len(trials)}: {share:.1f} %")
    if options.json is not None:
        options.json.write_text(json.dumps([_row(trial) for trial in trials], indent=1), "utf-8")
    return int(share < options.at_least)


def equivalent_mutants(text: str) -> dict[tuple[str, str, str, str], str]:
    """Read the list of equivalent mutants: by module, line, code before and code after, the reason."""
    known = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            module, rest = line.split(" | ", 1)
            code, change, reason = rest.rsplit(" | ", 2)
            before, after = change.split("  ->  ")
            known[module, code, before, after] = reason
    return known


def _key(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant.module, mutant.code, mutant.before, mutant.after


def _row(trial: Trial) -> dict[str, object]:
    assert trial.mutant is not None
    return {**asdict(trial.mutant), "noticed": trial.noticed, "seconds": round(trial.seconds, 2)}


def _modules(paths: Sequence[Path]) -> list[Path]:
    return sorted(path for each in paths for path in (each.rglob("*.py") if each.is_dir() else [each]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.mutation", description="Mutation testing.")
    parser.add_argument("paths", nargs="+", type=Path, help="modules, or folders of modules, of the project")
    parser.add_argument("--by", choices=("simulator", "tests"), required=True, help="the judge")
    parser.add_argument("--tests", nargs="+", default=["tests/raft"], metavar="PATH", help="(default: tests/raft)")
    parser.add_argument("--seeds", type=int, default=300, help="seeds for each mutant (default: 300)")
    parser.add_argument("--first", type=int, help="first seed, and seed of the sample (default: any)")
    parser.add_argument("--sample", type=int, help="number of mutants to draw (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="trials side by side (default: 2)")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="PERCENT", help="share that must be noticed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each trial there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
