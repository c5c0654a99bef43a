"""A farm's file on the page: chosen, compared, and imported after a question."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from gf_i2p.cli.page.import_pages import MAX_FILE_BYTES, ImportPage, import_page
from gf_i2p.cli.page.words import words_in
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.files.farm_file import FarmFile, ServerSection
from gf_i2p.node.files.sealed import MIN_N, SealedTable
from tests.cli.page.test_console import Browser, console, running
from tests.cli.program import gf_json

SERVER: Final = ServerSection(id=1, endpoint="tcp://x:1")
_HIDDEN: Final = re.compile(r'name="(\w+)" value="([^"]*)"')


async def sent(browser: Browser, fields: dict[str, str], file: bytes | None = None) -> tuple[int, str]:
    form = aiohttp.FormData(fields)
    if file is not None:
        form.add_field("file", file, filename="farm.toml")
    async with browser.session.post(f"{browser.base}/import", data=form, allow_redirects=False) as response:
        return response.status, await response.text()


def hidden(text: str) -> dict[str, str]:
    return {name: value.replace("&#34;", '"').replace("&#39;", "'") for name, value in _HIDDEN.findall(text)}


async def test_a_file_is_imported_after_its_differences_are_shown(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        await browser.open()
        assert 'href="import"' in (await browser.get("/"))[1]
        csrf = hidden((await browser.get("/import"))[1])["csrf"]
        file = 'format = 1\ncluster = "farm"\nparameters = {margin = 60}\n[[servers]]\nid = 1\nendpoint = "tcp://x:1"\n'

        code, question = await sent(browser, {"csrf": csrf}, file.encode())
        assert (code, "margin default -&gt; 60" in question, "by hand: " in question) == (200, True, True), question
        assert (await gf_json("farm", "log", farm.node(1)))[1]["log"] == [], "a question changes nothing"

        stale = hidden(question) | {"shown": "0" * 64}
        assert "The farm has changed meanwhile" in (await sent(browser, stale))[1]
        assert (await gf_json("farm", "log", farm.node(1)))[1]["log"] == []

        code, done = await sent(browser, hidden(question) | {"reason": "<b>less flapping</b>"})
        assert (code, "1 change is in the farm" in done, "by hand: " in done) == (200, True, True), done
        _, log = await gf_json("farm", "log", farm.node(1))
        assert [(each["by"], each["reason"]) for each in log["log"]] == [("server-1", "<b>less flapping</b>")]
        _, again = await sent(browser, {"csrf": csrf}, file.encode())
        assert "Some of it is changed by hand only" in again
        assert "Yes, change the farm" not in again


async def test_a_file_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        await browser.open()
        csrf = hidden((await browser.get("/import"))[1])["csrf"]
        for fields, file, code, words in (
            ({}, b"", 403, "not asked by this page"),
            ({"csrf": csrf}, b"\xff", 400, "no text in UTF-8"),
            ({"csrf": csrf}, b"format = 2", 400, "format"),
            ({"csrf": csrf}, b'format = 1\ncluster = "<i>other</i>"', 400, "&lt;i&gt;other"),
            ({"csrf": csrf}, b"#" * (MAX_FILE_BYTES + 1), 413, f"more than {MAX_FILE_BYTES >> 10} KiB"),
        ):
            found, text = await sent(browser, fields, file)
            assert (found, words in text, "<i>other" in text) == (code, True, False), text
        assert (await gf_json("farm", "log", farm.node(1)))[1]["log"] == []


async def test_a_viewer_is_offered_no_import(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1), "viewer-wall") as browser:
        await browser.open()
        assert 'href="import"' not in (await browser.get("/"))[1]
        for path in ("/import", "/confirm?action=drain&subject=1"):
            assert (await browser.get(path))[0] == 403
        code, text = await sent(browser, {"csrf": "any"}, b"")
        assert (code, "A viewer changes nothing" in text) == (403, True)


class _Farm:
    """A farm made by hand, which takes `posts` requests, and can be asked `looks` times."""

    def __init__(self, *, posts: int, looks: int) -> None:
        self.posts, self.looks = posts, looks
        self.posted = 0

    async def describe(self) -> tuple[FarmFile, int]:
        self.looks -= 1
        if self.looks < 0:
            raise CommandError("no node answers.")
        return FarmFile(format=1, cluster="farm"), 1

    async def post(self, values: list[str]) -> None:
        self.posts -= 1
        if self.posts < 0:
            raise CommandError("no leader")
        self.posted += len(values)


async def imported(farm: _Farm) -> ImportPage:
    addresses = [to_b32_address(number.to_bytes(32, "big")) for number in range(200)]
    rest = f'excluded = true\nreason = "{"x" * 190}"\n'
    leaves = "".join(f'[[leaves]]\naddress = "{address}"\n{rest}' for address in addresses)
    text = f'format = 1\ncluster = "farm"\n{leaves}'
    agreed = ""
    for _ in range(2):
        page = await import_page(
            text, user=None, reason="", date_ms=1, agreed=agreed, describe=farm.describe, post=farm.post
        )
        agreed = page.shown
    return page


async def test_an_import_says_how_far_it_has_come() -> None:
    page = await imported(farm := _Farm(posts=1, looks=9))
    assert (page.title, 0 < farm.posted < 200) == ("Partly imported", True)
    assert page.note == f"The first {farm.posted} of 200 changes are in the log; then: no leader."
    page = await imported(_Farm(posts=9, looks=2))
    assert page.title == "Changed"
    note = page.translated(words_in("en")).note
    assert note == "200 changes are in the farm's log. The node does not answer now: No node answers."
    page = await imported(_Farm(posts=9, looks=9))
    assert (page.title, len(page.lines)) == ("Changed, and this server does not show all of it yet", 200)
    with pytest.raises(CommandError, match="no leader"):
        await imported(_Farm(posts=0, looks=9))


async def test_a_sealed_part_is_left_aside_and_that_is_said() -> None:
    table = SealedTable.seal(b"{}", "any", "farm", n=MIN_N)
    plain = FarmFile(format=1, cluster="farm", sealed=table)
    for wanted, asks in ((plain, False), (plain.model_copy(update={"publisher": 1}), True)):
        text = wanted.model_copy(update={"servers": (SERVER,)}).encode(1, datetime.now(UTC))
        farm = _Farm(posts=0, looks=1)
        page = await import_page(
            text, user=None, reason="", date_ms=1, agreed="", describe=farm.describe, post=farm.post
        )
        assert (page.note, page.asks) == ("The sealed part of the file was left aside.", asks)
