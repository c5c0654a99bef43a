"""The local interface: the administration API on a Unix socket in the node's directory.

Only the node's user can open the socket, and that user is the node's operator. So no login is needed.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from aiohttp import web

from gf_i2p.admin.api import Api, errors_as_json
from gf_i2p.admin.local_socket import socket_address
from gf_i2p.wire.limits import MAX_ENTRIES_BYTES

_BODY_BYTES: Final = 6 * MAX_ENTRIES_BYTES  # a JSON string may need six bytes for one byte


class LocalInterface:
    """Serves the API of one node at a path in the file system."""

    def __init__(self, path: Path, api: Api) -> None:
        self._path = path
        app = web.Application(client_max_size=_BODY_BYTES, middlewares=[errors_as_json])
        app.add_routes(api.local_routes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._open_directory = contextlib.ExitStack()

    async def start(self) -> None:
        """Listen. Replace the socket of a killed node: no other node runs, as the database's lock admits only one."""
        await self._runner.setup()
        self._path.unlink(missing_ok=True)
        address = self._open_directory.enter_context(socket_address(self._path))
        old_mask = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, address).start()
        finally:
            os.umask(old_mask)

    async def stop(self) -> None:
        """Close, and remove the socket."""
        await self._runner.cleanup()
        self._open_directory.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
