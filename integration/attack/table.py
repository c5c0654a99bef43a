"""The table of a run: a row for each attack, at most 100 columns wide."""

import textwrap
from dataclasses import dataclass
from typing import Any, Final

from integration.attack.attack import Load, Outcome
from integration.attack.judgement import Trial, harm

_LOAD: Final = 35
_FORM: Final = "{:<19} {:<35} {:<8} {:>11} {:>14} {:<6}"
COLUMNS: Final = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One attack in the table."""

    name: str
    load: Load
    harm: list[str]
    trial: Trial | None
    """None: the attack needs no farm."""

    @classmethod
    def of(cls, trial: Trial) -> "Row":
        """Judge a trial."""
        return cls(trial.attack.name, trial.load, harm(trial), trial)

    def figures(self) -> dict[str, Any]:
        """Return the row for `--json`: times in seconds, memory in KiB."""
        shown: dict[str, Any] = {"attack": self.name, "load": self.load.text, "harm": self.harm}
        trial = self.trial
        if trial is None:
            return shown
        return {
            **shown,
            "leader": [trial.before.leader, trial.after.leader],
            "term": [trial.before.term, trial.after.term],
            "p50": [trial.usual.percentile(0.5), trial.meanwhile.percentile(0.5)],
            "p99": [trial.usual.percentile(0.99), trial.meanwhile.percentile(0.99)],
            "longest": trial.meanwhile.percentile(1.0),
            "acknowledged": len(trial.meanwhile.seconds),
            "unanswered": trial.meanwhile.unanswered,
            "newcomer": trial.newcomer,
            "back": trial.back_seconds,
            "memory": [trial.before.memory.now, trial.after.memory.peak, trial.after.memory.now],
            "strayed": trial.after.strayed,
            "lines": max(len(lines) for lines in trial.output.values()),
        }


def heading() -> str:
    """Return the two lines above the rows."""
    above = _FORM.format("", "", "", "honest p99", "memory MiB", "")
    return f"{above.rstrip()}\n{_FORM.format('attack', 'load held', 'leader', 'ms', 'most of a node', '').rstrip()}"


def lines(row: Row) -> str:
    """Return the lines of a row: the figures, the rest of a long load, and each harm."""
    shown = row.trial is not None and row.trial.attack.outcome is Outcome.SHOWN
    strayed = f"; in the end on {row.trial.after.strayed} of 3" if row.trial is not None and shown else ""
    load = textwrap.wrap(row.load.text + strayed, _LOAD) or [""]
    leader = latency = memory = "-"
    if (trial := row.trial) is not None:
        leader = _leader(trial)
        latency = f"{_milliseconds(trial.usual.percentile(0.99))}>{_milliseconds(trial.meanwhile.percentile(0.99))}"
        before, after = trial.before.memory, trial.after.memory
        memory = f"{before.now >> 10}>{after.peak >> 10}>{after.now >> 10}"
    result = "HARM" if row.harm else "shown" if shown else "ok"
    text = [_FORM.format(row.name, load[0], leader, latency, memory, result).rstrip()]
    text += [f"{'':19} {rest}" for rest in load[1:]]
    for each in row.harm:
        text += textwrap.wrap(each, COLUMNS, initial_indent="    HARM: ", subsequent_indent="          ")
    return "\n".join(text)


def _leader(trial: Trial) -> str:
    before, after = trial.before, trial.after
    if (before.leader, before.term) == (after.leader, after.term):
        return "kept"
    return f"{before.leader}>{after.leader} {trial.back_seconds:.0f} s"


def _milliseconds(seconds: float) -> str:
    return "-" if seconds == float("inf") else f"{1000 * seconds:.0f}"
