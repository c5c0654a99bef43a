"""Fuzzes one target: replays seeds and corpus, then mutates the inputs that reached new code or took long."""

import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from integration.fuzz.edge_tracer import EdgeTracer, Feature
from integration.fuzz.judge import Finding, judge, judge_memory
from integration.fuzz.mutator import Mutator
from integration.fuzz.target import PIECE_BYTES, Target

_STRETCHED: Final = 0.08
"""Share of the executions that try a long input, to look for time that grows faster than the input."""
_SLOW: Final = 6
"""Number of slow inputs that are varied."""
_MEMORY_EVERY: Final = 40
"""Executions between two inputs whose memory is judged, besides all inputs that reach new code."""
_MAX_KEPT_BYTES: Final = 4096
"""Longest input that is varied as one that reached new code."""
_TRIES_TO_SHORTEN: Final = 300


@dataclass(slots=True)
class Figures:
    """Counts of one target."""

    target: str
    executions: int = 0
    seconds: float = 0.0
    """Wall-clock time."""
    features: int = 0
    inputs: int = 0
    """Inputs that reached new code, seeds included."""
    slowest: float = 0.0
    """Most seconds of processor time of one execution."""
    peak: int = 0
    """Most traced bytes of one execution."""
    findings: list[Finding] = field(default_factory=list)


class Campaign:
    """The work on one target; may be continued any number of times."""

    def __init__(self, target: Target, tracer: EdgeTracer, seed: int, corpus: Iterable[bytes]) -> None:
        """`corpus`: inputs of earlier runs. `seed`: begins the choices; measured times influence later choices."""
        self.target = target
        self.figures = Figures(target.name)
        self.reached: dict[bytes, frozenset[Feature]] = {}
        """The inputs that reached new code, with all that they reached."""
        self._tracer = tracer
        self._random = Random(f"{seed} {target.name}")
        self._mutator = Mutator(self._random, target.tokens)
        self._features: set[Feature] = set()
        self._inputs: list[bytes] = []
        self._slow: list[tuple[float, bytes]] = []
        self._kinds: set[str] = set()
        self._waiting = [*dict.fromkeys([*target.seeds(), *corpus])]

    def replay(self) -> None:
        """Run all seeds and the corpus, each with its memory judged."""
        began = time.monotonic()
        for data in self._waiting:
            self._mutator.learn(data)
            self._execute(data, new=True)
        self._waiting = []
        self.figures.seconds += time.monotonic() - began

    def run(self, seconds: float) -> None:
        """Run mutated inputs for this many seconds of wall-clock time."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            for _ in range(16):
                self._step()
        self.figures.seconds += time.monotonic() - began

    def _step(self) -> None:
        random = self._random
        inputs = self._inputs or [b""]
        if self._slow and random.random() < 0.05:
            data = random.choice(self._slow)[1]
        else:
            # The newest inputs are varied more often: these reach code that was not tried much.
            data = inputs[-1 - int(len(inputs) * random.random() ** 2)]
        if random.random() < _STRETCHED:
            new = self._mutator.stretched(data)
            if random.random() < 0.3:
                new = self._mutator.mutated(new, data)
        else:
            new = self._mutator.mutated(data, random.choice(inputs))
        self._execute(new)

    def _execute(self, data: bytes, *, new: bool = False) -> None:
        figures = self.figures
        figures.executions += 1
        finding, seconds = judge(self.target, data)
        figures.slowest = max(figures.slowest, seconds)
        if finding is not None:
            self._note(finding)
            if finding.kind == "slow":
                return
        self._note_time(seconds, data)
        reached = self._tracer.run(lambda: self.target.function(data)) if len(data) <= PIECE_BYTES else set()
        fresh = not reached <= self._features
        if fresh:
            self._features |= reached
            figures.features = len(self._features)
            if len(data) <= _MAX_KEPT_BYTES or new:
                self._inputs.append(data)
                self.reached[data] = frozenset(reached)
                figures.inputs += 1
        if new or fresh or figures.executions % _MEMORY_EVERY == 0:
            too_much, peak = judge_memory(self.target, data)
            figures.peak = max(figures.peak, peak)
            if too_much is not None:
                self._note(too_much)

    def _note_time(self, seconds: float, data: bytes) -> None:
        """Keep the inputs that take longest for their length."""
        cost = seconds / (len(data) + 2000)
        if len(self._slow) < _SLOW or cost > self._slow[-1][0]:
            self._slow = sorted([*self._slow, (cost, data)], reverse=True)[:_SLOW]

    def _note(self, finding: Finding) -> None:
        if finding.kind in self._kinds:
            return
        self._kinds.add(finding.kind)
        self.figures.findings.append(self._shortened(finding))

    def _shortened(self, finding: Finding) -> Finding:
        """Drop parts of the input as long as the finding stays the same."""
        if finding.kind in {"slow", "memory"}:
            return finding
        best, size = finding, max(1, len(finding.data) // 2)
        tries = place = 0
        while tries < _TRIES_TO_SHORTEN and size:
            if place >= len(best.data):
                place, size = 0, size // 2
                continue
            tries += 1
            other, _ = judge(self.target, best.data[:place] + best.data[place + size :])
            if other is not None and other.kind == finding.kind:
                best = other
            else:
                place += size
        return best


def fewest(reached: dict[bytes, frozenset[Feature]], known: Iterable[bytes]) -> list[bytes]:
    """Choose few and short inputs that reach all that the given inputs reach, besides what the `known` ones reach."""
    left: set[Feature] = set().union(*reached.values()) if reached else set()
    for data in known:
        left -= reached.get(data, frozenset())
    chosen = []
    # An input costs the bytes that it takes in the corpus.
    costs = {data: 40 + min(len(data), len(zlib.compress(data))) for data in reached}
    while left:
        best = max(reached, key=lambda data: (len(reached[data] & left) / costs[data], data))
        chosen.append(best)
        left -= reached[best]
    return chosen
