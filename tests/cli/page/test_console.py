"""The page of a real farm, asked as a browser asks, and as a page of another site would."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from gf_i2p.cli.page.console import Console, Farm
from gf_i2p.cli.shared.local_client import request
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.node.files.checked_read import table_of
from gf_i2p.node.files.farm_file import FarmFile
from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, gf_json

_CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')


class Browser:
    """Asks the console, with the cookies that it has got."""

    def __init__(self, session: aiohttp.ClientSession, link: str) -> None:
        self.session = session
        self.link = link
        self.base = self.top = link.partition("/open")[0]

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.base + path, headers=headers, allow_redirects=False) as response:
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            # With "no-referrer", Chromium sends "Origin: null" with each change (integration/browser).
            assert response.headers["Referrer-Policy"] == "same-origin"
            assert not {"Server", "Date"} & response.headers.keys()
            return response.status, await response.text()

    async def open(self) -> None:
        async with self.session.get(self.link, allow_redirects=False) as response:
            assert response.status == 303
            self.base += response.headers["Location"].rstrip("/")

    async def change(self, action: str, subject: str, **fields: str) -> tuple[int, str]:
        """Answer the question before a change by yes."""
        code, text = await self.get(f"/confirm?action={action}&subject={subject}")
        assert code == 200, text
        found = _CSRF.search(text)
        assert found is not None
        return await self.post({"csrf": found[1], "action": action, "subject": subject, **fields})

    async def post(self, fields: dict[str, str], **headers: str) -> tuple[int, str]:
        url = f"{self.base}/change"
        async with self.session.post(url, data=fields, headers=headers, allow_redirects=False) as response:
            return response.status, await response.text()


@asynccontextmanager
async def console(place: Path, user: str | None = None) -> AsyncIterator[Browser]:
    jar = aiohttp.CookieJar(unsafe=True)  # a cookie of an IP address
    served = Console([Farm(partial(request, place), "the farm of a test", user)])
    async with served.serving() as link, aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Browser(session, link)


@asynccontextmanager
async def running(directory: Path, servers: int) -> AsyncIterator[LocalFarm]:
    with LocalFarm(directory, servers=servers) as farm:
        farm.start_all()
        await farm.leader()
        yield farm


async def test_only_the_browser_with_the_link_sees_the_page(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        for path in ("/", "/live", "/confirm?action=drain&subject=1", "/static/style.css", "/open?key=guessed"):
            code, text = await browser.get(path)
            assert (code, "server" in text) == (403, False)
        await browser.open()
        async with browser.session.get(browser.link) as again:
            assert again.status == 403, "the link is good once"
        async with aiohttp.ClientSession() as stranger:
            for cookie in ("", "session=guessed", "session=\udcff"):
                async with stranger.get(f"{browser.base}/", headers={"Cookie": cookie}) as answer:
                    assert answer.status == 403
        code, text = await browser.get("/")
        assert (code, "server 1, in term 1" in text) == (200, True)
        for headers in ({"Host": "rebound.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            code, text = await browser.get("/", **headers)
            assert (code, text) == (404, "")
        for path in ("/static/farm.html", "/nothing", "/change"):
            code, _ = await browser.get(path)
            assert code in {404, 405}
        assert await browser.post({}, **{"Content-Type": "application/x-www-form-urlencoded; charset=foo"})


async def test_two_consoles_do_not_lock_each_other_out(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as one, console(farm.node(1)) as other:
        other.session = one.session
        await one.open()
        await other.open()
        for browser in (one, other):
            assert (await browser.get("/"))[0] == 200


async def test_a_defect_is_shown_and_ends_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gf_i2p.cli.page.farm_pages.LOOK_SECONDS", 0.01)

    async def strange(*_: object, **__: object) -> object:
        return {}

    served = Console([Farm(strange, "a node of another version", None)])
    jar = aiohttp.CookieJar(unsafe=True)
    async with served.serving() as link, aiohttp.ClientSession(cookie_jar=jar) as session:
        browser = Browser(session, link)
        await browser.open()
        code, text = await browser.get("/")
        assert (code, "A defect" in text) == (500, True)
        async with session.get(f"{browser.base}/live") as live:
            async with asyncio.timeout(PATIENCE):
                assert await live.content.readline() == b"event: trouble\n"
                assert b"a defect of this program: KeyError" in await live.content.readline()
                assert [await live.content.readline() for _ in range(3)] == [b"\n", b":\n", b"\n"]
        await until("no page is open", PATIENCE, lambda: _is(served._farms[0]._watchers.total() == 0))


async def _is(truth: bool) -> bool:
    return truth


async def test_a_change_is_asked_for_and_made_in_the_operators_name(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        await browser.open()
        code, _ = await browser.change("drain", "1", reason="<b>new disk</b>")
        assert code == 303
        _, log = await gf_json("farm", "log", farm.node(1))
        assert [(each["by"], each["what"], each["reason"]) for each in log["log"]] == [
            ("server-1", "drain 1", "<b>new disk</b>")
        ]
        _, text = await browser.get("/")
        assert "&lt;b&gt;new disk&lt;/b&gt;" in text
        assert "<b>new disk" not in text
        assert "Undrain" in text
        for fields in ({}, {"csrf": "guessed"}):
            code, text = await browser.post({"action": "undrain", "subject": "1", **fields})
            assert (code, "not asked by this page" in text) == (403, True)
        for query in (
            "action=burn&subject=1",
            "action=drain&subject=%D9%A1",
            "action=exclude&subject=1",
            "action=drain",
        ):
            code, _ = await browser.get(f"/confirm?{query}")
            assert code == 400


async def test_the_page_says_first_what_is_wrong_and_goes_on_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, 3) as farm, console(farm.node(1)) as browser:
        await browser.open()

        async def all_is_well() -> bool:
            return "All is well" in (await browser.get("/"))[1]

        await until("all servers are connected", PATIENCE, all_is_well)
        async with browser.session.get(f"{browser.base}/live") as live:

            async def shown(words: str) -> str:
                async with asyncio.timeout(PATIENCE):
                    async for line in live.content:
                        if line.startswith(b"data: ") and words in (text := json.loads(line[6:])):
                            return str(text)
                pytest.fail("the stream has ended")

            await shown("All is well")
            farm.kill(3)
            text = await shown("Server 3 is not reached")
            assert text.index("Server 3 is not reached") < text.index("Leader")
            farm.kill(1)
            await shown("no node answers")


async def test_a_server_has_a_page_with_its_charts_and_all_that_it_reports(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        await browser.open()
        code, text = await browser.get("/server?id=1")
        assert (code, "has posted no record" in text, "<svg" in text) == (200, True, False)
        router = {"uptime": 7_200_000, "participatingTunnels": 12, "version": "<script>x</script>"}
        now = int(time.time() * 1000)
        record = StatusRecord("farm", now, 1, router_up=True, router=router).encode().decode()
        code, answer = await gf_json("post", farm.node(1), record)
        assert code == 0, answer

        async def is_shown() -> bool:
            return "<svg" in (await browser.get("/server?id=1"))[1]

        await until("the record is shown", PATIENCE, is_shown)
        _, text = await browser.get("/server?id=1")
        assert 'aria-label="Participating tunnels: tunnels from 12 to 12, now 12"' in text
        assert "<td>7200000</td>" in text
        assert "&lt;script&gt;x" in text
        assert "<script>x" not in text
        code, shown = await gf_json("members", "show", farm.node(1), "1")
        assert (code, shown["record"]["router"]["participatingTunnels"]) == (0, 12)
        code, shown = await gf_json("members", "show", farm.node(1), "7")
        assert (code, shown["record"]) == (1, None)
        for wrong in ("x", "", "-1", "9999999999", "1&samples=2"):
            code, text = await browser.get(f"/server?id={wrong}")
            assert code == (200 if wrong.startswith("1&") else 503 if wrong.startswith("9") else 400), wrong
        assert '<a href="server?id=1"' in (await browser.get("/"))[1]


async def test_the_configuration_is_there_as_a_file(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1), "viewer-wall") as browser:
        assert (await browser.get("/farm.toml"))[0] == 403
        await browser.open()
        assert 'href="farm.toml"' in (await browser.get("/"))[1]
        async with browser.session.get(f"{browser.base}/farm.toml") as response:
            assert response.headers["Content-Disposition"] == 'attachment; filename="farm.toml"'
            file = table_of(FarmFile, await response.text(), Path("farm.toml"))
        assert (file.cluster, [server.id for server in file.servers], file.sealed) == ("farm", [1], None)


async def test_several_farms_have_a_page_with_the_worst_first(tmp_path: Path) -> None:
    async with running(tmp_path / "one", 1) as one, running(tmp_path / "two", 1) as two:
        places = [one.node(1), two.node(1)]
        served = Console([Farm(partial(request, place), place.parent.name, None) for place in places])
        jar = aiohttp.CookieJar(unsafe=True)
        async with served.serving() as link, aiohttp.ClientSession(cookie_jar=jar) as session:
            browser = Browser(session, link)
            await browser.open()
            code, text = await browser.get("/")
            assert (code, text.count("server 1, in term")) == (200, 2)
            for number in (1, 2):
                code, text = await browser.get(f"/{number}/")
                assert (code, "Committed entries" in text, "server 1, in term" in text) == (200, True, True)
                assert (await browser.get(f"/{number}/static/style.css"))[0] == 200
            browser.base += "/2"
            assert (await browser.change("drain", "1"))[0] == 303
            browser.base = browser.base.removesuffix("/2")
            assert ["drained by" in (await browser.get(f"/{number}/"))[1] for number in (1, 2)] == [False, True]
            two.kill(1)
            _, text = await browser.get("/")
            assert text.index("no answer") < text.index("server 1, in term")


async def test_a_viewer_gets_no_buttons(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1), "viewer-wall") as browser:
        await browser.open()
        _, text = await browser.get("/")
        assert "server 1, in term 1" in text
        assert "/confirm" not in text
