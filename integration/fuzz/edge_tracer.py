"""Measures which code an execution reaches: pairs of consecutive lines, and about how often each pair occurs.

`sys.settrace` needs no package and works on every Python that the program runs on. One execution costs about ten times
its normal time, so the tracer follows a limited number of lines.
"""

import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final

_MAX_LINES: Final = 5_000
"""Most lines that one execution is followed for. A long input repeats the same lines."""
_LINE_BITS: Final = 14
_MAX_BUCKET: Final = 8

Feature = int
"""A pair of lines, with the number of its occurrences as a power of two."""


class EdgeTracer:
    """Runs functions, and returns the features that they reach."""

    def __init__(self, folders: Sequence[str]) -> None:
        """`folders`: paths of the traced code; other code is not followed."""
        self._folders = tuple(folders)
        self._numbers: dict[int, int | None] = {}
        self._codes: list[CodeType] = []  # keeps the code objects alive, and so their ids
        self.entered: set[tuple[str, str]] = set()
        """File and qualified name of each function that was ever entered."""

    def run(self, call: Callable[[], object]) -> set[Feature]:
        """Run `call`, whose errors are dropped; return the reached features."""
        counts: dict[int, int] = {}
        left = _MAX_LINES
        numbers = self._numbers
        number_of = self._number_of

        def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
            code = id(frame.f_code)
            number = numbers[code] if code in numbers else number_of(frame.f_code)
            if number is None:
                return None
            before = 0

            def line(frame: FrameType, event: str, _argument: Any) -> Any:
                nonlocal before, left
                if event == "line":
                    here = frame.f_lineno
                    edge = number | before << _LINE_BITS | here
                    counts[edge] = counts.get(edge, 0) + 1
                    before = here
                    left -= 1
                    if not left:
                        sys.settrace(None)
                        frame.f_trace = None
                return line

            return line

        before_this = sys.gettrace()
        sys.settrace(enter)
        try:
            call()
        except Exception:  # noqa: BLE001 -- the judge has judged the error
            pass
        finally:
            sys.settrace(before_this)
        return {edge << 4 | min(count.bit_length(), _MAX_BUCKET) for edge, count in counts.items()}

    def _number_of(self, code: CodeType) -> int | None:
        number = None
        if code.co_filename.startswith(self._folders):
            number = len(self._codes) << 2 * _LINE_BITS
            self.entered.add((code.co_filename, code.co_qualname))
        self._codes.append(code)
        self._numbers[id(code)] = number
        return number
