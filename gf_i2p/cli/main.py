"""`gf-i2p`: the command line. Every command has `--json`, also for failures."""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from gf_i2p import __version__
from gf_i2p.admin.local_socket import DEFAULT_TIMEOUT, MAX_PAGE
from gf_i2p.cli.commands import admin_arguments
from gf_i2p.cli.commands.keys_arguments import add_keys
from gf_i2p.cli.commands.members_arguments import add_members
from gf_i2p.cli.pipeline.parser import add_pipeline
from gf_i2p.cli.shared.answer_text import show_entries, show_status
from gf_i2p.cli.shared.argument_types import seconds, server, whole
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.storage.errors import StorageError
from gf_i2p.transport.errors import TransportError
from gf_i2p.wire.limits import MAX_INTEGER

# A command imports its own needs when it runs, for starting is slow enough already.

EXPECTED: Final = (ConfigError, StorageError, TransportError, OSError)
"""Errors that an operator can mend; their texts are for the operator."""


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments as JSON when `--json` is among them."""

    json = False

    def error(self, message: str) -> NoReturn:
        if _Parser.json:
            print(json.dumps({"ok": False, "error": message, "outcome": "no"}))
            self.exit(Exit.USAGE)
        super().error(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code (`Exit`)."""
    words = sys.argv[1:] if arguments is None else arguments
    _open_what_is_closed()
    try:
        try:
            return _run_one(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED


def _run_one(words: Sequence[str]) -> int:
    _Parser.json = "--json" in words
    options = _parse(words)
    try:
        return int(options.command(options))
    except CommandError as error:
        return _fail(options, str(error), error.code, error.outcome)
    except BrokenPipeError:
        raise
    except EXPECTED as error:
        return _fail(options, _sentence(error), Exit.FAILED, "no")
    except KeyboardInterrupt:
        return 130


def _open_what_is_closed() -> None:
    """Open /dev/null for each standard stream that the caller has closed (`>&-`), or a file would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 -- until we end


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words. argparse itself takes no optional argument behind an option, as in `post DIR --json TEXT`."""
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "value", "") is None:
        options.value = rest[0]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _sentence(error: Exception) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    return (
        f"{error.filename}: {error.strerror}. Check the path, and that the user that runs this command owns the file "
        "and has free space."
    )


