"""The import of a farm's file, as far as the command line and the page share it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gf_i2p.cli.shared.answer_text import MEMBERSHIP_TEXTS, NOT_KNOWN
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.pieces import requests_of
from gf_i2p.cli.shared.terminal import printable
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.node.files.farm_file import Difference, FarmFile

_PIECE_BYTES: Final = 48 << 10
"""Most bytes of entries in one request: from another machine, a request has 64 KiB."""


def described(administration: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[FarmFile, int]:
    """Return the farm as a node describes it, and that node's id.

    `administration`, `status`: the node's answers to GET /v1/administration and /v1/status. Raises `CommandError` when
    the node does not know the farm's state.
    """
    if administration["membership"] == "removed":
        raise CommandError(MEMBERSHIP_TEXTS["removed"], code=Exit.DEGRADED)
    if not administration["servers"]:
        raise CommandError(NOT_KNOWN, code=Exit.DEGRADED)
    return FarmFile.of_answers(administration, status), administration["id"]


def check_same_farm(wanted: FarmFile, farm: FarmFile, file: str) -> None:
    """Raise `CommandError` when a file describes another farm. `file`: the file's name, for the error."""
    if wanted.cluster != farm.cluster:
        raise CommandError(
            f"{file} describes the farm {wanted.cluster!r}, and this is {farm.cluster!r}: take this farm's file, or "
            "change `cluster` in the file",
            code=Exit.USAGE,
        )


def requests_for(entries: Sequence[AdminEntry]) -> list[list[str]]:
    """Return the entries' texts in their order, in requests of a legal size. Raises `CommandError`: nothing is changed.

    Each entry is checked as the servers will check it.
    """
    try:
        values = [entry.encode() for entry in entries]
        for value in values:
            AdminEntry.parse(value)
    except RecordError as error:
        raise CommandError(f"nothing was changed: {error}", code=Exit.USAGE) from error
    return [[value.decode() for value in piece] for piece in requests_of(values, _PIECE_BYTES, escaped)]


def escaped(value: bytes) -> int:
    """Return the most bytes of an entry within a JSON text, where each quote becomes two characters."""
    return 2 * len(value)


def far_text(done: int, total: int, error: CommandError) -> str:
    """Return how far an import has come before a failure."""
    return f"the first {done} of {total} changes are in the log; then: {error}"


def done_text(changes: int) -> str:
    """Return the sentence about the changes that an import has made."""
    if changes == 1:
        return "1 change is in the farm's log"
    return f"{changes} changes are in the farm's log"


def lines_of(found: Sequence[Difference]) -> list[str]:
    """Return the differences between a farm and a file, a line each. Those that say "by hand" outlive an import."""
    return [printable(each.text if each.entry is not None else f"by hand: {each.text}") for each in found]
