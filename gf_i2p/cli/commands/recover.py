"""`gf-i2p recover`: a farm of one, when the majority is lost for good."""

import argparse
import asyncio
import sys
from pathlib import Path

from gf_i2p.cli.shared.answer_text import printable
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.terminal import check_name, check_typed, print_json
from gf_i2p.node.files.layout import DATABASE_FILE
from gf_i2p.node.recovery.farm_of_one import Look, look, recover
from gf_i2p.node.recovery.survivors import ask_others
from gf_i2p.storage.private_files import holder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say which server is left, and what the operator has confirmed."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="of the server that is left; its node is stopped")
    parser.add_argument("--confirm", metavar="FARM", help="the farm's name, instead of typing it")
    parser.add_argument(
        "--even-if-others-live",
        action="store_true",
        help="also when other servers of the farm answer: there are two then",
    )


def run(options: argparse.Namespace) -> Exit:
    """Look whether others live, ask, back up, and do it."""
    pid = holder(options.directory / DATABASE_FILE)
    if pid is not None:
        raise CommandError(f"the node of {options.directory} runs (process {pid}): stop it first")
    found = look(options.directory)
    if options.confirm is not None:
        check_name(options.confirm, found.cluster)
    _check_others(options, found)
    if options.confirm is None:
        if options.json or not sys.stdin.isatty():
            raise CommandError(
                f"this cannot be undone once the farm goes on: add --confirm {found.cluster} when you have read what "
                "`gf-i2p recover` says on a terminal",
                code=Exit.USAGE,
            )
        print(_consequences(found))
        check_typed(found.cluster)
    else:
        print(_consequences(found), file=sys.stderr)
    done = recover(options.directory)
    if options.json:
        print_json({"ok": True, "backup": str(done.backup), "index": done.index, "term": done.term})
        return Exit.OK
    print(
        f"The log as it was is in {done.backup}.\n"
        f"Server {found.server_id} is the farm now (entry {done.index}, term {done.term}). Start it:\n"
        f"  gf-i2p run {options.directory}\n"
        f"Then take servers in again: gf-i2p members invite {options.directory} ID=ENDPOINT --into DIR"
    )
    return Exit.OK


def _check_others(options: argparse.Namespace, found: Look) -> None:
    """Raise `CommandError` when another server of the farm lives; say whom nobody could ask."""
    configure("error", "text")  # what goes wrong stands in the answer; the logs would say it twice
    servers = tuple(server for server in found.servers if server.id != found.server_id)
    others = asyncio.run(ask_others(options.directory, servers))
    for server, why in sorted(others.not_asked.items()):
        told = printable(why).rstrip(".")
        print(f"gf-i2p: server {server} was not asked whether it lives: {told}. Look there yourself", file=sys.stderr)
    if not others.living:
        return
    who = "; ".join(f"server {server}: {printable(said)}" for server, said in sorted(others.living.items()))
    if options.even_if_others_live:
        print(f"gf-i2p: other servers of the farm live, and will be another farm. {who}", file=sys.stderr)
        return
    raise CommandError(
        f"nothing was changed, for other servers of the farm live, and there would be two farms. {who}. If a majority "
        "runs, or can be started, all is well: gf-i2p run on the others, and on this one. If the majority is lost for "
        "good, stop those that still run, for they have to begin anew, with empty directories; then try again. Should "
        "you know better: --even-if-others-live"
    )


def _consequences(found: Look) -> str:
    others = [str(server.id) for server in found.servers if server.id != found.server_id]
    return (
        f"This makes server {found.server_id} the only one of the farm {found.cluster}, whose servers are now "
        f"{', '.join(str(server.id) for server in found.servers)}.\n\n"
        "- What only the others had is lost, also if it was acknowledged to somebody.\n"
        "- What this server had and was never committed becomes part of the farm's log.\n"
        f"- Servers {', '.join(others) or '(none)'} must never run again with the data they have: two farms would then "
        "both be the farm. This server forgets their passwords, so they cannot speak to it; but clients could still "
        "find them. Take them in again with empty directories.\n"
        "- If a majority of the servers can still be started, do that instead: then nothing is lost.\n"
        "- The log, gf-i2p.toml and secrets.toml are copied before anything is changed.\n"
    )
