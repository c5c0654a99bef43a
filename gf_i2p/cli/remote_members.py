"""`gf-i2p members` with an administrator's file: from any machine, by the servers' own protocol.

What a node's local socket tells is not known here: reasons why a leader refuses, and how far a server that joins has
come. Who belongs to the farm is told by each server as its own log has it, committed or not; a change counts as done
when a majority of the servers that it leaves tell it.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.errors import CommandError, Exit
from gf_i2p.cli.logs import configure
from gf_i2p.cli.show import printable
from gf_i2p.node.clientfile import ClientFile
from gf_i2p.node.roles import Role, User
from gf_i2p.raft.quorum import majority
from gf_i2p.transport.client import FarmClient, Found
from gf_i2p.transport.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.transport.survey import Survey
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import LocalProtocolError
from gf_i2p.wire.messages import MessageType, Request
from gf_i2p.wire.values import ClusterServer, Configuration, encode_server_id

Print = Callable[[Any], None]

CHANGE_SECONDS: Final = 600.0
"""How long a change is watched: a server that joins gets the whole log."""
_SECONDS: Final = 30.0
_I2P_SECONDS: Final = 120.0
_ASK_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.5
_I2P_POLL_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 2.0


def run(options: argparse.Namespace, print_json: Print) -> Exit:
    """Do what `members list`, `add`, `remove` and `stepdown` do. Raises `CommandError` and `ConfigError`."""
    configure("error", "text")  # what goes wrong stands in the answer; the logs would say it twice
    file = ClientFile.load(options.directory)
    _check_role(file, options.directory)
    if options.action == "stepdown":
        raise CommandError(
            "the protocol of the farm has no message by which a leader is told to step down: run it on the leader's "
            f"machine (gf-i2p members list {options.directory} says which that is): gf-i2p members stepdown DIR",
            code=Exit.USAGE,
        )
    return asyncio.run(_run(file, options, print_json))


def _check_role(file: ClientFile, path: Path) -> None:
    """Say here what every server would: it only ends the connection of who asks for what others may."""
    try:
        role = User(file.user).role
    except ValueError as error:
        raise CommandError(f"{path}: {error}", code=Exit.USAGE) from error
    if role is not Role.ADMIN:
        raise CommandError(
            f"{path} is of {file.user}, a {role}: the servers of a farm are an administrator's business. Take an "
            f"admin-NAME.toml (gf-i2p init --admin NAME), or a node's directory; gf-i2p find {path} shows the servers",
            code=Exit.USAGE,
        )


async def _run(file: ClientFile, options: argparse.Namespace, print_json: Print) -> Exit:
    async with file.open() as client:
        remote = _Remote(client, inside=file.i2p is not None, quiet=options.json)
        match options.action:
            case "list":
                return _show(await remote.look(), print_json if options.json else None)
            case "add":
                return _done(await remote.add(options), options, print_json)
            case _:
                return _done(await remote.remove(options), options, print_json)


@dataclass(frozen=True, slots=True)
class _View:
    """The farm as it was found from here."""

    found: Found
    newest: Configuration
    survey: Survey


@dataclass(frozen=True, slots=True)
class _Change:
    """How a change has ended."""

    server: int
    present: bool
    """Whether that server belongs to the farm now."""
    newest: Configuration
    sure: bool
    """Whether a majority was seen to have it."""


class _Remote:
    """One farm, asked over the network."""

    def __init__(self, client: FarmClient, *, inside: bool, quiet: bool) -> None:
        """`inside`: whether the way there leads through I2P, which takes longer."""
        self._client = client
        self._seconds = _I2P_SECONDS if inside else _SECONDS
        self._ask_seconds = _I2P_SECONDS if inside else _ASK_SECONDS
        self._poll_seconds = _I2P_POLL_SECONDS if inside else _POLL_SECONDS
        self._quiet = quiet

    async def look(self) -> _View:
        """Find the leader, and ask everybody who belongs to the farm. Raises `CommandError` when nobody answers."""
        finding = asyncio.ensure_future(self._find())
        await asyncio.wait([finding], timeout=_SILENT_SECONDS)
        if not finding.done():
            self._say(f"looking for the servers, {self._seconds:g} s at most")
        return await finding

    async def _find(self) -> _View:
        found = await self._client.find(timeout=self._seconds)
        survey = await self._client.survey(timeout=self._ask_seconds)
        if not survey.told:
            raise CommandError(found.trouble or "no server tells who belongs to the farm")
        return _View(found, _newest(survey), survey)

    async def add(self, options: argparse.Namespace) -> _Change:
        """Have a server taken in."""
        server_id, endpoint = options.server
        if endpoint is None:
            raise CommandError("give the endpoint that it has, tcp://HOST:PORT", code=Exit.USAGE)
        try:
            value = ClusterServer(server_id, str(endpoint)).encode()
        except LocalProtocolError as error:
            raise CommandError(str(error), code=Exit.USAGE) from error
        await self._change(MessageType.ADD_SERVER_REQUEST, value)
        return await self._watch(server_id, present=True)

    async def remove(self, options: argparse.Namespace) -> _Change:
        """Have a server removed."""
        view = await self.look()
        ids = {server.id for server in view.newest.servers}
        if options.id not in ids:
            raise CommandError(f"the farm has no server {options.id}: its servers are {sorted(ids)}")
        alive = len((ids & view.survey.told.keys()) - {options.id})
        if not options.force and options.id not in view.survey.told:
            why = view.survey.troubles.get(options.id, "it does not answer").rstrip(".")
            raise CommandError(
                f"server {options.id} cannot be reached from here ({printable(why)}). If it is dead for good, add "
                "--force: it is removed without being told; when it comes back it can do no harm. It may be taken in "
                "again (members add) with its own directory; a new one, or an older copy, needs a new id"
            )
        if not options.force and alive <= (len(ids) - 1) // 2:
            raise CommandError(
                f"only {alive} of the {len(ids) - 1} other servers can be reached from here: without server "
                f"{options.id} perhaps nothing could be committed. Start them first; add --force if you know better"
            )
        await self._change(MessageType.REMOVE_SERVER_REQUEST, encode_server_id(options.id))
        return await self._watch(options.id, present=False)

    async def _change(self, kind: MessageType, value: bytes) -> None:
        """Ask the leader, who says whether it has begun."""
        request = Request(kind, 0, 0, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))
        try:
            response = await self._client.change_servers(request, timeout=self._seconds)
        except NotCommittedError as error:
            raise CommandError(f"nothing was changed: {error}", code=Exit.DEGRADED) from error
        except OutcomeUnknownError as error:
            raise CommandError(str(error), outcome="unknown") from error
        if not response.accepted:
            raise CommandError(
                f"server {response.source}, the leader, refuses: another change is under way, or the farm has that id "
                "or endpoint already, or has no such server, or it is the last one. Its own `gf-i2p members list DIR` "
                "knows more; or try again in a moment"
            )

    async def _watch(self, server_id: int, *, present: bool) -> _Change:
        """Wait until the change is seen on a majority, or on all of those that can be asked from here."""
        end = time.monotonic() + CHANGE_SECONDS
        say_at = time.monotonic() + _SILENT_SECONDS
        while time.monotonic() < end:
            survey = await self._client.survey(timeout=self._ask_seconds)
            newest = _newest(survey) if survey.told else None
            members = set() if newest is None else {server.id for server in newest.servers}
            if newest is not None and (server_id in members) == present:
                have = {server for server, each in survey.told.items() if each.log_index >= newest.log_index} & members
                if len(have) >= majority(len(members)):
                    return _Change(server_id, present, newest, sure=True)
                if len(members - survey.strange.keys()) < majority(len(members)):
                    return _Change(server_id, present, newest, sure=False)
            if time.monotonic() >= say_at:
                self._say(f"the leader is at it; waiting, {end - time.monotonic():.0f} s at most")
                say_at = end
            await asyncio.sleep(self._poll_seconds)
        raise CommandError(
            f"not seen within {CHANGE_SECONDS:.0f} s; it may still come, or the leader has given the server up: "
            "its log says why",
            outcome="unknown",
        )

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"gf-i2p: {text}", file=sys.stderr)


def _newest(survey: Survey) -> Configuration:
    return max(survey.told.values(), key=lambda each: each.log_index)


def _show(view: _View, print_json: Print | None) -> Exit:
    leader = view.found.leader
    servers = [
        {
            "id": server.id,
            "endpoint": server.endpoint,
            "self": False,
            "leader": server.id == leader,
            "connected": server.id in view.survey.told,
            "lag": None,
            "error": view.survey.troubles.get(server.id),
        }
        for server in view.newest.servers
    ]
    code = Exit.DEGRADED if leader is None else Exit.OK
    if print_json is not None:
        print_json({"ok": True, "leader": leader, "configuration": view.newest.log_index, "servers": servers})
        return code
    for server in servers:
        words = ["leader"] if server["leader"] else []
        words += [] if server["connected"] else [printable(str(server["error"] or "does not answer from here"))]
        print(f"{server['id']:>5}  {printable(str(server['endpoint']))}  {', '.join(words)}".rstrip())
    if leader is None:
        print(f"no leader is found: {printable(view.found.trouble or 'nobody knows one')}")
    return code


def _done(change: _Change, options: argparse.Namespace, print_json: Print) -> Exit:
    ids = [server.id for server in change.newest.servers]
    if options.json:
        print_json({"ok": True, "servers": ids, "committed": change.sure or None})
    else:
        print(f"server {change.server} {'belongs to the farm' if change.present else 'is out of the farm'} now: {ids}")
        if not change.sure:
            print(
                "That is what the leader has in its log. Whether a majority has it cannot be seen from here, since "
                "this file does not say how to know all servers: gf-i2p members list DIR on a server's machine."
            )
    return Exit.OK if change.sure else Exit.DEGRADED
