"""`gf-i2p config make`: makes the directories of new farms from files that describe farms, all of them or none."""

import argparse
from pathlib import Path

from gf_i2p.cli.shared.argument_types import as_command_error
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.farm.admission import INSIDE
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_file import FarmFile, ServerSection
from gf_i2p.node.files.farm_setup import OWNER, make_farm
from gf_i2p.node.files.settings_edit import change_settings
from gf_i2p.node.files.transaction import all_or_nothing
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a file of `gf-i2p config export`, or one written by hand: cluster, and [[servers]] with id and endpoint, "
        'tcp://HOST:PORT or "i2p". Each file is one farm',
    )
    parser.add_argument(
        "--into", type=Path, required=True, metavar="DIR", help="each farm gets a directory here, named for its cluster"
    )


def run(options: argparse.Namespace) -> Answer:
    """Make the directories. Raises `CommandError` and `ConfigError`; then nothing was made."""
    farms: dict[str, FarmFile] = {}
    for path in options.files:
        with as_command_error(path):
            file = FarmFile.load(path)
        if not file.servers:
            raise CommandError(f"{path}: servers: give [[servers]] tables with id and endpoint", code=Exit.USAGE)
        if file.cluster in farms:
            raise CommandError(f"{path}: cluster: another file has {file.cluster!r}, too", code=Exit.USAGE)
        farms[file.cluster] = file
    with all_or_nothing(options.into) as written:
        for cluster, file in farms.items():
            directory = options.into / cluster
            if directory.exists():
                raise ConfigError(f"{directory} exists already. Nothing was made; choose another directory.")
            written.append(directory)
            _make(directory, file)
    return _answer(options.into, farms)


def _make(directory: Path, file: FarmFile) -> None:
    make_farm(
        directory,
        {server.id: _endpoint(server) for server in file.servers},
        cluster=file.cluster,
        profile="auto",
        clients=[],
        admins=[OWNER],
    )
    for server in file.servers:
        settings = {"publish.mode": server.mode, "publish.publish": server.publish}
        changes: dict[str, str | None] = {name: value for name, value in settings.items() if value is not None}
        if changes:
            inside = _endpoint(server) is None
            router = {} if inside or server.mode in {None, "off"} else {"router.i2cp": "127.0.0.1:7654"}
            change_settings(directory / f"server-{server.id}", {**router, **changes})


def _endpoint(server: ServerSection) -> Endpoint | None:
    """Return the endpoint; None for a new address inside I2P, also where the file has an old one."""
    if server.endpoint == INSIDE:
        return None
    try:
        endpoint = Endpoint.parse(server.endpoint)
    except EndpointError as error:
        raise CommandError(f"servers: server {server.id}: {error}", code=Exit.USAGE) from error
    return None if endpoint.is_i2p else endpoint


def _answer(into: Path, farms: dict[str, FarmFile]) -> Answer:
    lines = [f"wrote {into / cluster}: {len(file.servers)} servers" for cluster, file in farms.items()]
    example = next(iter(farms))
    lines += [
        "\nBring each server's directory, and only that one, to its machine by a safe way, and run it there:",
        f"  gf-i2p run {into / example}/server-{farms[example].servers[0].id}",
    ]
    if any(server.mode not in {None, "off"} for file in farms.values() for server in file.servers):
        lines.append("A server that publishes needs its keys before: gf-i2p keys delegate MASTERFILE --server ID")
    if any(file.parameters or file.leaves or file.publisher is not None for file in farms.values()):
        lines += [
            "\nThe parameters and the decisions of a file come into the running farm by its log:",
            f"  gf-i2p config import {into / example}/admin-{OWNER}.toml FILE",
        ]
    data = {"written": [str(into / cluster) for cluster in farms]}
    return Answer(data, "\n".join(lines))
