"""`make test-docker`: everything in this folder, on the containers of `docker/`.

What the command line says goes to pytest, but for `--fresh` as the first word: from no image at all (Docker keeps the
base image that it has).
`GF_I2P_DOCKER_LONG=1` adds the long rounds of faults, and a second farm.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration.containers.engine import ENGINE_VARIABLE, EngineError, find
from integration.containers.images import build
from integration.testnet.namespace import MissingError, check_programs, environment, run_inside

FOLDER: Final = Path(__file__).parent
MUST_VARIABLE: Final = "GF_I2P_MUST_RUN_DOCKER"
"""Where it is set, to be skipped is to fail."""
FRESH: Final = "--fresh"


def cache_directory() -> Path:
    """Return where images stay between two runs; made when it is missing."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gf-i2p"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def main(arguments: Sequence[str]) -> int:
    """Run; 0 when all passed, or when there can be no containers here."""
    fresh, words = arguments[:1] == [FRESH], [word for word in arguments if word != FRESH]
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-rfEs",
        "--timeout=1500",
        "-p",
        "no:cacheprovider",
        "--durations=0",
        "-vs",
    ]
    tests += words or [str(FOLDER)]
    began = time.monotonic()
    try:
        engine = find()
        if engine.private:
            check_programs({})
    except MissingError as error:
        print(f"Containers of docker/: SKIPPED. {error}")
        return int(MUST_VARIABLE in os.environ)
    print(f"Containers of docker/, with {engine.name}", flush=True)
    cache = cache_directory()
    if engine.private:
        if fresh:
            _forget(cache)
        status = run_inside(
            "integration.containers.inside", ["--cache", str(cache), "--", *tests], interrupt=False, network=False
        )
    else:
        try:
            print(f"Images: {build(engine, cache, fresh=fresh)}", flush=True)
        except EngineError as error:
            print(f"containers: {error}", file=sys.stderr)
            return 1
        status = subprocess.run(tests, env={**environment(), ENGINE_VARIABLE: engine.name}, check=False).returncode
    print(f"{time.monotonic() - began:6.1f} s  containers: {'passed' if status == 0 else 'FAILED'}")
    return status


def _forget(cache: Path) -> None:
    """Remove all images, and the base they were made of."""
    shutil.rmtree(cache / "images", ignore_errors=True)
    for archive in cache.glob("*.tar"):
        archive.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
