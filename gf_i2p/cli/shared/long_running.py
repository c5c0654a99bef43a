"""Signals and file limit of the commands that run until they are stopped."""

import asyncio
import contextlib
import resource
import signal
from collections.abc import Callable


def stop_signal() -> tuple["asyncio.Future[BaseException | None]", Callable[[BaseException | None], None]]:
    """Return a future for the reason of the stop, and a function that sets this reason.

    SIGTERM and Ctrl-C set the reason None. Only the first reason counts.
    """
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[BaseException | None] = loop.create_future()

    def stop(reason: BaseException | None) -> None:
        if not stopped.done():
            stopped.set_result(reason)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, None)
    return stopped, stop


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit.

    The usual soft limit, 1,024, is meant for programs that use select(2).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # then the limit stays the same
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
