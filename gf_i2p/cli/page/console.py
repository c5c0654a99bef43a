"""The server of the page: on loopback, for one browser, while the command runs.

    GET  /open?key=KEY     the link that the command prints; good once; gives the browser its session
    GET  /ROOM/            the farm
    GET  /ROOM/live        the farm again and again, as server-sent events
    GET  /ROOM/confirm     a question before a change
    POST /ROOM/change      makes the change
    GET  /ROOM/farm.toml   the farm's configuration as a file, as of `gf-i2p config export`

Other programs on this machine, and pages of other sites in the same browser, get nothing: every path but `/open` needs
the session's cookie, a change needs the session's token too, and names of other hosts are refused, because a page could
reach this server by DNS rebinding. A browser sends a cookie to all ports of this machine. So the paths begin with ROOM,
a random name, to which the cookie is bound. The page loads nothing from elsewhere.

The node knows nothing of the page: the command asks the node as any other command does. So a slow browser costs the
farm nothing, and the page works with a farm that is far away.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from aiohttp import web

from gf_i2p.admin.quiet_answers import SILENT, without_banner
from gf_i2p.cli.page.actions import Action, UnknownActionError, entry_of, kind_of
from gf_i2p.cli.page.overview import Answers, Overview, overview
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.fitting import with_short_addresses
from gf_i2p.farm.admin_entries import MAX_REASON
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.farm_file import FarmFile

Ask = Callable[..., Awaitable[Any]]
"""Asks the node: method and path, with `body` and `seconds` by name. Raises `CommandError`."""

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the farm while a browser shows the page."""
_COOKIE: Final = "session"
_CHANGE_SECONDS: Final = 40.0
_HERE: Final = Path(__file__).parent
_STATIC: Final = {"style.css": "text/css", "live.js": "text/javascript"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Console:
    """The page of one farm."""

    def __init__(self, ask: Ask, place: str, user: str | None) -> None:
        """Prepare the server.

        Args:
            ask: asks the node.
            place: the node or the file, in words, for the head of the page.
            user: name of the administrator or viewer who asks; None: the operator of the node's own machine.
        """
        self._ask = ask
        self._place = place
        self._user = user
        self._may_change = user is None or User(user).role is Role.ADMIN
        self._key: str | None = secrets.token_urlsafe(24)
        self._session: str | None = None
        self._csrf = secrets.token_urlsafe(24)
        self._room = f"/{secrets.token_urlsafe(24)}"
        self._hosts: set[str] = set()
        self._page: Overview | CommandError | None = None
        self._watchers = 0
        self._looked = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
        )
        self._templates.filters |= {"short": with_short_addresses, "confirm_link": _confirm_link}
        self._app = web.Application(client_max_size=16 << 10, middlewares=[self._guard])
        self._app.on_response_prepare.extend([without_banner, _with_headers])
        self._app.add_routes(
            [
                web.get("/open", self._get_open),
                web.get(f"{self._room}/", self._get_farm),
                web.get(f"{self._room}/live", self._get_live),
                web.get(f"{self._room}/confirm", self._get_confirm),
                web.post(f"{self._room}/change", self._post_change),
                web.get(f"{self._room}/farm.toml", self._get_file),
                web.get(f"{self._room}/static/{{name}}", self._get_static),
            ]
        )

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
            if self._looking is not None:
                self._looking.cancel()
            await runner.cleanup()

    # Access -----------------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        foreign = origin is not None and origin.partition("://")[2] not in self._hosts
        if request.host not in self._hosts or foreign:
            return web.Response(status=404)
        if request.path != "/open" and not self._is_known(request):
            text = (
                "Open this page by the link that the command has printed, or start the command again for another link."
            )
            return self._message("Not opened", text, status=403)
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 -- the person at the browser must learn of a defect
            return self._message("A defect", f"{type(error).__name__}: {error}.", back="Back", status=500)

    def _is_known(self, request: web.Request) -> bool:
        cookie = request.cookies.get(_COOKIE, "")
        return self._session is not None and compare_digest(_bytes(cookie), _bytes(self._session))

    async def _get_open(self, request: web.Request) -> web.Response:
        given, key = request.query.get("key", ""), self._key
        if key is None or not compare_digest(_bytes(given), _bytes(key)):
            text = "The link is good once. Stop the command, and start it again for another link."
            return self._message("The link is used", text, status=403)
        self._key, self._session = None, secrets.token_urlsafe(24)
        response = web.Response(status=303, headers={"Location": f"{self._room}/"})
        response.set_cookie(_COOKIE, self._session, httponly=True, samesite="Strict", path=self._room)
        return response

    # The farm ---------------------------------------------------------------------------------------------------------

    async def _get_farm(self, _: web.Request) -> web.Response:
        try:
            page = await self._look()
        except CommandError as error:
            return self._message("No answer", str(error), back="Try again", status=503)
        return self._html("overview.html", page=page, place=self._place)

    async def _get_live(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self._watchers += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._keep_looking(), name="looking at the farm")
            last = ""
            while True:
                async with self._looked:
                    await self._looked.wait()
                page = self._page
                if isinstance(page, Overview):
                    event = f"data: {json.dumps(self._templates.get_template('farm.html').render(page=page))}\n\n"
                else:
                    event = f"event: trouble\ndata: {json.dumps(str(page))}\n\n"
                # A comment tells whether the browser still listens.
                await response.write((event if event != last else ":\n\n").encode())
                last = event
        except ConnectionError:
            return response
        finally:
            self._watchers -= 1

    async def _keep_looking(self) -> None:
        """Look at the farm for all open pages together, until no page is open."""
        while self._watchers:
            try:
                self._page = await self._look()
            except CommandError as error:
                self._page = error
            except Exception as error:  # noqa: BLE001 -- an open page must not show an old state without a word
                self._page = CommandError(f"a defect of this program: {type(error).__name__}: {error}")
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(LOOK_SECONDS)

    async def _get_file(self, _: web.Request) -> web.Response:
        try:
            administration, status = [await self._ask("GET", path) for path in ("/v1/administration", "/v1/status")]
        except CommandError as error:
            return self._message("No answer", str(error), back="Back", status=503)
        text = FarmFile.of_answers(administration, status).encode(administration["id"], datetime.now(UTC))
        headers = {"Content-Disposition": 'attachment; filename="farm.toml"'}
        return web.Response(text=text, content_type="application/toml", headers=headers)

    async def _look(self) -> Overview:
        paths = ("/v1/status", "/v1/explain", "/v1/administration", "/v1/events")
        status, explanation, administration, events = [await self._ask("GET", path) for path in paths]
        answers = Answers(status, explanation, administration, events["events"])
        return overview(answers, may_change=self._may_change)

    # Changes ----------------------------------------------------------------------------------------------------------

    async def _get_confirm(self, request: web.Request) -> web.Response:
        name, subject = request.query.get("action", ""), request.query.get("subject", "")[:200]
        try:
            kind = kind_of(name)
            entry_of(name, "farm", "somebody", 1, subject, "")
        except UnknownActionError as error:
            return self._message("No such change", str(error), back="Back", status=400)
        return self._html(
            "confirm.html",
            question=kind.question.format(subject=with_short_addresses(subject)),
            outcome=kind.outcome.format(subject=with_short_addresses(subject)),
            action=name,
            subject=subject,
            takes_reason=kind.entry is not None,
            max_reason=MAX_REASON,
            csrf=self._csrf,
        )

    async def _post_change(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if not compare_digest(_bytes(form.get("csrf", "")), _bytes(self._csrf)):
            text = "The question was not asked by this page. Go back, and choose the change again."
            return self._message("Not changed", text, back="Back", status=403)
        try:
            await self._change(form)
        except UnknownActionError as error:
            return self._message("No such change", str(error), back="Back", status=400)
        except CommandError as error:
            title = "The outcome is unknown" if error.outcome == "unknown" else "Not changed"
            return self._message(title, str(error), back="Back", status=502)
        return web.Response(status=303, headers={"Location": "./"})

    async def _change(self, form: Mapping[str, str]) -> None:
        status = await self._ask("GET", "/v1/status")
        user = self._user or f"server-{status['id']}"
        name, subject, reason = form.get("action", ""), form.get("subject", ""), form.get("reason", "")[:MAX_REASON]
        entry = entry_of(name, status["cluster"], user, now_ms(), subject, reason)
        if entry is None:
            await self._ask("POST", "/v1/stepdown", seconds=_CHANGE_SECONDS, body={})
        else:
            body = {"values": [entry.encode().decode()]}
            await self._ask("POST", "/v1/entries", seconds=_CHANGE_SECONDS, body=body)

    # Answers ----------------------------------------------------------------------------------------------------------

    async def _get_static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in _STATIC:
            return web.Response(status=404)
        return web.Response(text=(_HERE / "static" / name).read_text("utf-8"), content_type=_STATIC[name])

    def _html(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        text = self._templates.get_template(template).render(**values)
        return web.Response(text=text, content_type="text/html", status=status)

    def _message(self, title: str, text: str, *, back: str = "", status: int) -> web.Response:
        return self._html("message.html", title=title, text=text, back=back, status=status)


def _bytes(text: str) -> bytes:
    """Return a text as bytes, to be compared. A request may hold characters that UTF-8 does not have."""
    return text.encode("utf-8", "surrogateescape")


async def _with_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _confirm_link(action: Action) -> str:
    return "confirm?" + urlencode({"action": action.name, "subject": action.subject})