def _fail(options: argparse.Namespace, text: str, code: Exit, outcome: str) -> int:
    if options.json:
        print(json.dumps({"ok": False, "error": text, "outcome": outcome}))
    else:
        print(f"gf-i2p: {text}", file=sys.stderr)
    return int(code)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=None if not sys.stdout.isatty() else 2))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gf-i2p",
        description="A Garlic Farm node: the routers of one I2P service agree on live servers and on the publisher.",
        epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 the farm has no leader or quorum, this server is out, or its "
        "keys end.",
    )
    parser.add_argument("--version", action="version", version=f"gf-i2p {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    init = _command(commands, "init", "make the directories of a new farm", _init)
    init.add_argument(
        "directory", type=Path, metavar="DIR", help="where server-ID/, client-NAME.toml and admin-NAME.toml are written"
    )
    init.add_argument(
        "--server",
        action="append",
        required=True,
        type=server,
        metavar="ID=ENDPOINT",
        help="a server and the endpoint at which the others reach it: i2p (a new address inside I2P) or "
        "tcp://HOST:PORT; once for each server. Three servers make a farm that survives the loss of one",
    )
    init.add_argument("--cluster", default="farm", help="the farm's name (default: farm)")
    init.add_argument("--profile", choices=["auto", "lan", "i2p"], default="auto", help="time-outs (default: auto)")
    init.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="also make credentials for a client that posts"
    )
    init.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="NAME",
        help="also make credentials for an administrator, who changes the servers from any machine",
    )

    init.add_argument(
        "--beside",
        type=Path,
        metavar="FARM",
        help="the directory of another farm on the same machines: servers with the same id and endpoint get the "
        "same certificate, so that one process can run both",
    )

    command = _command(commands, "run", "run the node of a directory, or of several, in the foreground", _run)
    command.add_argument(
        "directories",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="a server's directory. Several directories are of different farms; those with the same node.listen "
        "share it",
    )

    command = _command(commands, "status", "show the state of a running node", _status)
    command.add_argument("directory", type=Path, metavar="DIR")

    command = _command(commands, "explain", "say which server publishes, and why, as a running node sees it", _explain)
    command.add_argument("directory", type=Path, metavar="DIR")

    command = _command(
        commands, "doctor", "check a node, its router and its peers, and say how to mend faults", _doctor
    )
    command.add_argument("directory", type=Path, metavar="DIR")

    add_keys(commands, _command, _key)
    add_members(commands, _command, _member)
    add_pipeline(commands, _command, _pipeline)
    _leaf(commands)
    for name, text, actions in admin_arguments.COMMANDS:
        parser_of = commands.add_parser(name, help=text).add_subparsers(required=True, metavar="COMMAND")
        for action, words in actions:
            admin_arguments.add(action, _command(parser_of, action.name, words, _administer))

    post = _command(commands, "post", "append an entry; returns when it is committed", _post)
    post.add_argument("directory", type=Path, metavar="DIR")
    post.add_argument(
        "value", nargs="?", metavar="TEXT", help="the entry, by convention JSON; - or nothing: each input line"
    )
    post.add_argument(
        "--timeout", type=seconds, default=DEFAULT_TIMEOUT, metavar="SECONDS", help="seconds to wait (default: 30)"
    )

    entries = _command(commands, "entries", "show committed entries", _entries)
    entries.add_argument("directory", type=Path, metavar="DIR")
    entries.add_argument(
        "--first", type=whole(MAX_INTEGER), metavar="INDEX", help="the first index (default: where the log begins)"
    )
    entries.add_argument(
        "--limit",
        type=whole(MAX_PAGE),
        default=100,
        metavar="N",
        help=f"show at most N entries (default: 100, up to {MAX_PAGE})",
    )
    entries.add_argument(
        "--stale", action="store_true", help="ask a server that does not lead; newer entries may be missing"
    )

    find = _command(
        commands, "find", "find a farm's servers and its leader with a client's file, from any machine", _find
    )
    find.add_argument("file", type=Path, metavar="FILE", help="client-NAME.toml, as init --client NAME wrote it")
    find.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="seconds for finding the leader (default: 30, or 120 for a farm inside I2P)",
    )

    _snapshots(commands)

    recover = _command(commands, "recover", "make a farm of one when the majority is lost for good", _recover)
    recover.add_argument("directory", type=Path, metavar="DIR", help="of the last server; its node must be stopped")
    recover.add_argument("--confirm", metavar="FARM", help="the farm's name, instead of typing it")
    recover.add_argument(
        "--even-if-others-live",
        action="store_true",
        help="also when other servers of the farm answer: then there will be two farms",
    )

    history = commands.add_parser("history", help="the exported entries of a node")
    verify = _command(
        history.add_subparsers(required=True, metavar="COMMAND"),
        "verify",
        "read a history to its end, check it, and describe it",
        _history_verify,
    )
    verify.add_argument("directory", type=Path, metavar="DIR", help="a node's directory, or a copy of its history/")

    bridge = commands.add_parser("bridge", help="the router beside a node, for other programs")
    serve = _command(
        bridge.add_subparsers(required=True, metavar="COMMAND"),
        "serve",
        "serve the router of a node's directory as an i2pcontrol endpoint, in the foreground",
        _bridge_serve,
    )
    serve.add_argument("directory", type=Path, metavar="DIR")

    simulate = _command(
        commands, "simulate", "run whole farms with made-up faults, and check that nothing breaks", _simulate
    )
    simulate.add_argument("--seeds", type=whole(10**6), metavar="N", help="how many runs (default: 100; 1 with --seed)")
    simulate.add_argument(
        "--nodes", type=whole(9), metavar="K", help="servers at first, 1 to 9 (default: each seed decides)"
    )
    simulate.add_argument(
        "--seed",
        type=whole(10**12),
        metavar="S",
        help="the first seed; the same seed is the same run (default: a new one)",
    )
    simulate.add_argument(
        "--file", type=Path, metavar="FILE", help="run the seeds of a file instead: SEED or SEED NODES in each line"
    )
    simulate.add_argument("--jobs", type=whole(256), metavar="J", help="processes (default: one for each core)")
    simulate.add_argument(
        "--lives", action="store_true", help="run only hours of farms' lives on a given log, without elections"
    )
    simulate.add_argument("--trace", action="store_true", help="print each event of one seed as a line")
    simulate.add_argument("--canary", metavar="NAME", help="break all cores in one way, which must be noticed")
    simulate.add_argument(
        "--canaries", action="store_true", help="count for each canary the seeds until it is noticed; takes minutes"
    )
    return parser


