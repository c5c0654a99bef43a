"""The import of a farm's file on the page: a file is chosen, the differences are shown, and the farm is changed.

Between the question and the answer the farm may change. So an answer holds for the differences that the question has
shown, and for no others.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gf_i2p.cli.page.words import Words, marked
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.farm_import import check_same_farm, done_text, far_text, lines_of, requests_for
from gf_i2p.node.files.checked_read import ConfigError, table_of
from gf_i2p.node.files.farm_file import Difference, FarmFile, differences

MAX_FILE_BYTES: Final = 1 << 19
"""Most bytes of a file."""
MAX_FORM_BYTES: Final = 6 * MAX_FILE_BYTES
"""Most bytes of a form: the end of a line may take six bytes, and any other byte of the file three."""
AS_WANTED: Final = marked("The farm is as the file says")
BY_HAND: Final = marked("Some of it is changed by hand only")
NO_ANSWER: Final = marked("The node does not answer now: %(why)s")


class ImportPage(NamedTuple):
    """The values that `import.html` fills in."""

    title: str
    """A message of the page."""
    note: str
    """A message of the page, or a sentence of the command line; or empty."""
    lines: Sequence[str]
    asks: bool = False
    """Whether the page asks for the change."""
    chooses: bool = False
    """Whether the page asks for a file."""
    text: str = ""
    """The file's text, for the form of a page that asks for the change."""
    shown: str = ""
    """Digest of the lines."""
    trouble: str = ""
    """Why the node does not answer now, after the change; or empty."""

    def translated(self, words: Words) -> "ImportPage":
        """Return the page with title, note and lines in the language of `words`."""
        note = words.of_node(words.translated(self.note)) if self.note else ""
        if self.trouble:
            note += " " + words.translated(NO_ANSWER, why=words.of_node(self.trouble))
        return self._replace(
            title=words.translated(self.title), note=note, lines=tuple(map(words.of_node, self.lines)), trouble=""
        )


async def import_page(
    text: str,
    *,
    user: str | None,
    reason: str,
    date_ms: int,
    agreed: str,
    describe: Callable[[], Awaitable[tuple[FarmFile, int]]],
    post: Callable[[list[str]], Awaitable[Any]],
) -> ImportPage:
    """Compare a file with the farm; change the farm if the operator has agreed to just these differences.

    Args:
        text: the file's text.
        user: author of the entries; None: the operator of the node that answers.
        reason: the operator's reason; empty: none.
        date_ms: date of the entries, in ms since the epoch.
        agreed: `ImportPage.shown` of the page on which the operator has agreed; empty: nobody has agreed.
        describe: describes the farm as it is now, with the id of the node that answers.
        post: appends entries, and waits some seconds until the node has applied them.

    Raises `CommandError` while nothing is changed, also for a file with mistakes.
    """
    try:
        wanted = table_of(FarmFile, text, Path("the file"))
    except ConfigError as error:
        raise CommandError(str(error)) from error
    now, server = await describe()
    check_same_farm(wanted, now, "the file")
    by = user or f"server-{server}"

    def compared(farm: FarmFile) -> list[Difference]:
        return list(differences(farm, wanted, date_ms=date_ms, by=by, reason=reason or None))

    found = compared(now)
    aside = marked("The sealed part of the file was left aside.") if wanted.sealed is not None else ""
    lines = lines_of(found)
    shown = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    entries = [each.entry for each in found if each.entry is not None]
    if not entries:
        return ImportPage(BY_HAND if found else AS_WANTED, aside, lines)
    if agreed != shown:
        note = marked("The farm has changed meanwhile: look again.") if agreed else aside
        return ImportPage(marked("Change the farm so?"), note, lines, asks=True, text=text, shown=shown)
    done = 0
    for piece in requests_for(entries):
        try:
            await post(piece)
        except CommandError as error:
            if not done:
                raise
            return ImportPage(marked("Partly imported"), _sentence(far_text(done, len(entries), error)), ())
        done += len(piece)
    note = _sentence(done_text(done))
    try:
        left = compared((await describe())[0])
    except CommandError as error:
        return ImportPage(marked("Changed"), note, (), trouble=_sentence(str(error)))
    if any(each.entry is not None for each in left):
        return ImportPage(marked("Changed, and this server does not show all of it yet"), note, lines_of(left))
    return ImportPage(BY_HAND if left else AS_WANTED, note, lines_of(left))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
