"""`gf-i2p members` with an administrator's file: from any machine, by the servers' own protocol.

What a node's local socket tells is not known here: reasons why a leader refuses, how far a server that joins has come,
and whether it was given up. Who belongs to the farm is told by each server as its own log has it, committed or not; a
change counts as done when a majority of the servers that it leaves tell it.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.admin.local_socket import LAST_SERVER
from gf_i2p.cli.shared.answer_text import printable
from gf_i2p.cli.shared.argument_types import load_client_file
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.terminal import print_json
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.raft.configurations import majority
from gf_i2p.transport.client.farm_client import FarmClient, Found
from gf_i2p.transport.client.server_queries import Survey
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import EndpointError, LocalProtocolError, NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.log_values import ClusterServer, Configuration, encode_server_id
from gf_i2p.wire.messages import MessageType, Request, Response

CHANGE_SECONDS: Final = 600.0
"""How long a change is watched: a server that joins gets the whole log."""
_SECONDS: Final = 30.0
_I2P_SECONDS: Final = 120.0
_FIND_SECONDS: Final = 5.0
"""For a leader to be found: an election takes a second or two, and without a majority none ends."""
_ASK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.5
_I2P_POLL_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 10.0
_I2P_AGAIN_SECONDS: Final = 60.0
"""Between two questions whether the leader is still at a server that joins."""
_LEAVING_SECONDS: Final = 30.0
_I2P_LEAVING_SECONDS: Final = 120.0
"""A removal is in the leader's log within the least election time-out; so long, to be seen there from here."""
_SILENT_SECONDS: Final = 2.0


def run(action: str, options: argparse.Namespace) -> Exit:
    """Do what `members list`, `add`, `remove` and `stepdown` do. Raises `CommandError`."""
    configure("error", "text")  # what goes wrong stands in the answer; the logs would say it twice
    file = load_client_file(options.directory)
    _check_role(file, options.directory)
    if action == "stepdown":
        raise CommandError(
            "the protocol of the farm has no message by which a leader is told to step down: run it on the leader's "
            f"machine (gf-i2p members list {options.directory} says which that is): gf-i2p members stepdown DIR",
            code=Exit.USAGE,
        )
    return asyncio.run(_run(action, file, options))


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


async def _run(action: str, file: ClientFile, options: argparse.Namespace) -> Exit:
    async with file.open() as client:
        remote = _Remote(
            client, options.directory, inside=file.i2p is not None, ca=file.ca is not None, quiet=options.json
        )
        match action:
            case "list":
                view = await remote.look()
                return _show(view, remote.advice(view), as_json=options.json)
            case "add":
                return _done(await remote.add(options), options)
            case _:
                return _done(await remote.remove(options), options)


