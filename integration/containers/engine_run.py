"""The run with this machine's Docker engine: builds the images, and runs the tests, which remove all containers.

For podman `podman_run.py` does this. Docker's containers do not end with this process, so the tests are told to finish.
"""

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from integration.containers.engine import ENGINE_VARIABLE, Engine
from integration.containers.images import alone, build
from integration.testnet.namespace import SIGNALS, environment


def run(engine: Engine, cache: Path, command: Sequence[str], *, fresh: bool) -> int:
    """Build, and run the command; return its exit code. Raises `EngineError`.

    Ctrl-C, SIGTERM and SIGHUP end a build by `KeyboardInterrupt`; the command gets one SIGINT, and time.
    """
    process: subprocess.Popen[bytes] | None = None
    told = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal told
        if told:
            return
        told = True
        if process is None:
            raise KeyboardInterrupt
        with contextlib.suppress(OSError):  # the reader of the output may be gone
            print("\nStopping; to take the containers down needs some seconds.", flush=True)
        process.send_signal(signal.SIGINT)

    with _handled(end), alone(cache) as lock:
        print(f"Images: {build(engine, cache, fresh=fresh)}", flush=True)
        # In a session of its own, so that Ctrl-C reaches the command only through this process, and not the command's
        # children. The command holds the lock, too: if this process is killed, the command still ends in order.
        process = subprocess.Popen(
            command,
            env={**environment(), ENGINE_VARIABLE: engine.name},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock],
        )
        return process.wait()


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
