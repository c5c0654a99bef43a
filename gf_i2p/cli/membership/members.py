"""`gf-i2p members`: the servers of a farm, and how a running farm takes in and removes servers."""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from gf_i2p.admin.local_socket import LAST_SERVER, NO_LEADER
from gf_i2p.cli.administration.administer import administrators_file
from gf_i2p.cli.membership import leaf_members, rotate_key
from gf_i2p.cli.shared import argument_types
from gf_i2p.cli.shared.answer_text import in_touch, membership_lines, record_rows
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR, as_command_error, whole_number
from gf_i2p.cli.shared.command import Answer, Commands, Subcommand, path_argument
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.local_client import Ask, ask, reload_node
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, SECRETS_FILE
from gf_i2p.node.files.stopped_log import voters_of_stopped
from gf_i2p.node.membership import invitation, join_code, leaf_invitation
from gf_i2p.node.membership.endpoint_holder import former_holder
from gf_i2p.storage.private_files import holder
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.limits import MAX_ID

CHANGE_SECONDS: Final = 600.0
"""Most seconds that the command waits for a change: a server that joins must first get the whole log."""
SETTLE_SECONDS: Final = 15.0
"""Most seconds to wait until a node knows which entries are committed: three heartbeats of the slowest profile."""
_POLL_SECONDS: Final = 0.2
_ELECTIONS: Final = 3
"""Number of longest election time-outs that the command still waits when the leader has lost its leadership.

The wait counts only while the asked node sees no change under way. The asked node may be a follower, and a follower
learns of an entry later than the new leader.
"""


