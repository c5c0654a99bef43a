"""`gf-i2p recover`: makes a farm of one server when the majority is lost for good."""

import argparse
import asyncio
import sys
from pathlib import Path

from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.terminal import ask_farm_name, check_farm_name, printable
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.node.files.start_command import start_command
from gf_i2p.node.files.stopped_log import StoppedLog, read_stopped_log
from gf_i2p.node.recovery.farm_of_one import recover
from gf_i2p.node.recovery.survivors import ask_others
from gf_i2p.storage.private_files import holder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="the directory of the last server, whose node must be stopped"
    )
    parser.add_argument("--confirm", metavar="FARM", help="the farm's name: the command then does not ask for the name")
    parser.add_argument(
        "--even-if-others-live",
        action="store_true",
        help="recover even when other servers of the farm answer: then there will be two farms",
    )


def run(options: argparse.Namespace) -> Answer:
    """Look for living servers, ask the operator, back the files up, and recover. Raises `CommandError`."""
    pid = holder(options.directory / DATABASE_FILE)
    if pid is not None:
        raise CommandError(f"the node of {options.directory} runs (process {pid}): stop it first")
    log = read_stopped_log(options.directory)
    if options.confirm is not None:
        check_farm_name(options.confirm, log.cluster)
    _check_others(options, log)
    if options.confirm is None:
        if options.json or not sys.stdin.isatty():
            raise CommandError(
                f"nobody can undo this once the farm goes on: add --confirm {log.cluster} when you have read the "
                "text of `gf-i2p recover` on a terminal",
                code=Exit.USAGE,
            )
        print(_consequences(log))
        ask_farm_name(log.cluster)
    else:
        tell(_consequences(log))
    recovered = recover(options.directory)
    return Answer(
        {"backup": str(recovered.backup), "index": recovered.index, "term": recovered.term},
        f"The log as it was is in {recovered.backup}.\n"
        f"Server {log.server_id} is the farm now (entry {recovered.index}, term {recovered.term}). Start it:\n"
        f"  {start_command(options.directory)}\n"
        f"Then take servers in again: gf-i2p members invite {options.directory} ID=ENDPOINT --into DIR",
    )


def _check_others(options: argparse.Namespace, log: StoppedLog) -> None:
    """Raise `CommandError` when another server of the farm answers. Print which servers could not be asked."""
    configure("error", "text")  # the answer says what is wrong; the logs would say the same again
    servers = tuple(server for server in log.servers if server.id != log.server_id)
    others = asyncio.run(ask_others(options.directory, servers))
    for server, why in sorted(others.not_asked.items()):
        reason = printable(why).rstrip(".")
        tell(f"gf-i2p: server {server} could not be asked: {reason}. Check yourself that this server does not run")
    if not others.living:
        return
    survivors = "; ".join(f"server {server}: {printable(answer)}" for server, answer in sorted(others.living.items()))
    if options.even_if_others_live:
        tell(f"gf-i2p: other servers of the farm live, and will be another farm. {survivors}")
        return
    raise CommandError(
        f"nothing was changed, because other servers of the farm live, and there would be two farms. {survivors}. If a "
        "majority runs, or can be started, no recovery is needed: start the servers (gf-i2p run), this one, too. If "
        "the majority is lost for good, stop the servers that still run, and try again; those servers then begin "
        "anew with empty directories. To recover nevertheless, add --even-if-others-live"
    )


def _consequences(log: StoppedLog) -> str:
    others = [str(server.id) for server in log.servers if server.id != log.server_id]
    return (
        f"This makes server {log.server_id} the only server of the farm {log.cluster}, whose servers are now "
        f"{', '.join(str(server.id) for server in log.servers)}.\n\n"
        "- All entries that only the other servers had are lost, even acknowledged entries.\n"
        "- Entries of this server that were never committed become part of the farm's log.\n"
        f"- Servers {', '.join(others) or '(none)'} must never run again with their present data: there would be "
        "two farms of this name. This server forgets the keys and passwords of those servers, so they cannot log in "
        "here; but clients could still find them. Take those servers in again with empty directories.\n"
        "- If a majority of the servers can still be started, start those servers instead: then nothing is lost.\n"
        "- The log, gf-i2p.toml and secrets.toml are copied before anything is changed.\n"
    )
