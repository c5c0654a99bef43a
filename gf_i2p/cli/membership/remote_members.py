"""`gf-i2p members` with an administrator's file, from any machine, by the servers' own protocol.

The protocol does not tell why a leader refuses, how far a joining server is, or whether the leader has given a joining
server up: only a node's local socket tells that. Each server sends the newest Configuration in its own log, even one
that is not committed. A change counts as done when a majority of the servers in the new Configuration send that
Configuration.
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
from gf_i2p.cli.administration.administer import administrators_file
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.terminal import SILENT_SECONDS, printable, say_if_slow
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.raft.configurations import majority
from gf_i2p.transport.client.farm_client import FarmClient, FoundFarm
from gf_i2p.transport.client.server_queries import Survey
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import EndpointError, LocalProtocolError, NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.log_values import ClusterServer, Configuration, encode_server_id
from gf_i2p.wire.messages import MessageType, Request, Response

CHANGE_SECONDS: Final = 600.0
"""Most seconds that the command waits for a change: a server that joins must first get the whole log."""
_SECONDS: Final = 30.0
_I2P_SECONDS: Final = 120.0
_FIND_SECONDS: Final = 5.0
"""Seconds for finding a leader: an election takes a second or two, and without a majority no election ends."""
_ASK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.5
_I2P_POLL_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 10.0
_I2P_AGAIN_SECONDS: Final = 60.0
"""Seconds until the request for a joining server is repeated, to learn whether the leader still works on the server."""
_LEAVING_SECONDS: Final = 30.0
_I2P_LEAVING_SECONDS: Final = 120.0
"""Seconds within which some log must show a removal. The leader's log does within the least election time-out."""


def run(action: str, options: argparse.Namespace) -> Answer:
    """Run `members list`, `add`, `remove` or `stepdown`. Raises `CommandError`."""
    file = administrators_file(options.directory)
    if action == "stepdown":
        raise CommandError(
            "the farm's protocol has no message that makes a leader step down. Run this on the leader's machine "
            f"(gf-i2p members list {options.directory} names the leader): gf-i2p members stepdown DIR",
            code=Exit.USAGE,
        )
    return asyncio.run(_run(action, file, options))


async def _run(action: str, file: ClientFile, options: argparse.Namespace) -> Answer:
    async with file.open() as client:
        remote = _Remote(
            client, options.directory, through_i2p=file.i2p is not None, ca=file.ca is not None, quiet=options.json
        )
        match action:
            case "list":
                view = await remote.look()
                return _show(view, remote.advice(view))
            case "add":
                return _change_answer(await remote.add(options))
            case _:
                return _change_answer(await remote.remove(options))


@dataclass(frozen=True, slots=True)
class _View:
    """The farm as seen from this machine."""

    farm: FoundFarm
    newest: Configuration
    survey: Survey

    @property
    def not_askable(self) -> set[int]:
        """The farm's servers that cannot be dialled, or cannot be verified, with the administrator's file."""
        return {server.id for server in self.newest.servers} & _not_askable(self.survey)


@dataclass(frozen=True, slots=True)
class _Change:
    """The result of a change of the servers, as far as the protocol shows the result."""

    server: int
    present: bool
    """Whether that server belongs to the farm now."""
    newest: Configuration
    sure: bool
    """Whether a majority was seen with the change."""


