"""What commands that run until they are told to stop need: an event loop, signals, and the limit of open files."""

import asyncio
import contextlib
import resource
import signal
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop where it is installed: it halves the cost of a message."""
    try:
        import uvloop  # noqa: PLC0415 -- optional extra
    except ImportError:
        return None
    return uvloop.new_event_loop


def stop_signal() -> tuple["asyncio.Future[BaseException | None]", Callable[[BaseException | None], None]]:
    """Return what is set on SIGTERM and Ctrl-C, to None; and what sets it to the reason for stopping ourselves."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[BaseException | None] = loop.create_future()

    def stop(reason: BaseException | None) -> None:
        if not stopped.done():
            stopped.set_result(reason)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, None)
    return stopped, stop


def raise_limit() -> None:
    """Let this process have as many as its user may; the usual limit, 1,024, is for programs that use select(2)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # then the limit stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
