"""`gf-i2p init`: makes the directories of a new farm. Without arguments the command asks."""

import argparse
from pathlib import Path

from gf_i2p.cli.commands import init_questions
from gf_i2p.cli.shared.argument_types import server
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.disk_faults import all_or_nothing_on
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.start_command import start_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="where server-ID/, client-NAME.toml and admin-NAME.toml are written. Without DIR and --server, the "
        "command asks for what it needs, and explains",
    )
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        type=server,
        metavar="ID=ENDPOINT",
        help="a server and the endpoint at which other servers reach that server: i2p (a new address inside I2P) or "
        "tcp://HOST:PORT; once for each server. Three servers make a farm that survives the loss of one",
    )
    parser.add_argument("--cluster", default="farm", help="the farm's name (default: farm)")
    parser.add_argument(
        "--profile", choices=["auto", "lan", "i2p"], default="auto", help="profile of the time-outs (default: auto)"
    )
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="also make credentials for a client that posts"
    )
    parser.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="NAME",
        help="also make credentials for an administrator, who can see and change the farm from any machine",
    )
    parser.add_argument(
        "--viewer",
        action="append",
        default=[],
        metavar="NAME",
        help="also make credentials for a viewer, who can see the farm from any machine, and change nothing",
    )
    parser.add_argument(
        "--digest",
        action="append",
        default=[],
        metavar="USER",
        help="give this user (such as client-NAME or server-ID) a password for Digest in place of a key, for "
        "another program than gf-i2p; weaker: whoever reads a server's secrets.toml can log in as this user",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="FARM",
        help="the directory of another farm on the same machines: servers with the same id and endpoint get the "
        "same certificate, so that one process can run both",
    )


def run(options: argparse.Namespace) -> Answer:
    """Make the directories. Raises `CommandError` and `ConfigError`."""
    if options.directory is None and not options.server:
        return init_questions.run()
    if options.directory is None or not options.server:
        raise CommandError(
            "give DIR and, for each server, --server ID=ENDPOINT; or neither, and the command asks", code=Exit.USAGE
        )
    servers = dict(options.server)
    kinds = ((options.client, "clients"), (options.admin, "administrators"), (options.viewer, "viewers"))
    for names, users in kinds:
        if len(set(names)) != len(names):
            raise CommandError(f"two {users} have the same name", code=Exit.USAGE)
    endpoints = [endpoint for endpoint in servers.values() if endpoint is not None]
    if len(servers) != len(options.server) or len(set(endpoints)) != len(endpoints):
        raise CommandError("two servers have the same id or the same endpoint", code=Exit.USAGE)
    for endpoint in endpoints:
        if endpoint.is_i2p:
            raise CommandError(
                f"{endpoint}: init has no keys for this address. Write i2p instead of the endpoint: init then makes a "
                "new address. To use your own address, replace the new address and the new key file afterwards",
                code=Exit.USAGE,
            )
    with all_or_nothing_on(options.directory):
        paths = make_farm(
            options.directory,
            servers,
            cluster=options.cluster,
            profile=options.profile,
            clients=options.client,
            admins=options.admin,
            viewers=options.viewer,
            digest=options.digest,
            beside=options.beside,
        )
    lines = [
        *(f"wrote {path}" for path in paths),
        "\nCopy each server directory to its own machine only, over a secure channel: it holds keys. Then run there:",
        f"  {start_command(paths[0])}",
    ]
    if len(servers) < 3:
        lines.append(f"\nA farm of {len(servers)} survives the loss of no server; three survive one, five survive two.")
    return Answer({"written": [str(path) for path in paths]}, "\n".join(lines))
