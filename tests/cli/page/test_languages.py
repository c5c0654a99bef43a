"""The page of a real farm in the languages of its browsers."""

import asyncio
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gf_i2p.admin.monitoring.health import HealthState
from gf_i2p.cli.page.console import Console, Farm
from gf_i2p.cli.page.farm_pages import FarmPages
from gf_i2p.cli.page.overview import Answers, overview
from gf_i2p.cli.page.rendering import Pages
from gf_i2p.cli.page.words import LANGUAGES, words_in
from gf_i2p.cli.shared.local_client import request
from tests.cli.page.test_console import Browser, console, running
from tests.cli.program import PATIENCE

HEADLINES = {
    "en": "All is well",
    "es": "Todo está bien",
    "fr": "Tout va bien",
    "hi": "सब ठीक है",
    "ko": "모두 정상입니다",
}


async def test_each_browser_reads_its_own_language(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        await browser.open()
        for language, headline in HEADLINES.items():
            headers = {"Accept-Language": f"de, {language}-XX;q=0.8"}
            async with browser.session.get(f"{browser.base}/", headers=headers) as response:
                text = await response.text()
            assert (response.headers["Content-Language"], response.headers["Vary"]) == (language, "Accept-Language")
            assert f'<html lang="{language}">' in text
            assert headline in text
            assert sum(each in text for each in HEADLINES.values()) == 1, "no other language"
        code, text = await browser.get("/", **{"Accept-Language": "q=;,;;es;q=9"})
        assert (code, '<html lang="en">' in text) == (200, True)
        code, text = await browser.get("/confirm?action=burn&subject=1", **{"Accept-Language": "ko"})
        assert (code, "그런 변경은 없습니다." in text) == (400, True)
        code, text = await browser.get("/server?id=1", **{"Accept-Language": "fr"})
        assert (code, "n’a envoyé aucun rapport" in text) == (200, True)


async def test_the_command_chooses_one_language_for_every_browser(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with running(tmp_path, 1) as farm:
        served = Console([Farm(partial(request, farm.node(1)), "farm, by test", None)], "hi")
        async with served.serving() as link, aiohttp.ClientSession(cookie_jar=jar) as session:
            browser = Browser(session, link)
            code, text = await browser.get("/", **{"Accept-Language": "es"})
            assert (code, '<html lang="hi">' in text) == (403, True), "before the link is opened"
            await browser.open()
            code, text = await browser.get("/", **{"Accept-Language": "es"})
            assert (code, '<html lang="hi">' in text, "farm, test द्वारा" in text) == (200, True, True)


async def test_a_state_is_rendered_once_for_each_language_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: Counter[str] = Counter()
    looks: list[int] = []
    render, look = Pages.render, FarmPages.look

    def counted(self: Pages, template: str, **values: Any) -> str:
        rendered[self.words.language] += 1
        return render(self, template, **values)

    async def looked(self: FarmPages) -> Answers:
        looks.append(1)
        return await look(self)

    async with running(tmp_path, 1) as farm, console(farm.node(1)) as browser:
        await browser.open()
        monkeypatch.setattr(Pages, "render", counted)
        monkeypatch.setattr(FarmPages, "look", looked)
        live = [
            await browser.session.get(f"{browser.base}/live", headers={"Accept-Language": language})
            for language in ("es", "es", "es", "ko")
        ]
        async with asyncio.timeout(PATIENCE):
            for stream, language in zip(live, ("es", "es", "es", "ko"), strict=True):
                assert stream.headers["Content-Language"] == language
                text = ""
                while HEADLINES[language] not in text:
                    line = await stream.content.readline()
                    text = json.loads(line[6:]) if line.startswith(b"data: ") else ""
        assert rendered.keys() == {"es", "ko"}
        assert max(rendered.values()) <= len(looks), "once for each look, and not for each page"
        for stream in live:
            stream.close()


def test_all_that_the_node_says_is_translated_but_the_words_of_people() -> None:
    reason = "its router is down"
    change = {"index": 9, "date": 9, "by": "admin-its router is down", "what": "drain 2", "reason": reason}
    server = {"endpoint": "tcp://127.0.0.1:2", "self": False, "leader": False, "lag": None}
    status = {
        "cluster": "publishing is off there",
        "id": 1,
        "leader": None,
        "term": 7,
        "membership": "member",
        "cannot_follow": None,
        "quorum": {"reachable": 1, "needed": 1, "servers": 2},
        "log": {"commit": 12},
        "farm": {"trouble": [f"the service at x does not answer (y), so {reason}: start the service, or correct z"]},
        "disk": {"full": None},
        "history": None,
        "servers": [
            {**server, "id": 1, "connected": True, "error": None, "self": True},
            {**server, "id": 2, "connected": False, "error": "tcp://127.0.0.1:2: the peer closed the connection"},
        ],
    }
    farm = {"publisher": 2, "mode": "meta", "why": "its score of 9 is the best; server 1 has 7"}
    admin = {
        "publisher": 2,
        "mode": "meta",
        "moved_to": None,
        "servers": [
            {"id": 1, "why_not": "its score is 7, and that of server 2 is 9", "score": 7, "drained": None},
            {"id": 2, "why_not": None, "score": 9, "drained": change},
        ],
        "leaves": [
            {"address": "leaf", "listed": False, "why_not": f"admin-x has excluded it: {reason}", "excluded": None}
            | {"owners": [], "cost": None}
        ],
        "parameters": {},
        "log": [change],
    }
    events = [
        {"date": 1, "text": "server 1 would publish: it is the only server that can"},
        {"date": 2, "text": f"admin-its router is down: drain 2 ({reason})"},
        {"date": 3, "text": f"admin-other: {reason}"},
    ]
    answers = Answers(status, {"farm": farm, "this": {"publishing": None}}, admin, events)
    page = overview(answers, words_in("es"), may_change=False)
    assert (page.cluster, page.health.state) == ("publishing is off there", HealthState.UNAVAILABLE)
    assert page.health.reasons == (
        "Ningún servidor es el líder: hay una elección en curso.",
        "Sin conexión con el servidor 2: tcp://127.0.0.1:2: el par cerró la conexión.",
        "El servicio en x no responde (y), así que su router está caído: iniciar el servicio, o corregir z.",
    )
    assert page.why == "Su puntuación de 9 es la mejor; el servidor 1 tiene 7."
    assert [row.duty for row in page.servers] == [
        "su puntuación es 7, y la del servidor 2 es 9",
        "drenado por admin-its router is down; publica",
    ]
    assert page.servers[1].state == "sin conexión: tcp://127.0.0.1:2: el par cerró la conexión"
    assert page.leaves[0].state == f"fuera de la lista: admin-x la ha excluido: {reason}"
    assert page.changes == (("1970-01-01 00:00:00", "admin-its router is down", f"drenar 2 ({reason})"),)
    assert [text for _, text in page.events] == [
        f"admin-other: {reason}",
        f"admin-its router is down: drenar 2 ({reason})",
        "el servidor 1 publicaría: es el único servidor que puede",
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_hostile_text_stays_escaped(language: str) -> None:
    text = Pages(words_in(language)).render(
        "message.html", title="t", text=words_in(language).of_node("its router is down (<script>x</script>)"), back=""
    )
    assert "<script>" not in text
    assert "&lt;script&gt;x" in text
