"""`gf-i2p leaves`, `publisher` and `farm`: changes by administrators, and the state that follows from them.

With a server's directory as the argument, the change is made in the server's name. With an admin-NAME.toml, the change
is made in the administrator's name, from any machine.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.administration.admin_arguments import Action, add
from gf_i2p.cli.shared.answer_text import MEMBERSHIP_TEXTS, NOT_KNOWN, in_touch, membership_lines, sensed_lines
from gf_i2p.cli.shared.argument_types import load_client_file
from gf_i2p.cli.shared.command import Answer, Subcommand
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.local_client import APPLY_SECONDS, Ask, ask
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.terminal import printable, say_if_slow
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from gf_i2p.node.access.roles import Role, User
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.farm_client import FarmClient
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError

POST_SECONDS: Final = 30.0
_I2P_SECONDS: Final = 120.0
_ASK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1
_SET_POLL_SECONDS: Final = 0.5
"""Seconds between two looks for a set: a user on another machine may ask ten times a second."""
_SET_SECONDS: Final = 60.0
"""Most seconds to wait for the set that an administrator has ordered: 25 s for the router, and time for the log."""
_ENTRY_ACTIONS: Final = {"publish-now": "publishNow"}
"""Names of actions in the log, where they differ from the command's."""


def make_command(action: Action, text: str) -> Subcommand:
    """Make the command that runs an action. `text`: the short help of the command."""
    return Subcommand(text, partial(add, action), run)


def run(options: argparse.Namespace) -> Answer:
    """Run the action that the arguments name. Raises `CommandError`."""
    return _change(options, ask) if options.action.changes else _show(options, ask)


# Changes -------------------------------------------------------------------------------------------------------------


def _change(options: argparse.Namespace, ask: Ask) -> Answer:
    user = administrators_file(options.directory).user if options.directory.is_file() else None
    before = ask(options.directory, "GET", "/v1/administration")
    if before["membership"] == "removed":
        raise CommandError(f"nothing was changed. {MEMBERSHIP_TEXTS['removed']}", code=Exit.DEGRADED)
    if action_leaf := getattr(options, "leaf", None):
        options.leaf = _whole_leaf(action_leaf, before)
    entry = _entry(options, before["cluster"], user or f"server-{before['id']}")
    servers = [each["id"] for each in before["servers"]]
    if entry.action in {"move", "drain"} and servers and entry.server not in servers:
        raise CommandError(f"nothing was changed: {_unknown_server(entry.server, servers)[0]}", code=Exit.USAGE)
    if entry.action == "publishNow":
        _check_publisher(before)
    warnings = _warnings(entry, before)
    for warning in warnings:
        _say(options, f"note: {warning}")
    body = {"values": [entry.encode().decode()]}
    path = f"/v1/entries?timeout={POST_SECONDS}"
    index = ask(options.directory, "POST", path, seconds=POST_SECONDS + 5, body=body)["index"]
    after = wait_until_applied(options.directory, ask, index)
    if after is None:
        raise CommandError(
            f"committed at index {index}; the node of {options.directory} has not applied the entry yet: see "
            f"`gf-i2p farm log {options.directory}` in a moment",
            code=Exit.DEGRADED,
            outcome="unknown",
        )
    if not any(change["index"] == index for change in after["log"]):
        raise CommandError(
            f"committed at index {index}, but nothing changes: the farm has too many entries of this kind already, "
            "or an earlier change made this change impossible. See `gf-i2p farm show` and `leaves list`"
        )
    if entry.action == "publishNow" and before["mode"] == "meta":
        after = _wait_for_set(options, ask, index)
    return Answer(
        {"index": index, "what": entry.what, "warnings": warnings, **_outcome(entry, after)},
        f"committed at index {index}: {entry.what}\n{printable(_effect(entry, after))}",
    )


def _whole_leaf(leaf: bytes | str, answer: Mapping[str, Any]) -> bytes:
    """Return the hash of a leaf that the operator has named, perhaps by the beginning of its address.

    Raises `CommandError` unless one leaf of the farm has such an address.
    """
    if isinstance(leaf, bytes):
        return leaf
    found = [each["address"] for each in answer["leaves"] if each["address"].startswith(leaf)]
    if len(found) != 1:
        which = f"{len(found)} leaves of the farm begin" if found else "no leaf of the farm begins"
        raise CommandError(
            f"nothing was changed: {which} with {leaf}. `gf-i2p leaves list --json` shows whole addresses",
            code=Exit.USAGE,
        )
    return from_b32_address(found[0])


