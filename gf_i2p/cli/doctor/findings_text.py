"""The findings of doctor, as text for a terminal and as JSON."""

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from gf_i2p.cli.doctor.checks import CheckState, Finding, Remedy
from gf_i2p.cli.shared.errors import result_fields
from gf_i2p.cli.shared.terminal import printable

_MARGIN: Final = "  "
_STATE_WIDTH: Final = max(map(len, CheckState)) + 2
_BELOW: Final = " " * (len(_MARGIN) + _STATE_WIDTH)
"""Indent of a remedy."""
_LEAST_COLUMNS: Final = 40
_MOST_COLUMNS: Final = 110
"""Most columns of a line, even on a wider terminal, because longer lines are hard to read."""
_B32: Final = re.compile(r"\b([a-z2-7]{8})[a-z2-7]{44}\.b32\.i2p")
_COLOURS: Final = {CheckState.OK: "32", CheckState.WARN: "33", CheckState.FAIL: "1;31", CheckState.SKIP: "2"}


class FindingsPage:
    """Turns findings into lines for one terminal.

    `names`: the names of all checks; the longest name sets the column of the texts. `kind`: "i2pd" or "java", if the
    operator has said which router runs; then the advice for the other router is left out.
    """

    def __init__(self, names: Sequence[str], *, columns: int, colour: bool, kind: str | None = None) -> None:
        self._columns = min(max(columns, _LEAST_COLUMNS), _MOST_COLUMNS)
        self._width = max(map(len, names))
        self._colour = colour
        self._kind = kind

    def finding(self, finding: Finding) -> list[str]:
        """Return the lines of one finding, and of its remedy."""
        state, text, remedy = finding.result.state, finding.result.text, finding.result.remedy
        head = f"{_BELOW}{finding.name:<{self._width}}  "
        first, *others = self._wrap(text, head, " " * len(head))
        word = self._paint(f"{state:<{_STATE_WIDTH}}", _COLOURS[state])
        lines = [f"{_MARGIN}{word}{first.removeprefix(_BELOW)}", *others]
        if state is CheckState.SKIP:
            lines = [f"{_MARGIN}{word}{self._paint(first.removeprefix(_BELOW), '2')}", *(self._dim(others))]
        if remedy is not None:
            lines += self._remedy(remedy)
        return lines

    def summary(self, findings: Sequence[Finding]) -> str:
        """Return the last line: the number of checks by outcome."""
        count = Counter(finding.result.state for finding in findings)
        parts = [f"{count[CheckState.OK]} ok"]
        if count[CheckState.WARN]:
            parts.append(f"{count[CheckState.WARN]} to look at")
        if count[CheckState.SKIP]:
            parts.append(f"{count[CheckState.SKIP]} not looked at")
        failed = ", ".join(finding.name for finding in _failed(findings))
        if not failed:
            return f"{self._paint('Nothing is wrong', '32')} ({', '.join(parts)})."
        return f"{self._paint('To mend', '1;31')}: {failed} ({', '.join(parts)})."

    def waiting(self, names: Sequence[str], seconds: float) -> str:
        """Return the line about running checks, short enough not to wrap."""
        head = f"{_MARGIN}{'…':<{_STATE_WIDTH}}{seconds:.0f} s, waiting for "
        return head + textwrap.shorten(", ".join(names), self._columns - len(head) - 1, placeholder=" …")

    def _remedy(self, remedy: Remedy) -> list[str]:
        if remedy.i2pd == remedy.java or self._kind is not None:
            return self._wrap(remedy.java if self._kind == "java" else remedy.i2pd, _BELOW, _BELOW)
        hang = _BELOW + " " * 6
        return [
            line
            for router, text in (("i2pd", remedy.i2pd), ("Java", remedy.java))
            for line in self._wrap(text, f"{_BELOW}{router}  ", hang)
        ]

    def _wrap(self, text: str, first_indent: str, indent: str) -> list[str]:
        """Break a text into lines. A word that is longer than a line, such as a fingerprint, has a line for itself."""
        text = _B32.sub(r"\1….b32.i2p", printable(text))
        room = self._columns - len(indent)
        lines: list[str] = []
        for part in re.split(rf"\s*(\S{{{room + 1},}})\s*", text):
            if len(part) > room and " " not in part:
                lines.append((first_indent.rstrip() + "\n" if not lines else "") + _BELOW + part)
            elif part:
                lines += textwrap.wrap(
                    part,
                    self._columns,
                    initial_indent=first_indent if not lines else indent,
                    subsequent_indent=indent,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        return "\n".join(lines or [first_indent]).split("\n")

    def _dim(self, lines: Sequence[str]) -> list[str]:
        return [self._paint(line, "2") for line in lines]

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour else text


def _failed(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.result.state is CheckState.FAIL]


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    failed, error = _failed(findings), None
    if failed:
        first = failed[0]
        error = f"{len(failed)} of {len(findings)} checks failed, and the first is {first.name}: {first.result.text}"
    return {
        **result_fields(error),
        "checks": [
            {
                "name": finding.name,
                "state": str(finding.result.state),
                "text": finding.result.text,
                "remedy": None
                if (remedy := finding.result.remedy) is None
                else {"i2pd": remedy.i2pd, "java": remedy.java},
            }
            for finding in findings
        ],
    }