class _Remote:
    """One farm, reached over the network."""

    def __init__(self, client: FarmClient, file: Path, *, through_i2p: bool, ca: bool, quiet: bool) -> None:
        """Take a farm's client and the path of the administrator's file.

        `through_i2p`: servers may be inside I2P, so each question gets more time. `ca`: whether the file names a CA.
        """
        self._client = client
        self._file = file
        self._ca = ca
        self._seconds = _I2P_SECONDS if through_i2p else _SECONDS
        self._find_seconds = _I2P_SECONDS if through_i2p else _FIND_SECONDS
        self._ask_seconds = _I2P_SECONDS if through_i2p else _ASK_SECONDS
        self._poll_seconds = _I2P_POLL_SECONDS if through_i2p else _POLL_SECONDS
        self._again_seconds = _I2P_AGAIN_SECONDS if through_i2p else _AGAIN_SECONDS
        self._leaving_seconds = _I2P_LEAVING_SECONDS if through_i2p else _LEAVING_SECONDS
        self._quiet = quiet

    async def look(self) -> _View:
        """Find the leader, and ask all servers of the farm. Raises `CommandError` when no server answers."""
        looking = f"looking for the servers, {self._find_seconds:g} s at most"
        return await say_if_slow(self._find(), lambda: self._say(looking))

    async def _find(self) -> _View:
        """Look for the leader and ask all servers, side by side.

        The search for the leader ends early when too few servers answer for a majority.
        """
        finding = asyncio.ensure_future(self._client.find(timeout=self._find_seconds))
        try:
            survey = await self._client.survey(timeout=self._ask_seconds)
            if not survey.configurations:
                why = "; ".join(printable(trouble) for trouble in survey.troubles.values())
                raise CommandError(why or "no server tells which servers belong to the farm")
            newest = _newest(survey)
            shortage = _shortage(newest, survey)
            if shortage is None:
                return _View(await finding, newest, survey)
            return _View(FoundFarm(None, shortage, newest.log_index, ()), newest, survey)
        finally:
            finding.cancel()
            await asyncio.wait([finding])

    async def add(self, options: argparse.Namespace) -> _Change:
        """Have the leader take a server in."""
        server_id, endpoint = options.server
        if endpoint is None:
            raise CommandError("give the server's own endpoint, tcp://HOST:PORT", code=Exit.USAGE)
        try:
            value = ClusterServer(server_id, str(endpoint)).encode()
        except LocalProtocolError as error:
            raise CommandError(str(error), code=Exit.USAGE) from error
        request = _request(MessageType.ADD_SERVER_REQUEST, value)
        view = await self.look()
        _check_leader(view)
        return await self._watch(request, await self._begin(request, view), server_id, present=True)

    async def remove(self, options: argparse.Namespace) -> _Change:
        """Have the leader remove a server."""
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
        """Raise `CommandError` when the server may be dead, or when too few of the other servers may be alive."""
        answering, others = view.survey.configurations.keys(), ids - {server_id}
        if server_id in view.not_askable:
            raise CommandError(
                f"this machine cannot see whether server {server_id} runs. {self.advice(view, [server_id])} Or add "
                "--force: a dead server is then removed without notice",
                code=Exit.DEGRADED,
            )
        if server_id not in answering:
            why = view.survey.troubles.get(server_id, "no answer").rstrip(".")
            raise CommandError(
                f"server {server_id} cannot be reached from here ({printable(why)}). If it is dead for good, add "
                "--force: the server is removed without notice, and can do no harm when it comes back. The server "
                "may be taken in again (members add) with its own directory; a new directory, or an older copy, "
                "needs a new id"
            )
        alive, unknown, needed = len(others & answering), others & view.not_askable, majority(len(others))
        if alive < needed <= alive + len(unknown):
            raise CommandError(
                f"this machine cannot see whether enough of the other servers run to go on without server {server_id}. "
                f"{self.advice(view, unknown)} Or add --force if you know that enough of them run",
                code=Exit.DEGRADED,
            )
        if alive < needed:
            raise CommandError(
                f"only {alive} of the {len(others)} other servers can be reached from here: without server "
                f"{server_id} perhaps nothing could be committed. Start the others first, or add --force to remove "
                "the server nevertheless"
            )

    def advice(self, view: _View, among: Iterable[int] | None = None) -> str:
        """Say what the file lacks for asking all servers, or the servers in `among`; "" when the file lacks nothing."""
        missing = view.not_askable if among is None else view.not_askable & set(among)
        endpoints = {server.id: server.endpoint for server in view.newest.servers}
        unknown = [server for server in sorted(missing) if not self._ca and _is_outside(endpoints[server])]
        troubles = dict.fromkeys(printable(view.survey.undiallable[each]) for each in sorted(missing - set(unknown)))
        if not unknown:
            return " ".join(troubles)
        servers = f"server{'s' if len(unknown) > 1 else ''} {', '.join(map(str, unknown))}"
        table = "a [[servers]] table for each" if len(unknown) > 1 else "a [[servers]] table"
        remedy = (
            f"{self._file} has no certificate fingerprint for {servers}: add {table}, copied from any server's "
            "gf-i2p.toml, or set ca to the file of a CA that has signed the servers' certificates."
        )
        return " ".join([remedy, *troubles])

    async def _begin(self, request: Request, view: _View) -> Response:
        """Ask the leader to begin the change. The wait is shorter if `look` has found no leader that answers.

        Raises `CommandError` when the leader refuses, when no leader takes the request, or when the outcome is unknown.
        """
        seconds = self._seconds if view.farm.trouble is None else self._find_seconds
        try:
            response = await self._client.change_servers(request, timeout=seconds)
        except NotCommittedError as error:
            raise CommandError(f"nothing was changed: {error}", code=Exit.DEGRADED) from error
        except OutcomeUnknownError as error:
            raise CommandError(str(error), outcome="unknown") from error
        if not response.accepted:
            raise CommandError(
                f"server {response.source}, the leader, refuses: another change is under way, or the farm has that id "
                "or endpoint already, or has no such server, or the leader's files do not know the server (`gf-i2p "
                "members invite` and `accept` were not done there). For the reason, see the leader's log, or run on "
                "the leader's machine `gf-i2p members list DIR`; or try again in a moment"
            )
        return response

    async def _watch(self, request: Request, answer: Response, server_id: int, *, present: bool) -> _Change:
        """Wait until a majority of the servers has the change.

        When the servers that can be asked are fewer than a majority, the change in one log is enough. Raises
        `CommandError` when no leader works on the change any more. `answer`: the answer of the leader that began the
        change.
        """
        start = time.monotonic()
        end = start + CHANGE_SECONDS
        say_at = start + SILENT_SECONDS
        again_at = start + (self._again_seconds if present else self._leaving_seconds)
        while (now := time.monotonic()) < end:
            survey = await self._client.survey(timeout=self._ask_seconds)
            newest = _newest(survey) if survey.configurations else None
            members = set() if newest is None else {server.id for server in newest.servers}
            if newest is not None and (server_id in members) == present:
                holders = {
                    server for server, each in survey.configurations.items() if each.log_index >= newest.log_index
                } & members
                if len(holders) >= majority(len(members)):
                    return _Change(server_id, present, newest, sure=True)
                if len(members - _not_askable(survey)) < majority(len(members)):
                    return _Change(server_id, present, newest, sure=False)
            elif newest is not None and now >= again_at:
                if not present:
                    raise self._not_removed(answer, server_id)
                answer = await self._ask_again(request, answer, server_id)
                again_at = time.monotonic() + self._again_seconds
            if now >= say_at:
                self._say(
                    "the leader works on the change; waiting until it is done" + (", or given up" if present else "")
                )
                say_at = end
            await asyncio.sleep(self._poll_seconds)
        raise CommandError(
            f"the change was not seen within {CHANGE_SECONDS:.0f} s, and may still come. See gf-i2p members list "
            f"{self._file}, and the leader's log",
            outcome="unknown",
        )

    async def _ask_again(self, request: Request, answer: Response, server_id: int) -> Response:
        """Repeat the request for a joining server, to learn whether a leader still works on the server.

        A leader that works on the server refuses the repeated request. A leader that accepts the request begins anew.
        Returns the answer of the leader that works on the server now. Raises `CommandError` when there is no leader,
        and when the leader had given the server up.
        """
        try:
            response = await self._client.change_servers(request, timeout=self._seconds)
        except NotCommittedError as error:
            raise CommandError(
                f"server {answer.source} had begun the change, and no leader is found any more: {error} See gf-i2p "
                f"members list {self._file} when a server leads again",
                code=Exit.DEGRADED,
                outcome="unknown",
            ) from error
        except OutcomeUnknownError:
            return answer
        if not response.accepted:
            return answer
        if (response.source, response.term) != (answer.source, answer.term):
            self._say(f"server {response.source} leads now, and has begun anew")
            return response
        survey = await self._client.survey(timeout=self._ask_seconds)
        configuration = survey.configurations.get(response.source)
        if configuration is None or server_id in {server.id for server in configuration.servers}:
            return response
        raise CommandError(
            f"server {response.source}, the leader, has given server {server_id} up. The leader's log says why, and "
            f'on that machine "change_refused" in gf-i2p status DIR --json: ask the operator of server '
            f"{response.source}. After this new request the leader tries once more. If server {server_id} runs, see "
            f"in a moment whether gf-i2p members list {self._file} shows server {server_id}",
            outcome="unknown",
        )

    def _not_removed(self, answer: Response, server_id: int) -> CommandError:
        return CommandError(
            f"server {answer.source} had begun the removal, and {self._leaving_seconds:g} s later every log that can "
            f"be seen from here still has server {server_id}: the leader has lost its leadership, or is cut off. See "
            f"gf-i2p members list {self._file}, and repeat the command",
            outcome="unknown",
        )

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"gf-i2p: {text}", file=sys.stderr)