def _check_publisher(answer: Mapping[str, Any]) -> None:
    """Raise `CommandError` if nobody gives sets to a router now."""
    publisher = answer["publisher"]
    if publisher is None:
        raise CommandError(
            "nothing was ordered: no server is chosen to publish. `gf-i2p publisher show` says why", code=Exit.DEGRADED
        )
    if answer["mode"] == "failover":
        raise CommandError(
            f"nothing was ordered: in mode failover the router of server {publisher} makes a new lease set by itself "
            "whenever its tunnels change. `gf-i2p publisher move` has another server serve"
        )


def _wait_for_set(options: argparse.Namespace, ask: Ask, order: int) -> Any:
    """Return the node's answer about administration once a set is announced after the order. Raises `CommandError`.

    `order`: index of the order in the log.
    """
    _say(options, f"waiting until the publisher announces the new set, {_SET_SECONDS:.0f} s at most")
    answer = _wait(
        options.directory,
        ask,
        order,
        lambda answer: answer["announced_at"] > order,
        seconds=_SET_SECONDS,
        pause=_SET_POLL_SECONDS,
    )
    if answer is None:
        raise CommandError(
            f"the order is in the log, and no new set was announced within {_SET_SECONDS:.0f} s. The publisher's "
            "`gf-i2p status` says what it waits for",
            code=Exit.DEGRADED,
            outcome="unknown",
        )
    return answer


def wait_until_applied(directory: Path, ask: Ask, index: int) -> Any:
    """Return the node's answer about administration once the node has applied the entry; None after some seconds.

    Raises `CommandError` when the node does not answer.
    """
    return _wait(
        directory,
        ask,
        index,
        lambda answer: answer["applied"] >= index,
        seconds=APPLY_SECONDS,
        pause=_POLL_SECONDS,
    )


