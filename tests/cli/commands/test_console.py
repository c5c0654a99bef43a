"""`gf-i2p console`: the command prints a link, and ends at Ctrl-C."""

import json
import os
import signal
from pathlib import Path

import aiohttp

from integration.harness.local_farm import LocalFarm
from tests.cli.program import Program, gf, gf_json


async def test_the_command_prints_a_link_that_opens_the_page(tmp_path: Path) -> None:
    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as output:
            try:
                running = Program(["console", farm.node(1), "--json"], writing)
            finally:
                os.close(writing)
            with running as program:
                link = json.loads(output.readline())["link"]
                assert link.startswith("http://127.0.0.1:")
                jar = aiohttp.CookieJar(unsafe=True)  # a cookie of an IP address
                async with aiohttp.ClientSession(cookie_jar=jar) as session, session.get(link) as response:
                    assert response.status == 200
                    assert "server 1, in term 1" in await response.text()
                port = link.split(":")[2].split("/")[0]
                code, _, error = await gf("console", farm.node(1), "--port", port)
                assert (code, f"port {port} cannot be used" in error) == (1, True)
                assert program.end(signal.SIGINT) == 0
                assert program.error() == ""


async def test_without_a_node_there_is_no_page(tmp_path: Path) -> None:
    code, answer = await gf_json("console", tmp_path)
    assert (code, answer["ok"]) == (1, False)
    assert "is not a node's directory" in answer["error"]
