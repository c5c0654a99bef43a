"""The secrets of `gf-i2p config`: sealed by `export`, described by `check`, and opened for `make`."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared import passphrase
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.terminal import ProgressLine, printable
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.node.files.sealed import SealedTable
from gf_i2p.node.recovery.farm_secrets import FarmSecrets, gather
from gf_i2p.storage.private_files import write_durably

NOT_SEALED: Final = "has no sealed part: leave --secrets out, or make the file by `gf-i2p config export DIR --secrets`"


def check_place(options: argparse.Namespace) -> None:
    """Raise `CommandError` unless secrets can be exported from this place to this file."""
    passphrase.check_options(options)
    if not options.secrets:
        return
    if options.place.is_file():
        raise CommandError(
            f"{options.place}: secrets do not leave a server by the network: run this on the server's machine, with "
            "the server's directory",
            code=Exit.USAGE,
        )
    if options.out is None:
        raise CommandError("--secrets needs --out FILE: a new file, which only you can read", code=Exit.USAGE)
    if options.out.exists() or options.out.is_symlink():
        raise CommandError(f"{options.out} cannot be written: File exists. Name a new file")


def export(options: argparse.Namespace, farm: FarmFile, server: int) -> Answer:
    """Write a farm's file with a sealed part. Raises `CommandError`, `ConfigError` and `OSError`."""
    words = passphrase.passphrase(options, new=True)
    gathered = gather(options.place)
    if gathered.secrets.server != server:
        raise CommandError(f"the node in {options.place} is server {server}, and the files there are another server's")
    sealed = SealedTable.seal(gathered.secrets.encode(), words, farm.cluster)
    text = farm.model_copy(update={"sealed": sealed}).encode(server, datetime.now(UTC))
    write_durably(options.out, text.encode(), force=False)
    kinds = gathered.secrets.kinds
    lines = [
        f"written to {options.out}, with secrets: {kinds}",
        *(f"left out: {printable(each)}" for each in gathered.left_out),
        "Nobody can open the sealed part without the passphrase: keep the passphrase in another place than the file.",
    ]
    data = {"file": str(options.out), "secrets": asdict(kinds), "left_out": list(gathered.left_out)}
    return Answer(data, "\n".join(lines))


def opened(options: argparse.Namespace, files: Mapping[Path, FarmFile]) -> dict[Path, FarmSecrets]:
    """Ask for the passphrase, and open the sealed part of each file. Raises `CommandError` and `ConfigError`."""
    tables = {}
    for path, file in files.items():
        if file.sealed is None:
            raise CommandError(f"{path} {NOT_SEALED}", code=Exit.USAGE)
        tables[path] = file.sealed
    words, found = passphrase.passphrase(options), {}
    with ProgressLine() as progress:
        for number, (path, table) in enumerate(tables.items(), 1):
            progress(f"{number - 1} of {len(tables)} files are open")
            found[path] = _opened(path, table, words, files[path].cluster)
    return found


def _opened(path: Path, table: SealedTable, words: str, cluster: str) -> FarmSecrets:
    try:
        data = table.open(table.key(words), cluster)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    secrets = FarmSecrets.parse(data, Path(f"{path}, in the sealed part"))
    secrets.known(cluster)  # checks that logins and verifiers belong together
    return secrets


def left_aside(file: FarmFile, path: Path) -> list[str]:
    """Return the line for a command that does not open the sealed part; none without a sealed part."""
    if file.sealed is None:
        return []
    return [f"{path} has a sealed part with secrets, which was left aside"]


def described(secrets: FarmSecrets | None) -> dict[str, Any] | None:
    """Return the kinds of secrets for JSON; None when no secrets were opened."""
    return None if secrets is None else asdict(secrets.kinds)