def _wait(
    directory: Path, ask: Ask, index: int, is_there: Callable[[Any], bool], *, seconds: float, pause: float
) -> Any:
    """Ask about administration until `is_there` accepts the answer, and return it; None after `seconds`.

    `index`: the committed entry whose effect is awaited. Raises `CommandError` when the node does not answer.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            answer = ask(directory, "GET", "/v1/administration")
        except CommandError as error:
            raise CommandError(
                f"committed at index {index}, but the effect is unknown: {error}", code=error.code, outcome="unknown"
            ) from error
        if is_there(answer):
            return answer
        if time.monotonic() >= end:
            return None
        time.sleep(pause)


def administrators_file(path: Path) -> ClientFile:
    """Read an admin-NAME.toml. Raises `CommandError`, also for a file of another role."""
    configure("error", "text")  # the answer says what is wrong; the logs would say the same again
    file = load_client_file(path)
    try:
        role = User(file.user).role
    except ValueError as error:
        raise CommandError(f"{path}: {error}", code=Exit.USAGE) from error
    if role is not Role.ADMIN:
        raise CommandError(
            f"{path} is the file of {file.user}, and only an administrator may do this: use an "
            f"admin-NAME.toml (gf-i2p init --admin NAME), or a server's directory on its machine. gf-i2p find {path} "
            "shows the servers",
            code=Exit.USAGE,
        )
    return file


async def post(file: ClientFile, entries: Sequence[AdminEntry], say: Callable[[str], None]) -> tuple[int, list[str]]:
    """Post entries together; return the index of the last one, and warnings for the operator. Raises `CommandError`."""
    seconds = POST_SECONDS if file.inside_proxy is None else _I2P_SECONDS
    async with file.open() as client:
        warnings = await _warnings_of_servers(client, entries[0])
        for warning in warnings:
            say(f"note: {warning}")
        posting = client.post([entry.encode() for entry in entries], timeout=seconds)
        looking = f"looking for the leader of {file.cluster}, {seconds:g} s at most"
        try:
            return await say_if_slow(posting, lambda: say(looking)), warnings
        except NotCommittedError as error:
            raise CommandError(str(error), code=Exit.DEGRADED) from error
        except OutcomeUnknownError as error:
            raise CommandError(
                f"{error} A leader that refuses an entry also closes the connection: then the leader's log says why",
                outcome="unknown",
            ) from error


async def _warnings_of_servers(client: FarmClient, entry: AdminEntry) -> list[str]:
    """Ask the servers for the Configuration; return a warning if the newest one lacks the server that the entry names.

    Raises `CommandError` when every server refuses this user: waiting would not help.
    """
    survey = await client.survey(timeout=_ASK_SECONDS)
    configurations = survey.configurations.values()
    if not configurations and survey.troubles.keys() == survey.refused:
        raise CommandError(
            "nothing was changed: "
            + " ".join(dict.fromkeys(survey.troubles[server] for server in sorted(survey.refused)))
        )
    if not configurations or entry.server is None:
        return []
    newest = max(configurations, key=lambda each: each.log_index)
    return _unknown_server(entry.server, [server.id for server in newest.servers])


def _unknown_server(server: int | None, servers: Sequence[int]) -> list[str]:
    if server in servers:
        return []
    return [f"the farm has no server {server}: its servers are {sorted(servers)}"]


def _entry(options: argparse.Namespace, cluster: str, by: str) -> AdminEntry:
    """Make the entry, and parse the entry as the servers will. Raises `CommandError`."""
    action: Action = options.action
    pairs: list[tuple[str, Any]] = options.changes if action.takes in {"changes", "names"} else []
    changes = dict(pairs)
    if len(changes) != len(pairs):
        twice = next(name for name in changes if sum(name == each for each, _ in pairs) > 1)
        raise CommandError(f"nothing was changed: {twice[:80]!r} is given twice", code=Exit.USAGE)
    try:
        entry = AdminEntry(
            cluster,
            now_ms(),
            by,
            "set" if changes else _ENTRY_ACTIONS.get(action.name, action.name),
            hash=options.leaf if action.takes in {"leaf", "cost"} else None,
            cost=options.cost if action.takes == "cost" else None,
            server=options.id if action.takes == "server" else None,
            parameters=changes,
            reason=options.reason,
        )
        return AdminEntry.parse(entry.encode())
    except RecordError as error:
        raise CommandError(f"nothing was changed: {error}", code=Exit.USAGE) from error


def _warnings(entry: AdminEntry, before: Mapping[str, Any]) -> list[str]:
    warnings = []
    if entry.hash is not None and not any(
        each["address"] == to_b32_address(entry.hash) and each["owners"] for each in before["leaves"]
    ):
        warnings.append("nobody reports this leaf now; the change counts as soon as somebody does")
    if entry.server is not None:
        warnings += _unknown_server(entry.server, [each["id"] for each in before["servers"]])
    drained = [each["id"] for each in before["servers"] if each["drained"] is not None]
    if entry.action == "undrain" and not warnings and entry.server not in drained:
        others = f"the drained servers are {drained}" if drained else "no server is drained"
        warnings.append(f"server {entry.server} is not drained; {others}")
    return warnings


def _outcome(entry: AdminEntry, after: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the state after a change, for `--json`."""
    if entry.hash is not None:
        return {"leaf": _leaf_state(entry, after)}
    if entry.action == "set":
        return {"parameters": {name: after["parameters"][name]["value"] for name in entry.parameters}}
    if entry.action == "publishNow":
        return {key: after[key] for key in ("publisher", "mode", "last_published")}
    return {key: after[key] for key in ("publisher", "mode", "moved_to", "servers")}


def _leaf_state(entry: AdminEntry, after: Mapping[str, Any]) -> Any:
    assert entry.hash is not None
    return next((each for each in after["leaves"] if each["address"] == to_b32_address(entry.hash)), None)


def _effect(entry: AdminEntry, after: Mapping[str, Any]) -> str:
    """Describe the state after a change, as text."""
    if entry.hash is not None:
        leaf = _leaf_state(entry, after)
        if leaf is None:
            return "nobody reports that leaf now"
        return (
            f"the leaf is listed at cost {leaf['cost']}"
            if leaf["listed"]
            else f"the leaf is not listed: {leaf['why_not']}"
        )
    if entry.action == "set":
        values = ", ".join(f"{name} = {after['parameters'][name]['value']}" for name in entry.parameters)
        return f"on each server that has the entry: {values}"
    choice = _choice(after)
    if entry.action == "publishNow":
        if after["mode"] != "meta":
            return f"{choice}: it signs a new set, and gives the set to no router"
        version = _time({"date": after["last_published"]})
        return (
            f"server {after['publisher']} has announced the set of {version}, and its router gets the set now. "
            f"`gf-i2p status` of server {after['publisher']} says when another server has found the set"
        )
    if entry.server is None or entry.server == after["publisher"]:
        return choice
    reason = next((each["why_not"] for each in after["servers"] if each["id"] == entry.server), None)
    return choice if reason is None else f"{choice}; server {entry.server} is not chosen: {reason}"


