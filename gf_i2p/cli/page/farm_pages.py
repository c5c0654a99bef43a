"""The pages of one farm: its state, live; its servers; the questions before changes, and the changes."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Any, Final

from aiohttp import web

from gf_i2p.cli.page.actions import UnknownActionError, entry_of, kind_of
from gf_i2p.cli.page.charts import HEIGHT, WIDTH, charts
from gf_i2p.cli.page.import_pages import MAX_FILE_BYTES, ImportPage, import_page
from gf_i2p.cli.page.overview import Answers, overview
from gf_i2p.cli.page.rendering import Languages, Pages, comparable, get_static
from gf_i2p.cli.page.words import Words, marked
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

    def __init__(self, ask: Ask, place: str, user: str | None, languages: Languages, csrf: str) -> None:
        """Prepare the pages.

        Args:
            ask: asks the node.
            place: the node or the file, in words, for the head of the page.
            user: name of the administrator or viewer who asks; None: the operator of the node's own machine.
            languages: render.
            csrf: the token of the session, by which a change shows that a page of this program has asked for it.
        """
        self._ask = ask
        self.place = place
        self._user = user
        self.may_change = user is None or User(user).role is Role.ADMIN
        """Whether the pages offer changes."""
        self._languages = languages
        self._csrf = csrf
        self._events: dict[str, bytes] = {}  # the newest server-sent event in each language in use
        self._watchers: Counter[str] = Counter()  # open pages, by language
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
            web.get(f"{prefix}/static/{{name}}", get_static),
        ]

    def _for_administrators(self, handler: _Handler) -> _Handler:
        """Return a handler that asks no viewer for a change. The farm's servers refuse a viewer's change anyway."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if self.may_change:
                return await handler(request)
            pages = self._languages.of(request)
            text = pages.words.translated("A viewer changes nothing. Open the console with an administrator's file.")
            title, back = pages.words.translated("Not for viewers"), pages.words.translated("Back")
            return pages.message(title, text, back=back, status=403)

        return handle

    def stop(self) -> None:
        """End the looks at the farm."""
        if self._looking is not None:
            self._looking.cancel()

    # The farm ---------------------------------------------------------------------------------------------------------

    async def _get_farm(self, request: web.Request) -> web.Response:
        pages = self._languages.of(request)
        try:
            page = overview(await self.look(), pages.words, may_change=self.may_change)
        except CommandError as error:
            return _no_answer(pages, error, back=pages.words.translated("Try again"))
        return pages.html("overview.html", page=page, place=pages.words.of_node(self.place))

    async def _get_server(self, request: web.Request) -> web.Response:
        pages, text = self._languages.of(request), request.query.get("id", "")
        if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_ID)):
            why = pages.words.translated("%(text)s is no id of a server.", text=repr(text[:80]))
            return _refused(pages, pages.words.translated("No such server"), why, 400)
        try:
            answer = await self._ask("GET", f"/v1/record?server={text}")
        except CommandError as error:
            return _no_answer(pages, error)
        return pages.html(
            "server.html",
            server=text,
            charts=charts(answer["columns"], answer["samples"], pages.words),
            record=record_rows(answer["record"] or {}),
            width=WIDTH,
            height=HEIGHT,
        )

    async def _get_live(self, request: web.Request) -> web.StreamResponse:
        language = self._languages.of(request).words.language
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Content-Language": language})
        await response.prepare(request)
        self._watchers[language] += 1
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._keep_looking(), name="looking at the farm")
            last = b""
            while True:
                async with self._looked:
                    await self._looked.wait()
                event = self._events.get(language, last)
                # A comment tells whether the browser still listens.
                await response.write(event if event != last else b":\n\n")
                last = event
        except ConnectionError:
            return response
        finally:
            self._watchers[language] -= 1

    async def _keep_looking(self) -> None:
        """Look at the farm, and make one event in each language for all open pages, until no page is open."""
        loop = asyncio.get_running_loop()
        while languages := +self._watchers:
            began = loop.time()
            answers: Answers | Exception
            try:
                answers = await self.look()
            except Exception as error:  # noqa: BLE001 -- an open page must not show an old state without a word
                answers = error
            self._events = {each: self._event(self._languages.in_language(each), answers) for each in languages}
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(min(max(LOOK_SECONDS, _REST * (loop.time() - began)), _LONGEST_PAUSE))

    def _event(self, pages: Pages, answers: Answers | Exception) -> bytes:
        """Return the event that shows a look at the farm. `answers`: the reason when the look has failed."""
        if isinstance(answers, Answers):
            try:
                page = overview(answers, pages.words, may_change=self.may_change)
                return _event("message", pages.render("farm.html", page=page))
            except Exception as error:  # noqa: BLE001 -- as in `_keep_looking`
                answers = error
        if isinstance(answers, CommandError):
            return _event("trouble", pages.words.of_node(str(answers)))
        why = f"{type(answers).__name__}: {answers}"
        return _event("trouble", pages.words.translated("a defect of this program: %(why)s", why=why))

    async def _get_file(self, request: web.Request) -> web.Response:
        try:
            farm, server = await self._describe()
        except CommandError as error:
            return _no_answer(self._languages.of(request), error)
        text = farm.encode(server, datetime.now(UTC))
        headers = {"Content-Disposition": 'attachment; filename="farm.toml"'}
        return web.Response(text=text, content_type="application/toml", headers=headers)

    async def _describe(self) -> tuple[FarmFile, int]:
        """Return the farm as the node describes it, and the node's id. Raises `CommandError`."""
        administration, status = [await self._ask("GET", path) for path in ("/v1/administration", "/v1/status")]
        return described(administration, status)

    async def look(self) -> Answers:
        """Ask the node for all that the farm's page shows. Raises `CommandError`."""
        paths = ("/v1/status", "/v1/explain", "/v1/administration", "/v1/events")
        status, explanation, administration, events = [await self._ask("GET", path) for path in paths]
        return Answers(status, explanation, administration, events["events"])

    # Changes ----------------------------------------------------------------------------------------------------------

    async def _get_confirm(self, request: web.Request) -> web.Response:
        pages = self._languages.of(request)
        name, subject = request.query.get("action", ""), request.query.get("subject", "")[:200]
        try:
            kind = kind_of(name, pages.words)
            entry_of(name, "farm", "somebody", 1, subject, "", pages.words)
        except UnknownActionError as error:
            return _refused(pages, pages.words.translated("No such change"), str(error), 400)
        return pages.html(
            "confirm.html",
            question=pages.words.translated(kind.question, subject=with_short_addresses(subject)),
            outcome=pages.words.translated(kind.outcome, subject=with_short_addresses(subject)),
            action=name,
            subject=subject,
            takes_reason=kind.entry is not None,
            max_reason=MAX_REASON,
            csrf=self._csrf,
        )

    def _refusal(self, pages: Pages, form: Mapping[str, object]) -> web.Response | None:
        """Return the answer to a change for which no page of this session has asked; None: a page has."""
        if compare_digest(comparable(str(form.get("csrf", ""))), comparable(self._csrf)):
            return None
        text = pages.words.translated("The question was not asked by this page. Go back, and choose the change again.")
        return _refused(pages, pages.words.translated("Not changed"), text, 403)

    async def _post_change(self, request: web.Request) -> web.Response:
        pages = self._languages.of(request)
        form = {name: str(value) for name, value in (await request.post()).items()}
        if (refusal := self._refusal(pages, form)) is not None:
            return refusal
        try:
            await self._change(form, pages.words)
        except UnknownActionError as error:
            return _refused(pages, pages.words.translated("No such change"), str(error), 400)
        except CommandError as error:
            title = marked("The outcome is unknown") if error.outcome == "unknown" else marked("Not changed")
            return _refused(pages, pages.words.translated(title), pages.words.of_node(str(error)), 502)
        return web.Response(status=303, headers={"Location": "./"})

    async def _change(self, form: Mapping[str, str], words: Words) -> None:
        status = await self._ask("GET", "/v1/status")
        user = self._user or f"server-{status['id']}"
        name, subject, reason = form.get("action", ""), form.get("subject", ""), form.get("reason", "")[:MAX_REASON]
        entry = entry_of(name, status["cluster"], user, now_ms(), subject, reason, words)
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

    async def _get_import(self, request: web.Request) -> web.Response:
        pages = self._languages.of(request)
        return self._import_html(pages, ImportPage(marked("Import a configuration"), "", (), chooses=True))

    async def _post_import(self, request: web.Request) -> web.Response:
        pages = self._languages.of(request)
        translated, refused = pages.words.translated, pages.words.translated("Not imported")
        too_large = translated(
            "The file has more than %(number)s KiB. Choose a file that the page has given.", number=MAX_FILE_BYTES >> 10
        )
        try:
            form = await request.post()
        except web.HTTPRequestEntityTooLarge:
            return _refused(pages, refused, too_large, 413)
        if (refusal := self._refusal(pages, form)) is not None:
            return refusal
        file = form.get("file")
        if isinstance(file, web.FileField):
            data = file.file.read(MAX_FILE_BYTES + 1)
        else:
            data = comparable(str(form.get("text", ""))).replace(b"\r\n", b"\n")  # a browser changes the ends of lines
        if len(data) > MAX_FILE_BYTES:
            return _refused(pages, refused, too_large, 413)
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
            why = translated("The file is no text in UTF-8. Choose a file that the page has given.")
            return _refused(pages, refused, why, 400)
        except CommandError as error:
            title = translated("The outcome is unknown") if error.outcome == "unknown" else refused
            return _refused(pages, title, pages.words.of_node(str(error)), 400)
        return self._import_html(pages, page)

    def _import_html(self, pages: Pages, page: ImportPage) -> web.Response:
        shown = page.translated(pages.words)._asdict()
        return pages.html("import.html", **shown, csrf=self._csrf, max_reason=MAX_REASON)


def _refused(pages: Pages, title: str, why: str, status: int) -> web.Response:
    return pages.message(title, why, back=pages.words.translated("Back"), status=status)


def _no_answer(pages: Pages, error: CommandError, back: str = "") -> web.Response:
    title, why = pages.words.translated("No answer"), pages.words.of_node(str(error))
    return pages.message(title, why, back=back or pages.words.translated("Back"), status=503)


def _event(name: str, text: str) -> bytes:
    """Return a server-sent event (HTML Living Standard 9.2); "message" is the name that scripts hear by default."""
    return f"event: {name}\ndata: {json.dumps(text)}\n\n".encode()