def show(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members list`: show the servers, the leaf members, and a change of the servers that is under way."""
    answer = ask(options.directory, "GET", "/v1/status")
    members = [
        {key: server[key] for key in ("id", "endpoint", "self", "leader", "connected", "lag")}
        for server in answer["servers"]
    ]
    without_vote = ask(options.directory, "GET", "/v1/administration")["members"]
    lines = []
    for server in members:
        words = [word for word in ("self", "leader") if server[word]]
        words += [] if server["connected"] else ["not connected"]
        lines.append(f"{server['id']:>5}  {server['endpoint']}  {', '.join(words)}".rstrip())
    lines += [*leaf_members.described(without_vote), *membership_lines(answer)]
    if answer["change"] is not None:
        lines.append(f"no change can begin now: {answer['change']}")
    state = {key: answer[key] for key in ("membership", "leader", "change")}
    return Answer(
        {**state, "servers": members, "leaf_members": without_vote},
        "\n".join(lines),
        Exit.OK if in_touch(answer) else Exit.DEGRADED,
        is_report=True,
    )


def show_one(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members show`: show each value of the newest record of a server or leaf member."""
    answer = ask(options.directory, "GET", f"/v1/record?server={options.id}&samples=1")
    rows = record_rows(answer["record"] or {})
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    missing = f"this node has no record of {options.id}: see `gf-i2p members list` for the farm's servers and members"
    data = {"server": answer["server"], "record": answer["record"]}
    return Answer(data, "\n".join(lines) or missing, Exit.OK if rows else Exit.FAILED, is_report=True)


def invite(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members invite`: write the files for a new server, and the file for the present servers."""
    server_id, endpoint = options.server
    _check_endpoint(endpoint)
    if options.code:
        return _code(options.directory, server_id, endpoint, ask)
    if options.into is None:
        raise CommandError(
            "give --code, for a code that the new machine takes (gf-i2p join), or --into DIR, for a directory to copy",
            code=Exit.USAGE,
        )
    new_files = invitation.invite(options.directory, options.into, server_id, endpoint, voters_of=partial(_voters, ask))
    lines = []
    if new_files.left_out is not None:
        lines.append(
            f"server {new_files.left_out}, which had this endpoint, is out of the farm: the new files leave that "
            "server out, and `members accept` removes its table and its user from each server's files"
        )
    lines.append(
        f"wrote {new_files.server}\nwrote {new_files.accept}\n\n"
        f"1. On each server of the farm, {options.directory.name} included:\n"
        f"     gf-i2p members accept DIR {new_files.accept.name}\n"
        f"   {new_files.accept.name} is no secret, but let nobody change it on the way.\n"
        f"2. Bring {new_files.server.name} to its machine, set it up like the other servers (router, leaf, keys), and "
        "run there, beside the\n   copied directory:\n"
        f"     gf-i2p run {new_files.server.name}\n"
        "   The new server asks the leader to be taken in, and is a member as soon as the new server has the log."
    )
    if new_files.table is not None:
        lines.append(
            "3. Clients and administrators reach the new server only if their files identify its certificate. At the "
            "end of each\n   client-NAME.toml and admin-NAME.toml without a CA that has signed that certificate, "
            "add:\n\n" + new_files.table.removesuffix("\n")
        )
    data = {"server": str(new_files.server), "accept": str(new_files.accept), "left_out": new_files.left_out}
    return Answer({**data, "client_table": new_files.table}, "\n".join(lines))


def _code(file: Path, server_id: int, endpoint: Endpoint | None, ask: Ask) -> Answer:
    """Make a join code, signed by the administrator of this file."""
    if file.is_dir():
        raise CommandError(
            f"an administrator signs a code: give an admin-NAME.toml (gf-i2p init --admin) in the place of {file}",
            code=Exit.USAGE,
        )
    admin = administrators_file(file)
    try:
        code = join_code.JoinCode.make(admin, server_id, endpoint, now_ms())
    except join_code.JoinCodeError as error:
        raise CommandError(str(error), code=Exit.USAGE) from error
    if endpoint is not None:
        _check_unheld(file, admin, server_id, endpoint, ask)
    until = time.strftime("%H:%M", time.gmtime(code.ticket.until_ms / 1000))
    text = (
        f"{code.text}\n\nThis code lets one new server in, as server {server_id}. The code is good once, and "
        f"until {until} UTC. Keep it secret.\nOn the new machine, run this, and paste the code when it is asked for:\n"
        "  gf-i2p join"
    )
    return Answer({"code": code.text, "server": server_id, "until_ms": code.ticket.until_ms}, text)


def _check_unheld(file: Path, admin: ClientFile, server_id: int, endpoint: Endpoint, ask: Ask) -> None:
    """Refuse the endpoint of a member here, and not only on the new machine.

    The file may be older than the farm, so the farm is asked. When no server answers, the file alone counts: the farm
    checks the endpoint again at `join`.
    """
    try:
        servers = ask(file, "GET", "/v1/status")["servers"]
    except CommandError:
        servers = []
    listed = [(each.id, each.endpoint) for each in admin.servers]
    former_holder(
        [*((each["id"], each["endpoint"]) for each in servers), *listed],
        server_id,
        str(endpoint),
        partial(_voters, ask, file),
        remove=f": gf-i2p members remove {file}",
    )


def _check_endpoint(endpoint: Endpoint | None) -> None:
    if endpoint is not None and endpoint.is_i2p:
        raise CommandError(
            f"{endpoint}: a new server's address inside I2P does not exist yet: write i2p instead of the endpoint, "
            "and the invitation makes an address",
            code=Exit.USAGE,
        )


def accept(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members accept`: take an invitation's new server, or leaf member, into the files of this node."""
    with as_command_error(options.file):
        for_leaf = leaf_invitation.invites_leaf_member(options.file)
        (leaf_invitation.load if for_leaf else invitation.load)(options.file)
    if for_leaf:
        return leaf_members.accept(options, ask)
    acceptance = invitation.accept(options.directory, options.file, voters_of=partial(_voters, ask))
    reload_note, reloaded, pending = reload_node(options.directory, ask) if acceptance.changed else ("", False, [])
    lines = []
    if acceptance.dropped is not None:
        lines.append(
            f"server {acceptance.dropped}, which had this endpoint, is out of the farm: its table and its user were "
            f"taken out of {CONFIG_FILE} and {SECRETS_FILE}"
        )
    lines += [
        f"accepted; {reload_note}" if acceptance.changed else "the server was known already",
        f"{options.file} is no longer needed when all servers have accepted.",
    ]
    data = {"changed": acceptance.changed, "dropped": [] if acceptance.dropped is None else [acceptance.dropped]}
    return Answer({**data, "reloaded": reloaded, "needs_restart": pending}, "\n".join(lines))


def _voters(ask: Ask, place: Path) -> frozenset[int]:
    """Return the ids of the farm's servers, from the running node or else from its log; see `invitation.VotersOf`.

    `place`: a server's directory, or an administrator's file, by which a server of the farm answers.
    """
    from_afar = place.is_file()
    server = "the server that answers" if from_afar else f"the node of {place}"
    pid = None if from_afar else holder(place / DATABASE_FILE)
    if pid is None and not from_afar:
        return voters_of_stopped(place)
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            answer = ask(place, "GET", "/v1/status")
        except CommandError as error:
            silent = f"process {pid} holds the log in {place}, and does not answer ({error})"
            raise ConfigError(str(error) if from_afar else silent) from error
        if answer["membership"] == "removed":
            if from_afar:
                raise ConfigError(f"{server} was itself removed from the farm: stop that server")
            raise CommandError(
                f"nothing was changed: the server of {place} was itself removed from the farm. Use the "
                "directory of a server that belongs to the farm"
            )
        if answer["membership"] != "member":
            raise ConfigError(f"{server} is itself {answer['membership']}")
        # A node without a leader may have missed a change. A node with a leader learns the commit index by a heartbeat.
        if answer["configuration_committed"] and answer["leader"] is not None:
            return frozenset(server["id"] for server in answer["servers"])
        if time.monotonic() >= end:
            why = "no leader is known" if answer["leader"] is None else "a change of the servers is not committed yet"
            raise ConfigError(f"{why}, says {server}: see `gf-i2p status {place}`, then try again")
        time.sleep(_POLL_SECONDS)


def add(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members add`: ask the leader to add a server that sends no request of its own, such as a removed server."""
    server_id, endpoint = options.server
    if endpoint is None:
        raise CommandError("give the server's own endpoint, tcp://HOST:PORT", code=Exit.USAGE)
    body = {"add": {"id": server_id, "endpoint": str(endpoint)}}
    origin = ask(options.directory, "POST", "/v1/servers", seconds=40, body=body)
    return _watch(options, ask, origin, server_id, present=True)


def remove(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members remove`: take a server out of the farm, and wait until the farm has committed the change."""
    answer = ask(options.directory, "GET", "/v1/status")
    servers = {server["id"]: server for server in answer["servers"]}
    server = servers.get(options.id)
    if server is None:
        raise CommandError(f"the farm has no server {options.id}: see `gf-i2p members list`")
    if len(servers) == 1:
        raise CommandError(LAST_SERVER)
    if answer["leader"] is None:  # without a leader, no advice about unreachable servers could be followed
        raise CommandError(NO_LEADER, code=Exit.DEGRADED)
    others = len(servers) - 1
    alive = sum(each["connected"] for each in servers.values() if each["id"] != options.id)
    if not options.force and not server["connected"]:
        raise CommandError(
            f"server {options.id} cannot be reached. If it is dead for good, add --force: the server is removed "
            "without notice, and can do no harm when it comes back. The server may be taken in again (members add) "
            "with its own directory; a new directory, or an older copy, needs a new id (members invite)"
        )
    if not options.force and alive <= others // 2:
        raise CommandError(
            f"only {alive} of the {others} other servers can be reached: without server {options.id} nothing could be "
            "committed. Start the others first, or add --force to remove the server nevertheless"
        )
    origin = ask(options.directory, "POST", "/v1/servers", seconds=40, body={"remove": options.id})
    return _watch(options, ask, origin, options.id, present=False)


def step_down(options: argparse.Namespace, ask: Ask) -> Answer:
    """`members stepdown`: let the leader give up its leadership."""
    answer = ask(options.directory, "POST", "/v1/stepdown", seconds=40, body={})
    return Answer(
        answer,
        "no server leads yet" if answer["leader"] is None else f"server {answer['leader']} leads",
        Exit.OK if answer["leader"] is not None else Exit.DEGRADED,
    )


def _watch(options: argparse.Namespace, ask: Ask, origin: Any, server_id: int, *, present: bool) -> Answer:
    """Wait until the directory's node knows that the change is committed.

    Raises `CommandError` when no leader works on the change any more. `origin`: "leader" and "term" of the leader that
    began the change.
    """
    end = time.monotonic() + CHANGE_SECONDS
    idle_since: float | None = None
    while (now := time.monotonic()) < end:
        answer = _poll(options, ask)
        ids = [server["id"] for server in answer["servers"]]
        if (server_id in ids) == present and answer["configuration_committed"]:
            outcome = "belongs to the farm" if present else "is out of the farm"
            return Answer({"servers": ids}, f"server {server_id} {outcome} now: {ids}")
        if present and answer["change_refused"] is not None:
            raise CommandError(answer["change_refused"])
        still_leads = (answer["leader"], answer["term"]) == (origin["leader"], origin["term"])
        under_way = answer["change"] is not None or not answer["configuration_committed"]
        # A joining server does not see the change, and repeats its request itself.
        if still_leads or under_way or answer["membership"] == "joining":
            idle_since = None
        elif idle_since is None:
            idle_since = now
        elif now >= idle_since + _ELECTIONS * answer["timing"]["election_max"]:
            raise _lost_leadership(origin["leader"], answer["leader"])
        time.sleep(_POLL_SECONDS)
    raise CommandError(
        f"the change is not committed after {CHANGE_SECONDS:.0f} s, and may still be committed: see `gf-i2p members "
        "list`",
        outcome="unknown",
    )


def _poll(options: argparse.Namespace, ask: Ask) -> Any:
    try:
        return ask(options.directory, "GET", "/v1/status")
    except CommandError as error:
        raise CommandError(
            f"{error}. But the change had begun, and may still be done: see `gf-i2p members list` on another server",
            code=error.code,
            outcome="unknown",
        ) from error


def _lost_leadership(former: int, leader: int | None) -> CommandError:
    now = "No server leads now" if leader is None else f"Server {leader} leads now"
    place = "there" if leader is not None and leader != former else "on the server that leads next"
    place = "here" if leader == former else place
    return CommandError(
        f"server {former} had begun the change, and has lost its leadership since. {now}. As far as this node knows, "
        f"no change is under way. See `gf-i2p members list` {place}, and repeat the command if the change is not done",
        code=Exit.DEGRADED if leader is None else Exit.FAILED,
        outcome="unknown",
    )


# The commands --------------------------------------------------------------------------------------------------------


_add_node_argument: Final = path_argument("directory", NODE_METAVAR, NODE_HELP)
_add_directory_argument: Final = path_argument("directory", "DIR", "the directory of a server of the farm")


def _add_show_arguments(parser: argparse.ArgumentParser) -> None:
    _add_node_argument(parser)
    parser.add_argument(
        "id", type=whole_number(MAX_ID - 1, low=0), metavar="ID", help="the id of a server or leaf member"
    )


def _add_into_argument(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--into",
        type=Path,
        required=required,
        metavar="DIR",
        help="where the directory and the file are made",
    )


def _add_invite_arguments(parser: argparse.ArgumentParser) -> None:
    path_argument(
        "directory", "DIR|FILE", "the directory of a server of the farm; with --code, the file admin-NAME.toml"
    )(parser)
    parser.add_argument(
        "--code",
        action="store_true",
        help="print a code for `gf-i2p join` on the new machine, in the place of --into: no file is copied, and all "
        "servers learn of the new one by the farm's log. Good for one hour, and once",
    )
    parser.add_argument(
        "server",
        type=argument_types.server,
        metavar="ID=ENDPOINT",
        help="the new server: an unused id, and i2p (a new address inside I2P) or tcp://HOST:PORT",
    )
    _add_into_argument(parser, required=False)


def _add_accept_arguments(parser: argparse.ArgumentParser) -> None:
    _add_directory_argument(parser)
    parser.add_argument("file", type=Path, metavar="FILE", help="the file from `members invite` or `invite-leaf`")


def _add_add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_node_argument(parser)
    parser.add_argument(
        "server", type=argument_types.server, metavar="ID=ENDPOINT", help="the server's id and its own endpoint"
    )


def _add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    _add_node_argument(parser)
    parser.add_argument("id", type=whole_number(MAX_ID - 1, low=0), metavar="ID", help="the server's id")
    parser.add_argument(
        "--force", action="store_true", help="remove the server even if it is dead, or if the farm may need its vote"
    )


def _add_invite_leaf_arguments(parser: argparse.ArgumentParser) -> None:
    _add_directory_argument(parser)
    parser.add_argument(
        "--id",
        type=whole_number(MAX_ID - 1, low=FIRST_LEAF_MEMBER_ID),
        metavar="ID",
        help=f"the member's id, {FIRST_LEAF_MEMBER_ID} or above (default: the next free id)",
    )
    _add_into_argument(parser)


def _add_rotate_arguments(parser: argparse.ArgumentParser) -> None:
    _add_directory_argument(parser)
    parser.add_argument(
        "--admin",
        type=Path,
        metavar="FILE",
        help="an administrator's file, by which the farm is told; without it the running node tells the farm",
    )


def _add_remove_leaf_arguments(parser: argparse.ArgumentParser) -> None:
    _add_directory_argument(parser)
    parser.add_argument(
        "id", type=whole_number(MAX_ID - 1, low=FIRST_LEAF_MEMBER_ID), metavar="ID", help="the member's id"
    )


COMMANDS: Final[Commands] = {
    "list": Subcommand(
        "show the servers of a farm, as a running node knows them",
        _add_node_argument,
        lambda options: show(options, ask),
    ),
    "show": Subcommand(
        "show all that a server or leaf member has reported last",
        _add_show_arguments,
        lambda options: show_one(options, ask),
    ),
    "invite": Subcommand(
        "invite a new server: by a code, or by a directory and a file for `members accept` at the farm's servers",
        _add_invite_arguments,
        lambda options: invite(options, ask),
    ),
    "accept": Subcommand(
        "make the invited server or leaf member known to one of the farm's servers",
        _add_accept_arguments,
        lambda options: accept(options, ask),
    ),
    "add": Subcommand(
        "have the leader take in a server that does not ask the leader itself",
        _add_add_arguments,
        lambda options: add(options, ask),
    ),
    "remove": Subcommand(
        "remove a server from the farm; DIR is the directory of the leader, or of that server",
        _add_remove_arguments,
        lambda options: remove(options, ask),
    ),
    "stepdown": Subcommand(
        "have the leader hand over to another server", _add_node_argument, lambda options: step_down(options, ask)
    ),
    "rotate-key": Subcommand(
        "replace a server's login key, on the server's own machine; the other servers learn of it by the log",
        _add_rotate_arguments,
        lambda options: rotate_key.rotate(options, ask),
    ),
    "invite-leaf": Subcommand(
        "make the directory of a leaf member, and the file for `members accept` at the other servers",
        _add_invite_leaf_arguments,
        lambda options: leaf_members.invite(options, ask),
    ),
    "remove-leaf": Subcommand(
        "have one of the farm's servers refuse a leaf member from now on",
        _add_remove_leaf_arguments,
        lambda options: leaf_members.remove(options, ask),
    ),
}