def _choice(answer: Mapping[str, Any]) -> str:
    """Return a clause with the server that is chosen to publish or to serve, and the mode of the farm."""
    verb = "serve" if answer["mode"] == "failover" else "publish"
    publisher = answer["publisher"]
    if publisher is None:
        return "no server is chosen to publish"
    return f"server {publisher} is chosen to {verb} ({answer['mode']})"


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.json:
        tell(f"gf-i2p: {text}")


# Answers -------------------------------------------------------------------------------------------------------------


def _show(options: argparse.Namespace, ask: Ask) -> Answer:
    action: Action = options.action
    answer = ask(options.directory, "GET", "/v1/administration")
    keys, describe = {
        "list": (("leaves",), _leaf_lines),
        "log": (("log",), _log_lines),
        "show": (("parameters", "sensed"), _parameter_lines)
        if action.group == "farm"
        else (("publisher", "mode", "moved_to", "servers"), _publisher_lines),
    }[action.name]
    lines = describe(answer) if answer["servers"] else [NOT_KNOWN]
    return Answer(
        {key: answer[key] for key in ("applied", "leader", "membership", *keys)},
        "\n".join(printable(line) for line in [*membership_lines(answer), *lines]),
        Exit.OK if in_touch(answer) else Exit.DEGRADED,
        is_report=True,
    )


def _leaf_lines(answer: Mapping[str, Any]) -> list[str]:
    if not answer["leaves"]:
        return ["nobody reports a leaf now"]
    lines = []
    for leaf in answer["leaves"]:
        words = [f"cost {leaf['cost']}" if leaf["listed"] else f"not listed: {leaf['why_not']}"]
        if leaf["set_cost"] is not None:
            words.append(f"cost set to {leaf['set_cost']}")
        if leaf["excluded"] is not None:
            words.append(f"excluded {_when(leaf['excluded'])}")
        words.append("reported by " + ", ".join(map(str, leaf["owners"])) if leaf["owners"] else "not reported now")
        lines.append(f"{leaf['address']}  {', '.join(words)}")
    if answer["mode"] == "failover":
        lines.append("no leaf is published: in mode failover clients reach the service at the server that serves")
    return lines


def _publisher_lines(answer: Mapping[str, Any]) -> list[str]:
    target = answer["moved_to"]
    duty = {"failover": "serves", "dry-run": "would publish"}.get(answer["mode"], "publishes")
    lines = [_choice(answer)]
    if target is not None:
        lines.append(f"publishing was moved to server {target}, which publishes as long as it can")
    for server in answer["servers"]:
        words = [] if server["score"] is None else [f"{server['score']} points"]
        if server["drained"] is not None:
            words.append(f"drained {_when(server['drained'])}")
        if server["why_not"] is not None:
            words.append(server["why_not"])
        lines.append(f"{server['id']:>5}  {', '.join(words) or duty}")
    return lines


def _parameter_lines(answer: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, each in answer["parameters"].items():
        allowed = " or ".join(each["range"]) if name == "tree" else f"{each['range'][0]} to {each['range'][1]}"
        line = f"{name:<15} {each['value']!s:>9}  ({allowed}; default {each['default']})"
        lines.append(line if each["changed"] is None else f"{line}  changed {_when(each['changed'])}")
    return [*lines, *sensed_lines(answer["sensed"])]


def _log_lines(answer: Mapping[str, Any]) -> list[str]:
    return [
        f"{change['index']:>8}  {_time(change)}  {change['by']}  {change['what']}{_reason(change)}"
        for change in answer["log"]
    ] or ["no change by an administrator is known"]


def _when(change: Mapping[str, Any]) -> str:
    return f"by {change['by']} at {_time(change)}{_reason(change)}"


def _reason(change: Mapping[str, Any]) -> str:
    return f" ({change['reason']})" if change.get("reason") else ""


def _time(change: Mapping[str, Any]) -> str:
    try:
        return f"{datetime.fromtimestamp(change['date'] / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError):  # the date is the poster's, and the poster's clock may be wrong
        return f"{change['date']} ms"
