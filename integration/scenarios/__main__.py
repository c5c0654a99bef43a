"""`make scenarios`: everything in this folder, on private networks of real I2P routers.

Most of the time is spent waiting for tunnels, so several networks run side by side, in namespaces of their own.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration.processes import Processes, tail
from integration.testnet.namespace import MissingError, check_programs

FOLDER: Final = Path(__file__).parent
GROUPS: Final = (
    ("test_make_farm.py",),
    ("test_farm.py",),
    ("test_doctor.py", "test_sam.py", "test_keys.py"),
    ("test_failover.py", "test_trees.py"),
)
"""What has a network to itself: so many minutes each that none is waited for long. All others share one."""
WITHOUT: Final = {"test_make_farm.py"}
"""These bring networks of their own."""
MUST_VARIABLE: Final = "GF_I2P_MUST_RUN_SCENARIOS"
"""Where it is set, to be skipped is to fail: CI sets it."""
_POLL_SECONDS: Final = 0.5
_SHOWN_BYTES: Final = 200_000


def groups(arguments: Sequence[str]) -> list[list[str]]:
    """Say what runs together: what pytest is given for each network."""
    if arguments:
        return [list(arguments)]
    files = sorted(path.name for path in FOLDER.glob("test_*.py"))
    grouped = {name for group in GROUPS for name in group}
    parts = [*GROUPS, [name for name in files if name not in grouped]]
    return [[str(FOLDER / name) for name in part] for part in parts]


async def run(directory: Path, arguments: Sequence[str]) -> int:
    """Run all groups; return 0 when all passed. What each has said comes when it has ended."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        ends = [
            asyncio.create_task(_end(stack, directory / f"{number}", group, began))
            for number, group in enumerate(groups(arguments))
        ]
        return max(await asyncio.gather(*ends))


async def _end(stack: contextlib.ExitStack, directory: Path, group: Sequence[str], began: float) -> int:
    """Run one group on a network of its own, if it needs one."""
    files = [Path(name).name for name in group if not name.startswith("-")]
    names = ", ".join(files)
    log = directory.with_suffix(".log")
    testnet = [sys.executable, "-m", "integration.testnet", "run", "--directory", str(directory), "--"]
    pytest = [sys.executable, "-m", "pytest", "-rA", "--timeout=600", "-p", "no:cacheprovider", *group]
    # The network takes itself down; it needs the time for it.
    processes = stack.enter_context(Processes(grace=30.0))
    process = processes.spawn("scenarios", pytest if set(files) <= WITHOUT else [*testnet, *pytest], log)
    print(f"{time.monotonic() - began:6.1f} s  {names}: begun", flush=True)
    while process.poll() is None:  # noqa: ASYNC110 -- another process makes it true
        await asyncio.sleep(_POLL_SECONDS)
    passed = process.returncode == 0
    print(f"{time.monotonic() - began:6.1f} s  {names}: {'passed' if passed else 'FAILED'}", flush=True)
    text = tail(log, _SHOWN_BYTES)
    print(
        text if not passed else "\n".join(line for line in text.splitlines() if line.startswith("PASSED")), flush=True
    )
    return int(not passed)


def main() -> int:
    """Run; what the command line says goes to pytest. 0 when all passed, or when there can be no network here."""
    try:
        check_programs()
    except MissingError as error:
        print(f"Scenarios on real I2P routers: SKIPPED. {error}")
        return int(MUST_VARIABLE in os.environ)
    with tempfile.TemporaryDirectory(prefix="gf-i2p-scenarios-", ignore_cleanup_errors=True) as directory:
        try:
            return asyncio.run(run(Path(directory), sys.argv[1:]))
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