def _request(kind: MessageType, value: bytes) -> Request:
    return Request(kind, 0, 0, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))


def _not_askable(survey: Survey) -> set[int]:
    """Return the servers that cannot be dialled, or cannot be verified, with the administrator's file.

    A server that has answered at another endpoint, which the file names, is left out.
    """
    return survey.undiallable.keys() - survey.configurations.keys()


def _is_outside(endpoint: str) -> bool:
    try:
        return not Endpoint.parse(endpoint).is_i2p
    except EndpointError:
        return False


def _shortage(newest: Configuration, survey: Survey) -> str | None:
    """Return a sentence about too few servers for a majority; None when the servers may be a majority.

    The servers that answer count. Servers that this file cannot ask may run, so these servers count, too.
    """
    members = {server.id for server in newest.servers}
    answering, needed = members & survey.configurations.keys(), majority(len(members))
    if len(answering | (members & _not_askable(survey))) >= needed:
        return None
    silent = ", ".join(str(server) for server in sorted(members - answering))
    return (
        f"only {len(answering)} of the {len(members)} servers can be reached from here (not {silent}), and a majority "
        f"is {needed}: start the others. When a majority is gone for good, make a farm of one server that is left, on "
        "that server's machine (gf-i2p recover DIR)"
    )


def _check_leader(view: _View) -> None:
    if view.farm.leader is None:
        why = printable(view.farm.trouble or "no server knows a leader").rstrip(".")
        raise CommandError(f"nothing was changed, because no leader is found: {why}", code=Exit.DEGRADED)


