"""The changes that the page offers: the words on the button, what the change leads to, and the request.

A change of the farm's choices is an entry of an administrator, as with the command line. The farm's servers check the
author, so the page needs no rights of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gf_i2p.cli.page.words import Words, marked
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.netdb.encoding import from_b32_address
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.wire.limits import MAX_ID


@dataclass(frozen=True, slots=True)
class Action:
    """A button of the page."""

    name: str
    """Name of the kind, a key of `KINDS`."""
    subject: str
    """The id of a server, or the address of a leaf; empty for the whole farm."""
    text: str
    """The words on the button, to be translated."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of change."""

    question: str
    """The question before the change, to be translated; `%(subject)s` stands for the server or the leaf."""
    outcome: str
    """The result of the change, and the way back, to be translated."""
    entry: Callable[[str, str, int, str, str], AdminEntry] | None = None
    """Makes the entry from farm, author, date in ms, subject and reason. None: the leader is to step down."""


class UnknownActionError(ValueError):
    """There is no such change, or its subject is none. The text is a sentence in the language of the browser."""


def _of_leaf(action: str) -> Callable[[str, str, int, str, str], AdminEntry]:
    return lambda cluster, by, date, subject, reason: AdminEntry(
        cluster, date, by, action, hash=from_b32_address(subject), reason=reason or None
    )


def _of_server(action: str) -> Callable[[str, str, int, str, str], AdminEntry]:
    return lambda cluster, by, date, subject, reason: AdminEntry(
        cluster, date, by, action, server=_id(subject), reason=reason or None
    )


def _id(subject: str) -> int:
    if not (subject.isascii() and subject.isdigit() and len(subject) <= len(str(MAX_ID))):
        raise ValueError("a server is named by its number")
    return int(subject)


KINDS: Final[Mapping[str, Kind]] = {
    "exclude": Kind(
        marked("Take the leaf %(subject)s out of the published set?"),
        marked(
            "All servers leave the leaf out from now on, and the next set is without it. Clients that have the old set "
            "may use the leaf until that set ends. “Include” takes the change back."
        ),
        _of_leaf("exclude"),
    ),
    "include": Kind(
        marked("Let the leaf %(subject)s into the published set again?"),
        marked("The leaf is listed as soon as a server reports that the leaf is up."),
        _of_leaf("include"),
    ),
    "move": Kind(
        marked("Let server %(subject)s publish?"),
        marked(
            "Server %(subject)s publishes as long as it can, even if others score better. “Release” takes the change "
            "back."
        ),
        _of_server("move"),
    ),
    "release": Kind(
        marked("Let the farm choose the publisher again?"),
        marked(
            "The farm chooses by score again. The present publisher keeps the office unless another is clearly better."
        ),
        lambda cluster, by, date, _, reason: AdminEntry(cluster, date, by, "release", reason=reason or None),
    ),
    "publish-now": Kind(
        marked("Publish a new set now?"),
        marked(
            "The publisher signs a new set of the present leaves, and gives its router the set within 25 seconds. "
            "Clients see no difference unless their set was old."
        ),
        lambda cluster, by, date, _, reason: AdminEntry(cluster, date, by, "publishNow", reason=reason or None),
    ),
    "drain": Kind(
        marked("Let server %(subject)s publish only when no other server can?"),
        marked(
            "If server %(subject)s publishes now, another server takes over. Its leaves stay listed. “Undrain” takes "
            "the change back."
        ),
        _of_server("drain"),
    ),
    "undrain": Kind(
        marked("Let server %(subject)s publish again?"),
        marked("Server %(subject)s can be chosen like every other server."),
        _of_server("undrain"),
    ),
    "stepdown": Kind(
        marked("Let another server lead?"),
        marked("The leader hands over, and another server leads after a moment. Nothing is committed in that moment."),
    ),
}


def server_actions(server: int, *, leads: bool, drained: bool, moved_here: bool, gives_sets: bool) -> Iterator[Action]:
    """Yield the changes that a server's row offers. `gives_sets`: whether this server publishes sets of leaves."""
    subject = str(server)
    if gives_sets:
        yield Action("publish-now", "", marked("Publish now"))
    yield Action("release", "", marked("Release")) if moved_here else Action("move", subject, marked("Let publish"))
    yield Action("undrain", subject, marked("Undrain")) if drained else Action("drain", subject, marked("Drain"))
    if leads:
        yield Action("stepdown", "", marked("Let another lead"))


def leaf_actions(address: str, *, is_excluded: bool) -> Iterator[Action]:
    """Yield the change that a leaf's row offers."""
    yield (
        Action("include", address, marked("Include")) if is_excluded else Action("exclude", address, marked("Exclude"))
    )


def kind_of(name: str, words: Words) -> Kind:
    """Return the kind of this name. Raises `UnknownActionError`."""
    kind = KINDS.get(name)
    if kind is None:
        raise UnknownActionError(words.translated("There is no such change."))
    return kind


def entry_of(name: str, cluster: str, by: str, date: int, subject: str, reason: str, words: Words) -> AdminEntry | None:
    """Make the entry for a change, and check it as the servers will; None: the leader is to step down.

    Raises `UnknownActionError`.
    """
    make = kind_of(name, words).entry
    if make is None:
        return None
    try:
        return AdminEntry.parse(make(cluster, by, date, subject, reason).encode())
    except (RecordError, NetDbError, ValueError) as error:
        why = words.of_node(str(error))
        raise UnknownActionError(words.translated("The change is not possible: %(why)s.", why=why)) from error