def _administer(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands import administer

    return administer.run(options, _ask, _print_json)


def _leaf(commands: "argparse._SubParsersAction[_Parser]") -> None:
    leaf = commands.add_parser("leaf", help="a leaf-only member: a router with a leaf and without a server")
    actions = leaf.add_subparsers(required=True, metavar="COMMAND")
    for name, text in [
        ("run", "report the leaf beside this router to the farm, in the foreground"),
        ("status", "show the state of a leaf-only member on this machine"),
    ]:
        command = _command(actions, name, text, _leaf_member)
        command.set_defaults(action=name)
        command.add_argument(
            "directory", type=Path, metavar="DIR|FILE", help="leaf-ID/, as `members invite-leaf` wrote it"
        )


def _leaf_member(options: argparse.Namespace) -> Exit:
    if options.action == "run":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nothing can be reloaded; by default SIGHUP ends the process
    from gf_i2p.cli.commands import leaf

    return leaf.run(options.directory) if options.action == "run" else leaf.status(options, _print_json)


def _snapshots(commands: "argparse._SubParsersAction[_Parser]") -> None:
    snapshots = commands.add_parser("snapshot", help="save the farm's state in a file, and begin anew with it")
    actions = snapshots.add_subparsers(required=True, metavar="COMMAND")
    save = _command(actions, "save", "write the farm's state into a file, from a running or a stopped node", _snapshot)
    save.add_argument("directory", type=Path, metavar="DIR", help="of a node")
    save.add_argument("file", type=Path, metavar="FILE")
    save.add_argument("--force", action="store_true", help="replace a file that exists")
    inspect = _command(actions, "inspect", "check a saved snapshot, and describe it", _snapshot)
    inspect.add_argument("file", type=Path, metavar="FILE")
    restore = _command(actions, "restore", "begin the farm anew with one server, when all logs are lost", _snapshot)
    restore.add_argument("file", type=Path, metavar="FILE")
    restore.add_argument("directory", type=Path, metavar="DIR", help="of the server; its node must be stopped")
    restore.add_argument("--confirm", metavar="FARM", help="the farm's name, instead of typing it")
    restore.add_argument("--force", action="store_true", help="also when the present log has more entries")
    for action, command in (("save", save), ("inspect", inspect), ("restore", restore)):
        command.set_defaults(action=action)


def _snapshot(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands import snapshot

    act = {"save": snapshot.save, "inspect": snapshot.inspect, "restore": snapshot.restore_farm}[options.action]
    return act(options, _print_json)


def _member(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands import members

    if options.action.endswith("-leaf"):
        from gf_i2p.cli.commands import leaf_members

        act = leaf_members.invite if options.action == "invite-leaf" else leaf_members.remove
        return act(options, _ask, _print_json)
    if options.action not in {"invite", "accept"} and options.directory.is_file():
        from gf_i2p.cli.commands import remote_members

        return remote_members.run(options, _print_json)
    act = {
        "list": members.show,
        "invite": members.invite,
        "accept": members.accept,
        "add": members.add,
        "remove": members.remove,
        "stepdown": members.step_down,
    }[options.action]
    return act(options, _ask, _print_json)


def _pipeline(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.pipeline import run

    return run(options, _print_json)


def _key(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands import keys

    act = {
        "new": keys.new,
        "import": keys.import_,
        "show": keys.show,
        "delegate": keys.delegate,
        "status": keys.status,
    }[options.action]
    return act(options, _print_json)


def _recover(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands.recover import run

    return run(options, _print_json)


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, text: str, function: object
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("--json", action="store_true", help="print one JSON object, also for a failure")
    parser.set_defaults(command=function)
    return parser


def _init(options: argparse.Namespace) -> Exit:
    servers = dict(options.server)
    for names, who in ((options.client, "clients"), (options.admin, "administrators")):
        if len(set(names)) != len(names):
            raise CommandError(f"two {who} have the same name", code=Exit.USAGE)
    known = [endpoint for endpoint in servers.values() if endpoint is not None]
    if len(servers) != len(options.server) or len(set(known)) != len(known):
        raise CommandError("two servers have the same id or the same endpoint", code=Exit.USAGE)
    for endpoint in known:
        if endpoint.is_i2p:
            raise CommandError(
                f"{endpoint}: the keys for this address are yours; write i2p instead of the endpoint for "
                "a new address, and put your keys and address in its place afterwards",
                code=Exit.USAGE,
            )
    from gf_i2p.node.files.farm_setup import make_farm

    written = make_farm(
        options.directory,
        servers,
        cluster=options.cluster,
        profile=options.profile,
        clients=options.client,
        admins=options.admin,
        beside=options.beside,
    )
    if options.json:
        _print_json({"ok": True, "written": [str(path) for path in written]})
        return Exit.OK
    for path in written:
        print(f"wrote {path}")
    print("\nCopy each server directory, and no other, to its machine by a safe way (it holds keys). Then run there:")
    print(f"  gf-i2p run {written[0]}")
    if len(servers) < 3:
        print(f"\nA farm of {len(servers)} survives the loss of no server; three survive one, five survive two.")
    return Exit.OK


def _run(options: argparse.Namespace) -> Exit:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # ignored until the nodes run: by default SIGHUP ends the process
    from gf_i2p.cli.commands.run import run

    return run(options.directories)


def _simulate(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands.simulate import run

    return run(options)


def _bridge_serve(options: argparse.Namespace) -> Exit:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nothing can be reloaded; by default SIGHUP ends the process
    from gf_i2p.cli.commands.bridge import serve

    return serve(options.directory, as_json=options.json)


def _history_verify(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands.history import verify

    return verify(options.directory, as_json=options.json)


def _ask(directory: Path, method: str, path: str, *, seconds: float = 10.0, body: object = None) -> Any:
    """Ask the node that runs in this directory; see `local_client.request`."""
    from gf_i2p.cli.shared.local_client import request

    return asyncio.run(request(directory, method, path, seconds=seconds, body=body))


def _status(options: argparse.Namespace) -> Exit:
    answer = _ask(options.directory, "GET", "/v1/status")
    if options.json:
        _print_json({"ok": True, **answer})
    else:
        print(show_status(answer))
    return Exit.OK if answer["healthy"] else Exit.DEGRADED


def _explain(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands.explain import explain

    return explain(options.directory, _ask, _print_json, as_json=options.json)


def _doctor(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.doctor.command import doctor

    return doctor(options.directory, as_object=options.json)


def _find(options: argparse.Namespace) -> Exit:
    from gf_i2p.cli.commands.find import find

    return find(options.file, seconds=options.timeout, as_object=options.json)


def _post(options: argparse.Namespace) -> Exit:
    if options.value in {None, "-"}:
        lines = _utf8(sys.stdin.buffer.read(), "standard input").split("\n")  # JSON may hold other line ends
        values = [line.removesuffix("\r") for line in lines if line.strip()]
        if not values:
            raise CommandError("nothing to post: give the entry as an argument, or lines on standard input")
    else:
        values = [_utf8(os.fsencode(options.value), "the entry")]
        if not values[0].strip():
            raise CommandError("the entry is empty, perhaps a variable that is not set", code=Exit.USAGE)
    path = f"/v1/entries?timeout={options.timeout}"
    answer = _ask(options.directory, "POST", path, seconds=options.timeout + 5, body={"values": values})
    if options.json:
        _print_json({"ok": True, **answer})
    else:
        print(f"committed at index {answer['index']}")
    return Exit.OK


def _utf8(data: bytes, what: str) -> str:
    """Decode typed or piped bytes as text. Raises `CommandError` for other bytes; nothing is replaced silently."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{what} is not UTF-8 text: {error.reason} at byte {error.start}", code=Exit.USAGE
        ) from error


def _entries(options: argparse.Namespace) -> Exit:
    path = f"/v1/entries?limit={options.limit}&stale={int(options.stale)}"
    if options.first is not None:
        path += f"&first={options.first}"
    answer = _ask(options.directory, "GET", path)
    if options.json:
        _print_json({"ok": True, **answer})
    else:
        print(show_entries(answer))
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
