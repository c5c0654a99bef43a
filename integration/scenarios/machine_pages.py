"""Runs a documentation page on several machines: one shell on each, as a reader has one window for each.

A page with `<!-- run: machines -->` is followed on the machines 1, 2 and 3, and on the reader's own computer, `desk`. A
comment `<!-- on: 2 -->` says where the commands behind it run. The output has the seconds of each command. The place
`newcomer` is among the routers of the private network, as in `test_pages.py`: for hidden commands of a visitor who has
never looked for the service before.

From the time when the page has kept an address as SERVICE, a visitor at the desk asks for the page of that address
every second. So the output tells how long the service was away for a client that has looked the address up before.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp

from integration.pages.page import Page, PageError
from integration.pages.place import Place
from integration.pages.session import Session
from integration.testnet.machines import LOOPBACK, Machine
from integration.testnet.router import PROXY_PORT

PLACE: Final = "machines"
NAMES: Final = {"1": "machine-1", "2": "machine-2", "3": "machine-3", "desk": "desk"}
"""The machines by what the pages call them in `on`."""
SERVICE: Final = "SERVICE"
PATIENCE: Final = 300.0
"""Seconds for a command to print what the page shows: new tunnels may be needed."""
_ASK_SECONDS: Final = 1.0
_REQUEST_SECONDS: Final = 30.0
_GAP_SECONDS: Final = 5.0
"""A longer time between two answers is told."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that brought the service's page. Times are seconds from the page's beginning."""

    began: float
    ended: float
    text: str


class MachinePage:
    """A page that is being followed."""

    def __init__(self, page: Page, sessions: dict[str, Session], kept: dict[str, str], desk: Machine) -> None:
        self._page = page
        self._sessions = sessions
        self._kept = kept
        self._desk = desk
        self._began = time.monotonic()
        self._visits: list[Visit] = []

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> None:
        """Run all commands. Raises `WrongPageError`, and `PageError` for a command without a known place."""
        for command in self._page.commands:
            if not command.on or not set(command.on) <= self._sessions.keys():
                raise PageError(f"{self._page.path}:{command.line}: this command is on no machine: {command.on}")
            for place in command.on:
                began = self._now
                self._sessions[place].step(self._page, command)
                took = self._now - began
                print(f"{began:6.1f} s + {took:5.1f} s  {place}: {command.ends or '$'} {command.text}", flush=True)

    async def visit(self) -> None:
        """Ask for the service's page every second, without waiting for earlier requests. Runs until cancelled."""
        timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
        async with self._desk.web(timeout=timeout) as web, asyncio.TaskGroup() as asking:
            while True:
                if service := self._kept.get(SERVICE):
                    asking.create_task(self._ask(web, f"http://{service}.b32.i2p/"))
                await asyncio.sleep(_ASK_SECONDS)

    async def _ask(self, web: aiohttp.ClientSession, url: str) -> None:
        began = self._now
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with web.get(url, proxy=f"http://{LOOPBACK}:{PROXY_PORT}") as answer:
                text = (await answer.text()).strip()
                if answer.status == 200:
                    self._visits.append(Visit(began, self._now, text))

    def tell_gaps(self) -> None:
        """Print when the visitor at the desk saw pages, and how long none."""
        if not self._visits:
            print("the visitor at the desk saw no page")
            return
        before, *others = sorted(self._visits, key=lambda visit: visit.ended)
        print(f"{before.ended:6.1f} s  the visitor's first page: {before.text}")
        for visit in others:
            if visit.ended - before.ended > _GAP_SECONDS or visit.text != before.text:
                print(
                    f"{before.ended:6.1f} s  the visitor sees: {before.text}; "
                    f"{visit.ended - before.ended:.1f} s later: {visit.text}"
                )
            before = visit
        print(f"{before.ended:6.1f} s  the visitor's last page: {before.text}")


@asynccontextmanager
async def followed(page: Page, machines: dict[str, Machine], environment: dict[str, str]) -> AsyncIterator[MachinePage]:
    """Open a shell on each machine, and let the visitor ask; all that runs there at the end is stopped.

    `machines`: by the page's names. `environment`: variables for all of them.
    """
    kept: dict[str, str] = {}
    with ExitStack() as stack:
        sessions = {
            place: stack.enter_context(
                Session(
                    machine.home,
                    {**environment, **machine.environment},
                    patience=PATIENCE,
                    place=Place(tuple(machine.where)),
                    kept=kept,
                )
            )
            for place, machine in machines.items()
        }
        sessions["newcomer"] = stack.enter_context(
            Session(
                machines["desk"].home, {**environment, **machines["desk"].environment}, patience=PATIENCE, kept=kept
            )
        )
        following = MachinePage(page, sessions, kept, machines["desk"])
        visiting = asyncio.create_task(following.visit())
        try:
            yield following
        finally:
            visiting.cancel()
            following.tell_gaps()
            with contextlib.suppress(asyncio.CancelledError):
                await visiting  # a fault that has ended the visits early is no silence
