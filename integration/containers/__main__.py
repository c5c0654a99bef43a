"""`make test-docker`: everything in this folder, on the containers of `docker/`.

The arguments go to pytest, except `--fresh`; without a named test pytest runs this whole folder. `--fresh` starts
without any image (Docker keeps the base image that it has). The slow tests run with `GF_I2P_TIER=all`: the rounds of
faults, a second farm, the image with Spark, and the commands of docs/how-to/containers.md.

A failed test may run once more, on a new farm: `integration/harness/pytest_outcomes.py`.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration.containers import engine_run
from integration.containers.engine import Engine, EngineError, find_engine
from integration.harness.pytest_outcomes import (
    MAX_AGAIN,
    OUTCOMES_VARIABLE,
    PYTEST_OPTIONS,
    Outcome,
    read_outcome,
    summary,
)
from integration.testnet.namespace import MissingError, check_programs, run_inside

FOLDER: Final = Path(__file__).parent
MUST_VARIABLE: Final = "GF_I2P_MUST_RUN_DOCKER"
"""With this variable set, to be skipped is to fail."""
FRESH: Final = "--fresh"
_FAILED: Final = 1
"""The exit code of failed tests or of a failed build; an interrupted run has another."""


def cache_directory() -> Path:
    """Return the directory that keeps images between two runs; a missing one is made."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gf-i2p"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return 0 when all passed, or when no containers can run here."""
    fresh, words = FRESH in arguments, [word for word in arguments if word != FRESH]
    if not any(Path(word.partition("::")[0]).exists() for word in words):
        words.append(str(FOLDER))
    began = time.monotonic()
    try:
        engine = find_engine()
        if engine.private:
            check_programs({})
    except MissingError as error:
        print(f"Containers of docker/: SKIPPED. {error}")
        return int(MUST_VARIABLE in os.environ)
    print(f"Containers of docker/, with {engine.name}", flush=True)
    cache = cache_directory()
    if fresh and engine.private:
        _forget(cache)
    status, outcome = _outcome(engine, cache, words, fresh=fresh)
    may_run_again = status == _FAILED and len(outcome.again) <= MAX_AGAIN
    again = outcome.again if may_run_again else []
    passed, failed = len(outcome.passed), () if may_run_again else outcome.failed
    for part in again:
        print(f"{time.monotonic() - began:6.1f} s  ONCE MORE: {', '.join(part)}", flush=True)
        _, outcome = _outcome(engine, cache, part)
        passed += len(outcome.passed)
        failed += outcome.failed
    print(summary("containers", time.monotonic() - began, passed, failed, [each for part in again for each in part]))
    return int(bool(failed))


def _outcome(engine: Engine, cache: Path, group: Sequence[str], *, fresh: bool = False) -> tuple[int, Outcome]:
    """Build the images, and run pytest with `group`; return the exit code and the outcome."""
    tests = [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, "--timeout=1500", "--durations=0", "-vs", *group]
    with tempfile.TemporaryDirectory(prefix="gf-i2p-containers-") as directory:
        told = Path(directory) / "outcomes.json"
        os.environ[OUTCOMES_VARIABLE] = str(told)
        if engine.private:
            status = run_inside(
                "integration.containers.podman_run",
                ["--cache", str(cache), "--", *tests],
                interrupt=False,
                network=False,
            )
        else:
            try:
                status = engine_run.run(engine, cache, tests, fresh=fresh)
            except EngineError as error:
                print(f"containers: {error}", file=sys.stderr)
                status = _FAILED
        return status, read_outcome(told, status, group)


def _forget(cache: Path) -> None:
    """Remove all images, and the base of the images."""
    shutil.rmtree(cache / "images", ignore_errors=True)
    for archive in cache.glob("*.tar"):
        archive.unlink()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("containers: stopped")
        sys.exit(128 + signal.SIGINT)