@dataclass(frozen=True, slots=True)
class _View:
    """The farm as it was found from here."""

    found: Found
    newest: Configuration
    survey: Survey

    @property
    def strange(self) -> set[int]:
        """Servers of which the file does not say how to reach or to know them."""
        return {server.id for server in self.newest.servers} & _strange(self.survey)


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

    def __init__(self, client: FarmClient, file: Path, *, inside: bool, ca: bool, quiet: bool) -> None:
        """`inside`: whether the way there leads through I2P, which takes longer. `ca`: whether the file names one."""
        self._client = client
        self._file = file
        self._ca = ca
        self._seconds = _I2P_SECONDS if inside else _SECONDS
        self._find_seconds = _I2P_SECONDS if inside else _FIND_SECONDS
        self._ask_seconds = _I2P_SECONDS if inside else _ASK_SECONDS
        self._poll_seconds = _I2P_POLL_SECONDS if inside else _POLL_SECONDS
        self._again_seconds = _I2P_AGAIN_SECONDS if inside else _AGAIN_SECONDS
        self._leaving_seconds = _I2P_LEAVING_SECONDS if inside else _LEAVING_SECONDS
        self._quiet = quiet

    async def look(self) -> _View:
        """Find the leader, and ask everybody who belongs to the farm. Raises `CommandError` when nobody answers."""
        finding = asyncio.ensure_future(self._find())
        await asyncio.wait([finding], timeout=_SILENT_SECONDS)
        if not finding.done():
            self._say(f"looking for the servers, {self._find_seconds:g} s at most")
        return await finding

    async def _find(self) -> _View:
        """Ask for the leader and for the servers side by side; a leader is not waited for when there can be none."""
        finding = asyncio.ensure_future(self._client.find(timeout=self._find_seconds))
        try:
            survey = await self._client.survey(timeout=self._ask_seconds)
            if not survey.told:
                why = "; ".join(printable(trouble) for trouble in survey.troubles.values())
                raise CommandError(why or "no server tells who belongs to the farm")
            newest = _newest(survey)
            short = _short_of_majority(newest, survey)
            if short is None:
                return _View(await finding, newest, survey)
            return _View(Found(None, short, newest.log_index, ()), newest, survey)
        finally:
            finding.cancel()
            await asyncio.wait([finding])

    async def add(self, options: argparse.Namespace) -> _Change:
        """Have a server taken in."""
        server_id, endpoint = options.server
        if endpoint is None:
            raise CommandError("give the endpoint that it has, tcp://HOST:PORT", code=Exit.USAGE)
        try:
            value = ClusterServer(server_id, str(endpoint)).encode()
        except LocalProtocolError as error:
            raise CommandError(str(error), code=Exit.USAGE) from error
        request = _request(MessageType.ADD_SERVER_REQUEST, value)
        view = await self.look()
        _check_leader(view)
        return await self._watch(request, await self._begin(request, view), server_id, present=True)

    async def remove(self, options: argparse.Namespace) -> _Change:
        """Have a server removed."""
        view = await self.look()
        ids = {server.id for server in view.newest.servers}
        if options.id not in ids:
            raise CommandError(f"the farm has no server {options.id}: its servers are {sorted(ids)}")
        if len(ids) == 1:
            raise CommandError(LAST_SERVER)
        _check_leader(view)
        if not options.force:
            self._check_removal(view, ids, options.id)
        request = _request(MessageType.REMOVE_SERVER_REQUEST, encode_server_id(options.id))
        return await self._watch(request, await self._begin(request, view), options.id, present=False)

    def _check_removal(self, view: _View, ids: set[int], server_id: int) -> None:
        """Raise `CommandError` when the server is dead, or the farm might not go on without it."""
        told, others = view.survey.told.keys(), ids - {server_id}
        if server_id in view.strange:
            raise CommandError(
                f"whether server {server_id} runs cannot be seen from here. {self.advice(view, [server_id])} Or add "
                "--force: a server that is dead is then removed without being told",
                code=Exit.DEGRADED,
            )
        if server_id not in told:
            why = view.survey.troubles.get(server_id, "it does not answer").rstrip(".")
            raise CommandError(
                f"server {server_id} cannot be reached from here ({printable(why)}). If it is dead for good, add "
                "--force: it is removed without being told; when it comes back it can do no harm. It may be taken in "
                "again (members add) with its own directory; a new one, or an older copy, needs a new id"
            )
        alive, strange, enough = len(others & told), others & view.strange, majority(len(others))
        if alive < enough <= alive + len(strange):
            raise CommandError(
                f"whether enough of the other servers run to go on without server {server_id} cannot be seen from "
                f"here. {self.advice(view, strange)} Or add --force if you know that they run",
                code=Exit.DEGRADED,
            )
        if alive < enough:
            raise CommandError(
                f"only {alive} of the {len(others)} other servers can be reached from here: without server {server_id} "
                "perhaps nothing could be committed. Start them first; add --force if you know better"
            )

    def advice(self, view: _View, among: Iterable[int] | None = None) -> str:
        """Say what to add to the file so that all servers, or those `among` them, can be asked; "" when they can."""
        strange = view.strange if among is None else view.strange & set(among)
        endpoints = {server.id: server.endpoint for server in view.newest.servers}
        unknown = [server for server in sorted(strange) if not self._ca and _is_outside(endpoints[server])]
        others = dict.fromkeys(printable(view.survey.strange[each]) for each in sorted(strange - set(unknown)))
        if not unknown:
            return " ".join(others)
        which = f"server{'s' if len(unknown) > 1 else ''} {', '.join(map(str, unknown))}"
        tables, whom = (
            ("the [[servers]] table of each", "them") if len(unknown) > 1 else ("its [[servers]] table", "it")
        )
        add = (
            f"{self._file} does not say how to know {which}: add {tables} with the fingerprint, "
            f"as in any server's gf-i2p.toml, or ca = the file of a CA that vouches for {whom}."
        )
        return " ".join([add, *others])

    async def _begin(self, request: Request, view: _View) -> Response:
        """Ask the leader, who says whether it has begun. One that was not reached just now is not waited for long."""
        seconds = self._seconds if view.found.trouble is None else self._find_seconds
        try:
            response = await self._client.change_servers(request, timeout=seconds)
        except NotCommittedError as error:
            raise CommandError(f"nothing was changed: {error}", code=Exit.DEGRADED) from error
        except OutcomeUnknownError as error:
            raise CommandError(str(error), outcome="unknown") from error
        if not response.accepted:
            raise CommandError(
                f"server {response.source}, the leader, refuses: another change is under way, or the farm has that id "
                "or endpoint already, or has no such server, or its files do not know the one to add (`gf-i2p members "
                "invite` and `accept` were not done there). Its log knows more, and on its machine `gf-i2p members "
                "list DIR`; or try again in a moment"
            )
        return response

    async def _watch(self, request: Request, begun: Response, server_id: int, *, present: bool) -> _Change:
        """Wait until the change is seen on a majority, or on all of those that can be asked from here.

        `begun`: by whom, and in which term. Ends, too, when nobody is at it any more.
        """
        start = time.monotonic()
        end = start + CHANGE_SECONDS
        say_at = start + _SILENT_SECONDS
        again_at = start + (self._again_seconds if present else self._leaving_seconds)
        while (now := time.monotonic()) < end:
            survey = await self._client.survey(timeout=self._ask_seconds)
            newest = _newest(survey) if survey.told else None
            members = set() if newest is None else {server.id for server in newest.servers}
            if newest is not None and (server_id in members) == present:
                have = {server for server, each in survey.told.items() if each.log_index >= newest.log_index} & members
                if len(have) >= majority(len(members)):
                    return _Change(server_id, present, newest, sure=True)
                if len(members - _strange(survey)) < majority(len(members)):
                    return _Change(server_id, present, newest, sure=False)
            elif newest is not None and now >= again_at:
                if not present:
                    raise self._not_removed(begun, server_id)
                begun = await self._ask_again(request, begun, server_id)
                again_at = time.monotonic() + self._again_seconds
            if now >= say_at:
                self._say("the leader is at it; waiting until it is done" + (", or is given up" if present else ""))
                say_at = end
            await asyncio.sleep(self._poll_seconds)
        raise CommandError(
            f"not seen within {CHANGE_SECONDS:.0f} s; it may still come. See gf-i2p members list {self._file}, and the "
            "leader's log",
            outcome="unknown",
        )

    async def _ask_again(self, request: Request, begun: Response, server_id: int) -> Response:
        """Ask once more for a server that joins: a leader that is at it refuses, and one that accepts was not.

        Return who is at it now. Raises `CommandError` when the leader has given the server up, or nobody leads.
        """
        try:
            response = await self._client.change_servers(request, timeout=self._seconds)
        except NotCommittedError as error:
            raise CommandError(
                f"server {begun.source} had begun it, and no leader is found any more: {error} See gf-i2p members list "
                f"{self._file} when one leads again",
                code=Exit.DEGRADED,
                outcome="unknown",
            ) from error
        except OutcomeUnknownError:
            return begun
        if not response.accepted:
            return begun
        if (response.source, response.term) != (begun.source, begun.term):
            self._say(f"server {response.source} leads now, and has begun anew")
            return response
        survey = await self._client.survey(timeout=self._ask_seconds)
        told = survey.told.get(response.source)
        if told is None or server_id in {server.id for server in told.servers}:
            return response
        raise CommandError(
            f"server {response.source}, the leader, has given server {server_id} up. Why, its own log says, and on its "
            f'machine "change_refused" in gf-i2p status DIR --json: ask who runs server {response.source}. Asked again '
            f"just now, it tries once more: if server {server_id} runs, see in a moment whether it is in "
            f"gf-i2p members list {self._file}",
            outcome="unknown",
        )

    def _not_removed(self, begun: Response, server_id: int) -> CommandError:
        return CommandError(
            f"server {begun.source} had begun it, and {self._leaving_seconds:g} s later no log that can be seen from "
            f"here is without server {server_id}: it has lost its office, or is cut off. See gf-i2p members list "
            f"{self._file}, and ask again",
            outcome="unknown",
        )

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"gf-i2p: {text}", file=sys.stderr)


