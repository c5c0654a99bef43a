"""Runs the scenarios with real JRaft servers.

    python -m integration.jraft [SCENARIO ...] [--keep DIRECTORY]

Needs JRaft (datatechnology/jraft, core and extensions) and its libraries, on the Java class path in JRAFT_CLASSPATH,
and a JDK of version 17 or newer.
A running JRaft server listens on every interface of this machine, and accepts every client.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import structlog

from integration.harness.step_progress import StepProgress
from integration.jraft.jraft_server import Jraft, JraftMissingError
from integration.jraft.mixed_farm import MixedFarm
from integration.jraft.scenarios import SCENARIOS


async def run(names: list[str], directory: Path) -> int:
    """Run scenarios one after the other; return 0 when all held."""
    progress = StepProgress()
    progress.doing("preparing JRaft")
    classes = directory / "classes"
    classes.mkdir()
    jraft = await asyncio.to_thread(Jraft.prepare, classes)
    progress.done("JRaft is ready")
    failed: list[str] = []
    for name in names:
        summary = (SCENARIOS[name].__doc__ or "").strip()
        progress.say(f"\n{name}: {summary}")
        (directory / name).mkdir()
        try:
            async with MixedFarm(jraft, directory / name, progress) as farm:
                await SCENARIOS[name](farm)
        except Exception as error:  # noqa: BLE001 -- the other scenarios run nevertheless
            progress.say(f"FAILED  {name}: {error!r}\n        JRaft's logs: {directory / name}/jraft-*/output.log")
            failed.append(name)
    progress.say(f"\n{len(names) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m integration.jraft", description=__doc__, formatter_class=_FORMAT)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; without: all")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="a new directory, where the logs stay")
    arguments = parser.parse_args()
    for name in arguments.scenarios:
        if name not in SCENARIOS:
            parser.error(f"{name} is none of {', '.join(SCENARIOS)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    names = arguments.scenarios or list(SCENARIOS)
    try:
        if arguments.keep is not None:
            arguments.keep.mkdir()
            return asyncio.run(run(names, arguments.keep))
        with tempfile.TemporaryDirectory(prefix="gf-jraft-") as directory:
            return asyncio.run(run(names, Path(directory)))
    except (JraftMissingError, OSError) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 1


_FORMAT = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    sys.exit(main())
