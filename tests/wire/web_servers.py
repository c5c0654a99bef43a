"""Third-party web servers for the interoperability tests: started in the foreground, stopped by process id."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.wire.handshakes import PASSWORD, USER

_SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
APACHE = shutil.which("apache2", path=_SEARCH)
APACHE_MODULES = Path("/usr/lib/apache2/modules")
LIGHTTPD = shutil.which("lighttpd", path=_SEARCH)
CURL = shutil.which("curl")

START_SECONDS = 20.0


def needs(found: object, program: str, package: str) -> pytest.MarkDecorator:
    """Skip where a program is missing, and name the package."""
    return pytest.mark.skipif(
        not found, reason=f"{program} is not installed, so it was not tested against: apt-get install {package}"
    )


needs_curl = needs(CURL, "curl", "curl")
needs_apache = needs(
    APACHE and (APACHE_MODULES / "mod_auth_digest.so").exists(), "Apache httpd with mod_auth_digest", "apache2-bin"
)
needs_lighttpd = needs(LIGHTTPD, "lighttpd with mod_auth", "lighttpd")


@contextlib.asynccontextmanager
async def websocket_backend() -> AsyncIterator[int]:
    """The server behind the web servers: switches to websocket unasked, then echoes."""

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
                while data := await reader.read(4096):
                    writer.write(data)
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):  # the web server is gone; a connection that stays open would be another test's warning
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(folder: Path, port: int, *command: str) -> AsyncIterator[None]:
    """Run a server until the block ends; a server has begun when the port answers."""
    with (folder / "output").open("ab") as output:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=output, stderr=output)
    try:
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not await _answers(port):
            late = asyncio.get_running_loop().time() > deadline
            if late or process.returncode is not None:
                said = "".join(path.read_text() for path in (folder / "output", folder / "error.log") if path.exists())
                pytest.fail(f"{command[0]} did not open its port; it said: {said}")
            await asyncio.sleep(0.02)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return True


@contextlib.contextmanager
def public_folder() -> Iterator[Path]:
    """A folder for one server. Not tmp_path: as root the servers give up their rights, and must still read it."""
    folder = Path(tempfile.mkdtemp(prefix="gf-i2p-test-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


def _write_users(folder: Path, *hash_names: str) -> None:
    lines = []
    for name in hash_names:
        secret = hashlib.new(name, f"{USER}:farm:{PASSWORD}".encode()).hexdigest()
        lines.append(f"{USER}:farm:{secret}\n")
    (folder / "users").write_text("".join(lines))


def apache(folder: Path, port: int, backend: int) -> contextlib.AbstractAsyncContextManager[None]:
    """Apache httpd with mod_auth_digest (MD5), passing upgrades on to the backend."""
    assert APACHE is not None
    _write_users(folder, "md5")
    modules = (
        "mpm_event",
        "authn_core",
        "authn_file",
        "authz_core",
        "authz_user",
        "auth_digest",
        "proxy",
        "proxy_http",
    )
    loads = "".join(f"LoadModule {name}_module {APACHE_MODULES}/mod_{name}.so\n" for name in modules)
    (folder / "httpd.conf").write_text(
        f"""{loads}
        ServerRoot {folder}
        DefaultRuntimeDir {folder}
        PidFile {folder}/pid
        ErrorLog {folder}/error.log
        ServerName localhost
        Listen 127.0.0.1:{port}
        User www-data
        Group www-data
        StartServers 1
        ProxyPass / http://127.0.0.1:{backend}/ upgrade=websocket
        <Location /GarlicFarm/>
          AuthType Digest
          AuthName farm
          AuthDigestProvider file
          AuthUserFile {folder}/users
          Require valid-user
        </Location>
        """
    )
    return running(folder, port, APACHE, "-D", "FOREGROUND", "-f", f"{folder}/httpd.conf")


def lighttpd(folder: Path, port: int, backend: int, algorithms: str) -> contextlib.AbstractAsyncContextManager[None]:
    """lighttpd with mod_auth, whose Digest knows SHA-256, too; `algorithms` as in the configuration."""
    assert LIGHTTPD is not None
    _write_users(folder, "md5", "sha256")
    (folder / "lighttpd.conf").write_text(
        f"""
        server.modules = ("mod_auth", "mod_authn_file", "mod_proxy")
        server.document-root = "{folder}"
        server.bind = "127.0.0.1"
        server.port = {port}
        server.errorlog = "{folder}/error.log"
        auth.backend = "htdigest"
        auth.backend.htdigest.userfile = "{folder}/users"
        auth.require = ("/GarlicFarm/" => (
          "method" => "digest", "algorithm" => "{algorithms}", "realm" => "farm", "require" => "valid-user"))
        proxy.server = ("/" => (("host" => "127.0.0.1", "port" => {backend})))
        proxy.header = ("upgrade" => "enable")
        """
    )
    return running(folder, port, LIGHTTPD, "-D", "-f", f"{folder}/lighttpd.conf")
