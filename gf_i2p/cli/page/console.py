"""The server of the page: on loopback, for one browser, while the command runs.

    GET  /open?key=KEY     the link that the command prints; good once; gives the browser its session
    GET  /ROOM/            the farm; or all farms, and each of them below /ROOM/NUMBER/
    GET  /ROOM/live        the farm again and again, as server-sent events
    GET  /ROOM/server      a server's numbers over time as charts, and its newest record
    GET  /ROOM/confirm     a question before a change
    POST /ROOM/change      makes the change
    GET  /ROOM/farm.toml   the farm's configuration as a file, as of `gf-i2p config export`
    GET  /ROOM/import      asks for such a file; POST shows the differences, and changes the farm after a question

Other programs on this machine, and pages of other sites in the same browser, get nothing: every path but `/open` needs
the session's cookie, a change needs the session's token too, and names of other hosts are refused, because a page could
reach this server by DNS rebinding. A browser sends a cookie to all ports of this machine. So the paths begin with ROOM,
a random name, to which the cookie is bound. The page loads nothing from elsewhere.

The node knows nothing of the page: the command asks the node as any other command does. So a slow browser costs the
farm nothing, and the page works with a farm that is far away.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final, NamedTuple

from aiohttp import web

from gf_i2p.admin.quiet_answers import SILENT, without_banner
from gf_i2p.cli.page.farm_pages import Ask, FarmPages
from gf_i2p.cli.page.import_pages import MAX_FORM_BYTES
from gf_i2p.cli.page.overview import Overview, overview
from gf_i2p.cli.page.rendering import Languages, comparable, get_static
from gf_i2p.cli.page.words import Words
from gf_i2p.cli.shared.errors import CommandError

_COOKIE: Final = "session"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # "no-referrer" would have browsers send "Origin: null" with each change
    "Cache-Control": "no-store",
    "Vary": "Accept-Language",
}
_ORDER: Final = ("none", "unavailable", "degraded", "healthy")
"""States of farms on the page of several, the worst first."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Farm(NamedTuple):
    """One farm that the console shows; see `FarmPages`."""

    ask: Ask
    place: str
    user: str | None


@dataclass(frozen=True, slots=True)
class FarmRow:
    """One farm on the page of several."""

    number: int
    place: str
    page: Overview | None
    trouble: str
    """Why there is no answer."""


class Console:
    """The server of one farm's pages, or of several farms'."""

    def __init__(self, farms: Sequence[Farm], language: str | None = None) -> None:
        """Prepare the server. `language`: one of `LANGUAGES`, for every browser; None: each browser says which."""
        self._languages = Languages(language)
        self._key: str | None = secrets.token_urlsafe(24)
        self._session: str | None = None
        csrf = secrets.token_urlsafe(24)
        self._room = f"/{secrets.token_urlsafe(24)}"
        self._hosts: set[str] = set()
        self._farms = [FarmPages(*farm, self._languages, csrf) for farm in farms]
        self._app = web.Application(client_max_size=MAX_FORM_BYTES, middlewares=[self._guard])
        self._app.on_response_prepare.extend([without_banner, _with_headers])
        self._app.add_routes([web.get("/open", self._get_open)])
        if len(self._farms) == 1:
            self._app.add_routes(self._farms[0].routes(self._room))
            return
        self._app.add_routes(
            [
                web.get(f"{self._room}/", self._get_farms),
                web.get(f"{self._room}/static/{{name}}", get_static),
            ]
        )
        for number, farm in enumerate(self._farms, 1):
            self._app.add_routes(farm.routes(f"{self._room}/{number}"))

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Listen on loopback while the context is open; yield the link for the browser. Raises `OSError`."""
        runner = web.AppRunner(self._app, access_log=None, logger=SILENT, shutdown_timeout=0.5)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            bound = runner.addresses[0][1]
            self._hosts = {f"127.0.0.1:{bound}", f"localhost:{bound}"}
            yield f"http://127.0.0.1:{bound}/open?key={self._key}"
        finally:
            for farm in self._farms:
                farm.stop()
            await runner.cleanup()

    # Access -----------------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        foreign = origin is not None and origin.partition("://")[2] not in self._hosts
        if request.host not in self._hosts or foreign:
            return web.Response(status=404)
        if request.path != "/open" and not self._is_known(request):
            pages = self._languages.of(request)
            text = pages.words.translated(
                "Open this page by the link that the command has printed, or start the command again for another link."
            )
            return pages.message(pages.words.translated("Not opened"), text, status=403)
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 -- the person at the browser must learn of a defect
            pages = self._languages.of(request)
            title, back = pages.words.translated("A defect"), pages.words.translated("Back")
            return pages.message(title, f"{type(error).__name__}: {error}.", back=back, status=500)

    def _is_known(self, request: web.Request) -> bool:
        cookie = request.cookies.get(_COOKIE, "")
        return self._session is not None and compare_digest(comparable(cookie), comparable(self._session))

    async def _get_open(self, request: web.Request) -> web.Response:
        given, key = request.query.get("key", ""), self._key
        if key is None or not compare_digest(comparable(given), comparable(key)):
            pages = self._languages.of(request)
            text = pages.words.translated(
                "The link is good once. Stop the command, and start it again for another link."
            )
            return pages.message(pages.words.translated("The link is used"), text, status=403)
        self._key, self._session = None, secrets.token_urlsafe(24)
        response = web.Response(status=303, headers={"Location": f"{self._room}/"})
        response.set_cookie(_COOKIE, self._session, httponly=True, samesite="Strict", path=self._room)
        return response

    async def _get_farms(self, request: web.Request) -> web.Response:
        pages = self._languages.of(request)
        rows = await asyncio.gather(*(_row(number, farm, pages.words) for number, farm in enumerate(self._farms, 1)))
        worst = sorted(rows, key=lambda row: _ORDER.index("none" if row.page is None else row.page.health.state))
        return pages.html("farms.html", rows=worst)


async def _row(number: int, farm: FarmPages, words: Words) -> FarmRow:
    try:
        return FarmRow(
            number, words.of_node(farm.place), overview(await farm.look(), words, may_change=farm.may_change), ""
        )
    except CommandError as error:
        return FarmRow(number, words.of_node(farm.place), None, words.of_node(str(error)))


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
