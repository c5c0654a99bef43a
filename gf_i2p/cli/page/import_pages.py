"""The import of a farm's file on the page: a file is chosen, the differences are shown, and the farm is changed.

Between the question and the answer the farm may change. So an answer holds for the differences that the question has
shown, and for no others.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.farm_import import done_text, lines_of, requests_for
from gf_i2p.node.files.checked_read import ConfigError, table_of
from gf_i2p.node.files.farm_file import Difference, FarmFile, differences

MAX_FILE_BYTES: Final = 1 << 19
"""Most bytes of a file."""
MAX_FORM_BYTES: Final = 4 * MAX_FILE_BYTES
"""Most bytes of a form: a byte of the file may take three."""


class ImportPage(NamedTuple):
    """The values that `import.html` fills in."""

    title: str
    note: str
    lines: Sequence[str]
    asks: bool
    """Whether the page asks for the change."""
    text: str
    shown: str
    """Digest of the lines."""


async def import_page(
    text: str,
    *,
    by: str,
    reason: str,
    date_ms: int,
    agreed: str,
    farm: Callable[[], Awaitable[FarmFile]],
    post: Callable[[list[str]], Awaitable[Any]],
) -> ImportPage:
    """Compare a file with the farm; change the farm if the operator has agreed to just these differences.

    Args:
        text: the file's text.
        by: author of the entries.
        reason: the operator's reason; empty: none.
        date_ms: date of the entries, in ms since the epoch.
        agreed: `ImportPage.shown` of the page on which the operator has agreed; empty: nobody has agreed.
        farm: describes the farm as it is now.
        post: appends entries, and returns when the node has applied them.

    Raises `CommandError`, also for a file with mistakes.
    """
    try:
        wanted = table_of(FarmFile, text, Path("the file"))
    except ConfigError as error:
        raise CommandError(str(error)) from error
    now = await farm()
    if wanted.cluster != now.cluster:
        raise CommandError(f"the file describes the farm {wanted.cluster!r}, and this is {now.cluster!r}")

    def compared(present: FarmFile) -> list[Difference]:
        return list(differences(present, wanted, date_ms=date_ms, by=by, reason=reason or None))

    found = compared(now)
    lines = lines_of(found)
    shown = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    entries = [each.entry for each in found if each.entry is not None]
    if not entries:
        title = "Still different, and changed by hand only" if found else "The farm is as the file says"
        return ImportPage(title, "", lines, False, "", "")
    if agreed != shown:
        note = "The farm has changed meanwhile: look again." if agreed else ""
        return ImportPage("Change the farm so?", note, lines, True, text, shown)
    done = 0
    for piece in requests_for(entries):
        try:
            await post(piece)
        except CommandError as error:
            far = f"the first {done} of {len(entries)} changes are in the log; then: {error}"
            raise CommandError(far, code=error.code, outcome=error.outcome) from error
        done += len(piece)
    left = compared(await farm())
    title = "Changed, and some of it is left to do by hand" if left else "The farm is as the file says"
    return ImportPage(title, f"{done_text(done)}.", lines_of(left), False, "", "")