def _request(kind: MessageType, value: bytes) -> Request:
    return Request(kind, 0, 0, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))


def _strange(survey: Survey) -> set[int]:
    """Without those that told all the same: one that has moved may be where the file says, too."""
    return survey.strange.keys() - survey.told.keys()


def _is_outside(endpoint: str) -> bool:
    try:
        return not Endpoint.parse(endpoint).is_i2p
    except EndpointError:
        return False


def _short_of_majority(newest: Configuration, survey: Survey) -> str | None:
    """Say how many of the servers answer when they cannot be a majority, whatever those are that cannot be asked."""
    members = {server.id for server in newest.servers}
    told, enough = members & survey.told.keys(), majority(len(members))
    if len(told | (members & _strange(survey))) >= enough:
        return None
    silent = ", ".join(str(server) for server in sorted(members - told))
    return (
        f"only {len(told)} of the {len(members)} servers can be reached from here (not {silent}), and a majority is "
        f"{enough}: start the others, or, when a majority is gone for good, make a farm of one that is left, on its "
        "machine (gf-i2p recover DIR)"
    )


def _check_leader(view: _View) -> None:
    if view.found.leader is None:
        why = printable(view.found.trouble or "nobody knows one").rstrip(".")
        raise CommandError(f"nothing was changed, for no leader is found: {why}", code=Exit.DEGRADED)


def _newest(survey: Survey) -> Configuration:
    return max(survey.told.values(), key=lambda each: each.log_index)


def _show(view: _View, advice: str, *, as_json: bool) -> Exit:
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
    if as_json:
        print_json({"ok": True, "leader": leader, "configuration": view.newest.log_index, "servers": servers})
        return code
    for server in servers:
        words = ["leader"] if server["leader"] else []
        if server["id"] in view.strange:
            words.append("not known to this file")
        elif not server["connected"]:
            words.append(printable(str(server["error"] or "does not answer from here")))
        print(f"{server['id']:>5}  {printable(str(server['endpoint']))}  {', '.join(words)}".rstrip())
    if leader is None:
        print(f"no leader is found: {printable(view.found.trouble or 'nobody knows one')}")
    if advice:
        print(advice)
    return code


def _done(change: _Change, options: argparse.Namespace) -> Exit:
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
