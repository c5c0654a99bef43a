"""`gf-i2p config`: writes a farm's configuration into one file, compares the two, and changes the farm to the file.

Secrets go into the file on request only, and encrypted (`config_secrets`). `diff` and `import` never open them: the
farm's log, which they change, has no secrets.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.administration import config_make, config_secrets
from gf_i2p.cli.administration.administer import (
    POST_SECONDS,
    administrators_file,
    wait_until_applied,
)
from gf_i2p.cli.shared import passphrase
from gf_i2p.cli.shared.argument_types import load_client_file
from gf_i2p.cli.shared.command import Answer, Commands, Subcommand
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.farm_import import check_same_farm, described, done_text, far_text, lines_of, requests_for
from gf_i2p.cli.shared.local_client import ask
from gf_i2p.cli.shared.terminal import is_agreed
from gf_i2p.farm.admin_entries import MAX_REASON, AdminEntry
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.farm_file import Difference, FarmFile, differences


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write this new file (default: print the text)")
    passphrase.add_arguments(
        parser, "only with a server's directory: also write the farm's users and this server's publishing keys, sealed"
    )


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    passphrase.add_arguments(parser, "also open the sealed part, and say which kinds of secrets are in it")


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of `gf-i2p config export`, perhaps edited")


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    _add_file(parser)


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    _diff_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="change the farm without a question")
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for readers of the farm's log")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        type=Path,
        metavar="DIR|FILE",
        help="the directory of a running server; or, on any machine, the file of an administrator or a viewer",
    )


def _export(options: argparse.Namespace) -> Answer:
    config_secrets.check_place(options)
    farm, server = _farm(options.place)
    if options.secrets:
        return config_secrets.export(options, farm, server)
    text = farm.encode(server, datetime.now(UTC))
    if options.out is None:
        return Answer({"file": None, "text": text}, text.rstrip("\n"), is_file=True)
    try:
        with options.out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"{options.out} cannot be written: {error.strerror}. Name a new file") from error
    return Answer({"file": str(options.out), "text": text}, f"written to {options.out}")


def _check(options: argparse.Namespace) -> Answer:
    passphrase.check_options(options)
    file = FarmFile.load(options.file)
    secrets = config_secrets.opened(options, {options.file: file})[options.file] if options.secrets else None
    counts = {"servers": len(file.servers), "leaves": len(file.leaves), "parameters": len(file.parameters)}
    words = "; ".join(f"{name}: {count}" for name, count in counts.items())
    lines = [f"{options.file} describes the farm {file.cluster}. {words}"]
    if secrets is not None:
        lines.append(f"sealed: {secrets.kinds}")
    elif file.sealed is not None:
        lines.append("The file has a sealed part: --secrets and the passphrase show which kinds of secrets are in it.")
    data = {"cluster": file.cluster, **counts, "sealed": file.sealed is not None}
    return Answer({**data, "secrets": config_secrets.described(secrets)}, "\n".join(lines))


def _diff(options: argparse.Namespace) -> Answer:
    wanted = FarmFile.load(options.file)
    found = _compare(options, wanted, None)
    lines = [*(lines_of(found) or ["the farm is as the file says"]), *config_secrets.left_aside(wanted, options.file)]
    data = {"differences": _shown(found), "sealed": wanted.sealed is not None}
    return Answer(data, "\n".join(lines), Exit.DEGRADED if found else Exit.OK)


def _import(options: argparse.Namespace) -> Answer:
    if options.place.is_file():
        administrators_file(options.place)
    if options.reason is not None and len(options.reason) > MAX_REASON:
        raise CommandError(f"a reason has up to {MAX_REASON} characters, not {len(options.reason)}", code=Exit.USAGE)
    wanted = FarmFile.load(options.file)
    found = _compare(options, wanted, options.reason)
    entries = [each.entry for each in found if each.entry is not None]
    if entries and not options.yes:
        _ask(options, found)
    index = _post(options.place, entries)
    if index is not None and wait_until_applied(options.place, ask, index) is None:
        raise CommandError(
            f"committed up to index {index}; the node of {options.place} has not applied the entries yet: see "
            "`gf-i2p config diff` in a moment",
            code=Exit.DEGRADED,
            outcome="unknown",
        )
    left = _compare(options, wanted, None) if entries else found
    done = done_text(len(entries)) if entries else "nothing was to change by an import"
    lines = [done, *config_secrets.left_aside(wanted, options.file)]
    lines += ["", "still different:", *lines_of(left)] if left else []
    data = {"index": index, "changes": [entry.what for entry in entries], "differences": _shown(left)}
    return Answer({**data, "sealed": wanted.sealed is not None}, "\n".join(lines), Exit.DEGRADED if left else Exit.OK)


def _farm(place: Path) -> tuple[FarmFile, int]:
    """Return the farm as a node describes it, and that node's id. Raises `CommandError`."""
    return described(ask(place, "GET", "/v1/administration"), ask(place, "GET", "/v1/status"))


def _compare(options: argparse.Namespace, wanted: FarmFile, reason: str | None) -> list[Difference]:
    """Return the differences between the farm and the file. Raises `CommandError`."""
    place: Path = options.place
    farm, server = _farm(place)
    check_same_farm(wanted, farm, str(options.file))
    by = load_client_file(place).user if place.is_file() else f"server-{server}"
    return list(differences(farm, wanted, date_ms=now_ms(), by=by, reason=reason))


def _ask(options: argparse.Namespace, found: Sequence[Difference]) -> None:
    """Show the differences, and ask the operator. Raises `CommandError` unless the operator agrees."""
    if options.json or not sys.stdin.isatty():
        raise CommandError("nothing was changed: add --yes, or see `gf-i2p config diff`", code=Exit.USAGE)
    print("\n".join(lines_of(found)))
    if not is_agreed("Change the farm?"):
        raise CommandError("nothing was changed")


def _post(place: Path, entries: Sequence[AdminEntry]) -> int | None:
    """Post the entries in their order, in pieces; return the index of the last one. Raises `CommandError`."""
    index, done = None, 0
    for piece in requests_for(entries):
        path = f"/v1/entries?timeout={POST_SECONDS}"
        try:
            index = ask(place, "POST", path, seconds=POST_SECONDS + 5, body={"values": piece})["index"]
        except CommandError as error:
            if not done:
                raise
            raise CommandError(far_text(done, len(entries), error), code=error.code, outcome=error.outcome) from error
        done += len(piece)
    return index


def _shown(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [{"what": each.text, "by_import": each.entry is not None} for each in found]


COMMANDS: Final[Commands] = {
    "export": Subcommand("write a farm's configuration as TOML", _export_arguments, _export),
    "check": Subcommand("check a file, without a farm", _check_arguments, _check),
    "diff": Subcommand("show how a farm differs from a file", _diff_arguments, _diff),
    "make": Subcommand("make the directories of new farms from such files", config_make.add_arguments, config_make.run),
    "import": Subcommand("change a farm to what a file says, after a question", _import_arguments, _import),
}
