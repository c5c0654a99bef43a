"""The node's event loop: uvloop's, when uvloop is installed, without uvloop's mistake about sockets."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the function that makes uvloop's event loop; None without uvloop. uvloop halves the cost of a message."""
    try:
        import uvloop  # noqa: PLC0415 -- optional extra
    except ImportError:
        return None

    class Loop(uvloop.Loop):
        async def create_connection(self, *args: Any, sock: Any = None, **options: Any) -> Any:
            """Connect as asyncio does. The loop closes `sock` in any case, and the object forgets its file number.

            uvloop 0.23 lets the object keep the number when the connection breaks in its first write: the peer has
            reset the connection already. The object's end would close the number again. By then another connection,
            or a file of the log, may have the number.
            """
            try:
                return await super().create_connection(*args, sock=sock, **options)
            finally:
                if sock is not None:
                    sock.detach()

    return Loop
