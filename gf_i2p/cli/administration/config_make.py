"""`gf-i2p config make`: makes the directories of new farms from files that describe farms, all of them or none.

The servers are always new: each has a new key, a new certificate or address, and an empty log. With `--secrets` they
know the users of the file's sealed part, and the server that the publishing keys belong to gets these keys.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from gf_i2p.cli.administration import config_secrets
from gf_i2p.cli.shared import passphrase
from gf_i2p.cli.shared.argument_types import as_command_error
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.farm.admission import INSIDE
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_file import FarmFile, ServerSection
from gf_i2p.node.files.farm_setup import OWNER, make_farm
from gf_i2p.node.files.settings_edit import change_settings
from gf_i2p.node.files.transaction import all_or_nothing
from gf_i2p.node.recovery.farm_secrets import FarmSecrets
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
    passphrase.add_arguments(
        parser, "the new farms get the users and the publishing keys of the sealed parts; one passphrase for all files"
    )


def run(options: argparse.Namespace) -> Answer:
    """Make the directories. Raises `CommandError` and `ConfigError`; then nothing was made."""
    passphrase.check_options(options)
    farms: dict[str, FarmFile] = {}
    paths: dict[Path, FarmFile] = {}
    for path in options.files:
        with as_command_error(path):
            file = FarmFile.load(path)
        if not file.servers:
            raise CommandError(f"{path}: servers: give [[servers]] tables with id and endpoint", code=Exit.USAGE)
        if file.cluster in farms:
            raise CommandError(f"{path}: cluster: another file has {file.cluster!r}, too", code=Exit.USAGE)
        farms[file.cluster] = paths[path] = file
    opened = config_secrets.opened(options, paths) if options.secrets else {}
    secrets = {paths[path].cluster: each for path, each in opened.items()}
    for path, each in opened.items():
        if each.server not in {server.id for server in paths[path].servers}:
            raise CommandError(f"{path}: the sealed keys are for server {each.server}, and the file has no such server")
    with all_or_nothing(options.into) as written:
        for cluster, file in farms.items():
            directory = options.into / cluster
            if directory.exists():
                raise ConfigError(f"{directory} exists already. Nothing was made; choose another directory.")
            written.append(directory)
            _make(directory, file, secrets.get(cluster))
    sealed = [] if options.secrets else [path for path, file in paths.items() if file.sealed is not None]
    return _answer(options.into, farms, secrets, sealed)


def _make(directory: Path, file: FarmFile, secrets: FarmSecrets | None) -> None:
    make_farm(
        directory,
        {server.id: _endpoint(server) for server in file.servers},
        cluster=file.cluster,
        profile="auto",
        clients=[],
        admins=[OWNER] if secrets is None else [],  # nobody who had no rights in the earlier farm gets any
        known=[] if secrets is None else secrets.known(file.cluster),
    )
    if secrets is not None:
        secrets.place_keys(directory / f"server-{secrets.server}")
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


def _answer(
    into: Path, farms: Mapping[str, FarmFile], secrets: Mapping[str, FarmSecrets], sealed: Sequence[Path]
) -> Answer:
    """Say what was made. `sealed`: files whose sealed parts were left aside."""
    lines = [f"wrote {into / cluster}: {len(file.servers)} servers" for cluster, file in farms.items()]
    lines += [f"wrote the secrets of {into / cluster}: {each.kinds}" for cluster, each in secrets.items()]
    lines += [f"{path} has a sealed part, which was left aside: --secrets takes its users and keys" for path in sealed]
    example = next(iter(farms))
    lines += [
        "\nBring each server's directory, and only that one, to its machine by a safe way, and run it there:",
        f"  gf-i2p run {into / example}/server-{farms[example].servers[0].id}",
    ]
    with_keys = {cluster: each.server for cluster, each in secrets.items() if each.publishing_keys is not None}
    if with_keys:
        lines.append("Stop the earlier farm first: the netDb has one place for the address for which both publish.")
    if any(
        server.mode not in {None, "off"} and with_keys.get(cluster) != server.id
        for cluster, file in farms.items()
        for server in file.servers
    ):
        lines.append("A server that publishes needs its keys before: gf-i2p keys delegate MASTERFILE --server ID")
    if any(file.parameters or file.leaves or file.publisher is not None for file in farms.values()):
        lines += [
            "\nThe parameters and the decisions of a file come into the running farm by its log:",
            f"  gf-i2p config import {_administrator(into / example)} FILE",
        ]
    data = {
        "written": [str(into / cluster) for cluster in farms],
        "secrets": {cluster: config_secrets.described(each) for cluster, each in secrets.items()},
        "left_sealed": [str(path) for path in sealed],
    }
    return Answer(data, "\n".join(lines))


def _administrator(farm: Path) -> Path:
    """Return an administrator's file; without one, the directory of a server, whose operator may do the same there."""
    return next(iter([*sorted(farm.glob("admin-*.toml")), *sorted(farm.glob("server-*"))]))
