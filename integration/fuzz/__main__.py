"""Fuzzes the decoders, and reports executions and findings.

    python -m integration.fuzz [--seconds 1800] [--seed S] [--keep] [TARGET ...]
    python -m integration.fuzz --replay
    python -m integration.fuzz --show FILE TARGET

The exit code is 1 when anything was found. Each finding stands in a separate file for `--show`.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from integration.fuzz.campaign import Campaign, fewest
from integration.fuzz.corpus import Kept, read_corpus, write_corpus
from integration.fuzz.edge_tracer import EdgeTracer
from integration.fuzz.judge import Finding, judge, judge_memory
from integration.fuzz.table import TARGETS, TRACED
from integration.fuzz.target import Target

FOUND: Final = Path("build/fuzz")
"""Where findings go."""
_TURN_SECONDS: Final = 4.0
"""Seconds for one target until the next target has its turn."""
_KEPT_BYTES: Final = 3000
"""Most bytes of new inputs that `--keep` adds to the corpus for a target."""
_SHOWN: Final = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    targets = [each for each in TARGETS if not options.targets or each.name in options.targets]
    if unknown := {*options.targets} - {each.name for each in TARGETS}:
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    if options.show is not None:
        return _show(targets[0], options.show)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    time_text = "only seeds and corpus" if options.replay else f"{options.seconds:g} s; --seed {seed}"
    print(f"{len(targets)} targets, {time_text}", flush=True)
    campaigns = []
    for target in targets:
        # One tracer for each target: so the inputs that are kept do not depend on other targets.
        tracer = EdgeTracer(TRACED)
        campaigns.append(Campaign(target, tracer, seed, [kept.data for kept in read_corpus(target.name)]))
    began = time.monotonic()
    for campaign in campaigns:
        campaign.replay()
    print(f"seeds and corpus replayed in {time.monotonic() - began:.1f} s", flush=True)
    if not options.replay:
        left = max(options.seconds - (time.monotonic() - began), options.seconds / 4)  # also on a busy machine
        for campaign, seconds in _turns(campaigns, left):
            campaign.run(seconds)
    if options.keep:
        for campaign in campaigns:
            _keep(campaign)
    return _report(campaigns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="names of targets (default: all)")
    parser.add_argument("--seconds", type=float, default=1800, help="wall-clock time of all targets (default: 1800)")
    parser.add_argument("--seed", type=int, help="begins as an earlier run with this seed began")
    parser.add_argument("--replay", action="store_true", help="run only the seeds and the corpus")
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new code to the corpus")
    parser.add_argument("--show", type=Path, metavar="FILE", help="run one input, and show its error")
    return parser


def _turns(campaigns: Sequence[Campaign], seconds: float) -> Iterator[tuple[Campaign, float]]:
    """Share the time: each target has turns of the same length, until the time is over."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        turn = min(_TURN_SECONDS, left / len(campaigns))
        for campaign in campaigns:
            if time.monotonic() < end:
                yield campaign, turn


def _keep(campaign: Campaign) -> None:
    """Add inputs to the corpus: those that reach new code, and the findings."""
    name = campaign.target.name
    corpus = read_corpus(name)
    known = {*campaign.target.seeds(), *(kept.data for kept in corpus)}
    size = 0
    for data in fewest(campaign.reached, known):
        size += len(data)
        if size > _KEPT_BYTES:
            break
        corpus.append(Kept(data))
    findings = [Kept(finding.data, finding.kind) for finding in campaign.figures.findings if finding.data not in known]
    if corpus or findings:
        write_corpus(name, [*corpus, *findings])


def _report(campaigns: Sequence[Campaign]) -> int:
    print(f"{'target':<24} {'runs':>9} {'runs/s':>7} {'inputs':>6} {'reached':>8} {'slowest':>8} {'memory':>9}")
    findings = []
    for campaign in campaigns:
        each = campaign.figures
        rate = each.executions / max(each.seconds, 0.001)
        print(
            f"{each.target:<24} {each.executions:>9} {rate:>7.0f} {each.inputs:>6} {each.features:>8} "
            f"{each.slowest * 1000:>5.0f} ms {each.peak >> 10:>5} KiB"
        )
        findings += each.findings
    print(f"{sum(each.figures.executions for each in campaigns)} runs, {len(findings)} findings", flush=True)
    for finding in findings:
        print(_described(finding))
    return int(bool(findings))


def _described(finding: Finding) -> str:
    FOUND.mkdir(parents=True, exist_ok=True)
    file = FOUND / f"{finding.target}-{sha256(finding.data).hexdigest()[:12]}"
    file.write_bytes(finding.data)
    return (
        f"FOUND in {finding.target}: {finding.text}\n"
        f"  {len(finding.data)} bytes: {finding.data[:_SHOWN]!r}\n"
        f"  python -m integration.fuzz --show {file} {finding.target}"
    )


def _show(target: Target, file: Path) -> int:
    data = file.read_bytes()
    finding, seconds = judge(target, data)
    too_much, peak = judge_memory(target, data)
    print(f"{len(data)} bytes: {seconds * 1000:.1f} ms of processor time, {peak} bytes of memory")
    for each in (finding, too_much):
        if each is not None:
            print(replace(each, data=b"").text)
    target.function(data)
    return int(finding is not None or too_much is not None)


if __name__ == "__main__":
    sys.exit(main())