def _newest(survey: Survey) -> Configuration:
    return max(survey.configurations.values(), key=lambda each: each.log_index)


def _show(view: _View, advice: str) -> Answer:
    leader = view.farm.leader
    servers = [
        {
            "id": server.id,
            "endpoint": server.endpoint,
            "self": False,
            "leader": server.id == leader,
            "connected": server.id in view.survey.configurations,
            "lag": None,
            "error": view.survey.troubles.get(server.id),
        }
        for server in view.newest.servers
    ]
    lines = []
    for server in servers:
        words = ["leader"] if server["leader"] else []
        if server["id"] in view.not_askable:
            words.append("cannot be asked with this file")
        elif not server["connected"]:
            words.append(printable(str(server["error"] or "does not answer from here")))
        lines.append(f"{server['id']:>5}  {printable(str(server['endpoint']))}  {', '.join(words)}".rstrip())
    if leader is None:
        lines.append(f"no leader is found: {printable(view.farm.trouble or 'no server knows a leader')}")
    if advice:
        lines.append(advice)
    return Answer(
        {"leader": leader, "configuration": view.newest.log_index, "servers": servers},
        "\n".join(lines),
        Exit.DEGRADED if leader is None else Exit.OK,
        is_report=True,
    )


def _change_answer(change: _Change) -> Answer:
    ids = [server.id for server in change.newest.servers]
    text = f"server {change.server} {'belongs to the farm' if change.present else 'is out of the farm'} now: {ids}"
    if not change.sure:
        text += (
            "\nThe newest log that can be seen says so. Too few servers can be asked with this file to see whether a "
            "majority has the change: run gf-i2p members list DIR on a server's machine."
        )
    data = {"servers": ids, "committed": change.sure or None}
    return Answer(data, text, Exit.OK if change.sure else Exit.DEGRADED)
