"""The pages of one farm: its state, live; its servers; the questions before changes, and the changes."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Any, Final

from aiohttp import web

from gf_i2p.cli.page.actions import UnknownActionError, entry_of, kind_of
from gf_i2p.cli.page.charts import HEIGHT, WIDTH, charts
from gf_i2p.cli.page.import_pages import MAX_FILE_BYTES, ImportPage, import_page
from gf_i2p.cli.page.overview import Answers, Overview, overview
from gf_i2p.cli.page.rendering import Pages, comparable
from gf_i2p.cli.shared.answer_text import record_rows
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.farm_import import described
from gf_i2p.cli.shared.fitting import with_short_addresses
from gf_i2p.cli.shared.local_client import APPLY_SECONDS
from gf_i2p.farm.admin_entries import MAX_REASON
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.wire.limits import MAX_ID

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Ask = Callable[..., Awaitable[Any]]
"""Asks the node: method and path, with `body` and `seconds` by name. Raises `CommandError`."""

LOOK_SECONDS: Final = 0.4
"""Least seconds between two looks at the farm while a browser shows the page."""
_REST: Final = 20
"""The pause between two looks is so many times as long as a look, so a large farm costs its node little."""
_LONGEST_PAUSE: Final = 2.0
"""Most seconds between two looks."""
_CHANGE_SECONDS: Final = 40.0
_POLL_SECONDS: Final = 0.1


class FarmPages:
    """The pages of one farm."""

    def __init__(self, ask: Ask, place: str, user: str | None, pages: Pages, csrf: str) -> None:
        """Prepare the pages.

        Args:
            ask: asks the node.
            place: the node or the file, in words, for the head of the page.
            user: name of the administrator or viewer who asks; None: the operator of the node's own machine.
            pages: renders.
            csrf: the token of the session, by which a change shows that a page of this program has asked for it.
        """
        self._ask = ask
        self.place = place
        self._user = user
        self._may_change = user is None or User(user).role is Role.ADMIN
        self._pages = pages
        self._csrf = csrf
        self._event = b""  # the newest server-sent event
        self._watchers = 0
        self._looked = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None

    def routes(self, prefix: str) -> list[web.RouteDef]:
        """Return the routes of these pages, below a path."""
        return [
            web.get(f"{prefix}/", self._get_farm),
            web.get(f"{prefix}/live", self._get_live),
            web.get(f"{prefix}/server", self._get_server),
            web.get(f"{prefix}/confirm", self._for_administrators(self._get_confirm)),
            web.post(f"{prefix}/change", self._for_administrators(self._post_change)),
            web.get(f"{prefix}/farm.toml", self._get_file),
            web.get(f"{prefix}/import", self._for_administrators(self._get_import)),
            web.post(f"{prefix}/import", self._for_administrators(self._post_import)),
            web.get(f"{prefix}/static/{{name}}", self._pages.get_static),
        ]

    def _for_administrators(self, handler: _Handler) -> _Handler:
        """Return a handler that asks no viewer for a change. The farm's servers refuse a viewer's change anyway."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if self._may_change:
                return await handler(request)
            text = "A viewer changes nothing. Open the console with an administrator's file."
            return self._pages.message("Not for viewers", text, back="Back", status=403)

        return handle

    def stop(self) -> None:
        """End the looks at the farm."""
        if self._looking is not None:
            self._looking.cancel()

    # The farm ---------------------------------------------------------------------------------------------------------

    async def _get_farm(self, _: web.Request) -> web.Response:
        try:
            page = await self.look()
        except CommandError as error:
            return self._pages.message("No answer", str(error), back="Try again", status=503)
        return self._pages.html("overview.html", page=page, place=self.place)

    async def _get_server(self, request: web.Request) -> web.Response:
        text = request.query.get("id", "")
        if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_ID)):
            return self._pages.message(
                "No such server", f"{text[:80]!r} is no id of a server.", back="Back", status=400
            )
        try:
            answer = await self._ask("GET", f"/v1/record?server={text}")
        except CommandError as error:
            return self._pages.message("No answer", str(error), back="Back", status=503)
        return self._pages.html(
            "server.html",
            server=text,
            charts=charts(answer["columns"], answer["samples"]),
            record=record_rows(answer["record"] or {}),
            width=WIDTH,
            height=HEIGHT,
        )

    async def _get_live(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self._watchers += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._keep_looking(), name="looking at the farm")
            last = b""
            while True:
                async with self._looked:
                    await self._looked.wait()
                # A comment tells whether the browser still listens.
                await response.write(self._event if self._event != last else b":\n\n")
                last = self._event
        except ConnectionError:
            return response
        finally:
            self._watchers -= 1

    async def _keep_looking(self) -> None:
        """Look at the farm, and make the event for all open pages together, until no page is open."""
        loop = asyncio.get_running_loop()
        while self._watchers:
            began = loop.time()
            try:
                self._event = _event("message", self._pages.render("farm.html", page=await self.look()))
            except CommandError as error:
                self._event = _event("trouble", str(error))
            except Exception as error:  # noqa: BLE001 -- an open page must not show an old state without a word
                self._event = _event("trouble", f"a defect of this program: {type(error).__name__}: {error}")
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(min(max(LOOK_SECONDS, _REST * (loop.time() - began)), _LONGEST_PAUSE))

    async def _get_file(self, _: web.Request) -> web.Response:
        try:
            farm, server = await self._describe()
        except CommandError as error:
            return self._pages.message("No answer", str(error), back="Back", status=503)
        text = farm.encode(server, datetime.now(UTC))
        headers = {"Content-Disposition": 'attachment; filename="farm.toml"'}
        return web.Response(text=text, content_type="application/toml", headers=headers)

    async def _describe(self) -> tuple[FarmFile, int]:
        """Return the farm as the node describes it, and the node's id. Raises `CommandError`."""
        administration, status = [await self._ask("GET", path) for path in ("/v1/administration", "/v1/status")]
        return described(administration, status)

    async def look(self) -> Overview:
        """Ask the node, and make the page's content. Raises `CommandError`."""
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
            return self._pages.message("No such change", str(error), back="Back", status=400)
        return self._pages.html(
            "confirm.html",
            question=kind.question.format(subject=with_short_addresses(subject)),
            outcome=kind.outcome.format(subject=with_short_addresses(subject)),
            action=name,
            subject=subject,
            takes_reason=kind.entry is not None,
            max_reason=MAX_REASON,
            csrf=self._csrf,
        )

    def _refusal(self, form: Mapping[str, object]) -> web.Response | None:
        """Return the answer to a change for which no page of this session has asked; None: a page has."""
        if compare_digest(comparable(str(form.get("csrf", ""))), comparable(self._csrf)):
            return None
        text = "The question was not asked by this page. Go back, and choose the change again."
        return self._pages.message("Not changed", text, back="Back", status=403)

    async def _post_change(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if (refusal := self._refusal(form)) is not None:
            return refusal
        try:
            await self._change(form)
        except UnknownActionError as error:
            return self._pages.message("No such change", str(error), back="Back", status=400)
        except CommandError as error:
            title = "The outcome is unknown" if error.outcome == "unknown" else "Not changed"
            return self._pages.message(title, str(error), back="Back", status=502)
        return web.Response(status=303, headers={"Location": "./"})

    async def _change(self, form: Mapping[str, str]) -> None:
        status = await self._ask("GET", "/v1/status")
        user = self._user or f"server-{status['id']}"
        name, subject, reason = form.get("action", ""), form.get("subject", ""), form.get("reason", "")[:MAX_REASON]
        entry = entry_of(name, status["cluster"], user, now_ms(), subject, reason)
        if entry is None:
            await self._ask("POST", "/v1/stepdown", seconds=_CHANGE_SECONDS, body={})
        else:
            await self._post([entry.encode().decode()])

    async def _post(self, values: Sequence[str]) -> None:
        body = {"values": list(values)}
        index = (await self._ask("POST", "/v1/entries", seconds=_CHANGE_SECONDS, body=body))["index"]
        await self._until_applied(index)

    async def _until_applied(self, index: int) -> None:
        """Wait until the node's answers have the change, so that the next page shows the change; some seconds at most.

        The change is committed already: no failure here means that the change was not made.
        """
        with contextlib.suppress(TimeoutError, CommandError):
            async with asyncio.timeout(APPLY_SECONDS):
                while (await self._ask("GET", "/v1/administration"))["applied"] < index:  # noqa: ASYNC110 -- a program apart
                    await asyncio.sleep(_POLL_SECONDS)

    # The import of a file ---------------------------------------------------------------------------------------------

    async def _get_import(self, _: web.Request) -> web.Response:
        return self._import_html(ImportPage("Import a configuration", "", (), chooses=True))

    async def _post_import(self, request: web.Request) -> web.Response:
        too_large = f"The file has more than {MAX_FILE_BYTES >> 10} KiB. Choose a file that the page has given."
        try:
            form = await request.post()
        except web.HTTPRequestEntityTooLarge:
            return self._pages.message("Not imported", too_large, back="Back", status=413)
        if (refusal := self._refusal(form)) is not None:
            return refusal
        file = form.get("file")
        if isinstance(file, web.FileField):
            data = file.file.read(MAX_FILE_BYTES + 1)
        else:
            data = comparable(str(form.get("text", ""))).replace(b"\r\n", b"\n")  # a browser changes the ends of lines
        if len(data) > MAX_FILE_BYTES:
            return self._pages.message("Not imported", too_large, back="Back", status=413)
        try:
            page = await import_page(
                data.decode("utf-8"),
                user=self._user,
                reason=str(form.get("reason", ""))[:MAX_REASON],
                date_ms=now_ms(),
                agreed=str(form.get("shown", "")),
                describe=self._describe,
                post=self._post,
            )
        except UnicodeDecodeError:
            return self._pages.message(
                "Not imported",
                "The file is no text in UTF-8. Choose a file that the page has given.",
                back="Back",
                status=400,
            )
        except CommandError as error:
            title = "The outcome is unknown" if error.outcome == "unknown" else "Not imported"
            return self._pages.message(title, str(error), back="Back", status=400)
        return self._import_html(page)

    def _import_html(self, page: ImportPage) -> web.Response:
        return self._pages.html("import.html", **page._asdict(), csrf=self._csrf, max_reason=MAX_REASON)


def _event(name: str, text: str) -> bytes:
    """Return a server-sent event (HTML Living Standard 9.2); "message" is the name that scripts hear by default."""
    return f"event: {name}\ndata: {json.dumps(text)}\n\n".encode()
