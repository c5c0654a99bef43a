"""`gf-i2p status` starts soon: the command imports nothing that only other commands need."""

import asyncio
import sys
from pathlib import Path

from aiohttp import web

from gf_i2p.node.files.file_names import CONFIG_FILE, SOCKET_FILE
from tests.cli.shared.test_answer_text import status

SLOW = ("aiohttp", "cryptography", "pydantic", "structlog", "rich", "zstandard", "jinja2", "gf_i2p.transport")
CODE = f"""
import sys
from gf_i2p.cli.main import main
code = main(["status", sys.argv[1]])
print([name for name in {SLOW} if name in sys.modules])
sys.exit(code)
"""


async def test_status_imports_no_slow_library(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({**status(), "healthy": True})

    (tmp_path / CONFIG_FILE).write_text("")
    app = web.Application()
    app.router.add_get("/v1/status", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / SOCKET_FILE)).start()
    try:
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CODE, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await command.communicate()
    finally:
        await runner.cleanup()
    assert command.returncode == 0
    assert output.decode().splitlines()[-1] == "[]"
