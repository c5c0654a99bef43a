"""The judges: each looks for a mistake in the code, in a process of its own, and says what it has noticed.

A judge imports the project's code only when it is called: the code may be a mutant's.
"""

import contextlib
import io
from collections.abc import Callable, Sequence

Judge = Callable[[], str | None]
"""Returns the observation in a line; None: nothing was noticed."""


def simulator(first: int, seeds: int) -> Judge:
    """Runs `seeds` seeds from `first` on, until a violation."""

    def judge() -> str | None:
        from gf_i2p.simulator.seed_run import simulate  # noqa: PLC0415

        for seed in range(first, first + seeds):
            violation = simulate(seed).violation
            if violation is not None:
                return f"{violation}, seed {seed}".replace("\n", " ")
        return None

    return judge


def unit_tests(paths: Sequence[str]) -> Judge:
    """Runs these folders and files of tests, until the first failure."""

    def judge() -> str | None:
        import pytest  # noqa: PLC0415

        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *paths])
        if code == pytest.ExitCode.OK:
            return None
        failed = [line for line in output.getvalue().splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failed[0] if failed else f"pytest ends with code {int(code)}"

    return judge
