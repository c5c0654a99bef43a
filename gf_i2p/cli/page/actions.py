"""The changes that the page offers: the words on the button, what the change leads to, and the request.

A change of the farm's choices is an entry of an administrator, as with the command line. The farm's servers check the
author, so the page needs no rights of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

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
    """The words on the button."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of change."""

    question: str
    """The question before the change; `{subject}` stands for the server or the leaf."""
    outcome: str
    """The result of the change, and the way back."""
    entry: Callable[[str, str, int, str, str], AdminEntry] | None = None
    """Makes the entry from farm, author, date in ms, subject and reason. None: the leader is to step down."""


class UnknownActionError(ValueError):
    """There is no such change, or its subject is none. The text is a sentence."""


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
        "Take the leaf {subject} out of the published set?",
        "All servers leave the leaf out from now on, and the next set is without it. Clients that have the old set may "
        "use the leaf until that set ends. “Include” takes the change back.",
        _of_leaf("exclude"),
    ),
    "include": Kind(
        "Let the leaf {subject} into the published set again?",
        "The leaf is listed as soon as a server reports that the leaf is up.",
        _of_leaf("include"),
    ),
    "move": Kind(
        "Let server {subject} publish?",
        "Server {subject} publishes as long as it can, even if others score better. “Release” takes the change back.",
        _of_server("move"),
    ),
    "release": Kind(
        "Let the farm choose the publisher again?",
        "The farm chooses by score again. The present publisher keeps the office unless another is clearly better.",
        lambda cluster, by, date, _, reason: AdminEntry(cluster, date, by, "release", reason=reason or None),
    ),
    "publish-now": Kind(
        "Publish a new set now?",
        "The publisher signs a new set of the present leaves, and gives its router the set within 25 seconds. Clients "
        "see no difference unless their set was old.",
        lambda cluster, by, date, _, reason: AdminEntry(cluster, date, by, "publishNow", reason=reason or None),
    ),
    "drain": Kind(
        "Let server {subject} publish only when no other server can?",
        "If server {subject} publishes now, another server takes over. Its leaves stay listed. “Undrain” takes the "
        "change back.",
        _of_server("drain"),
    ),
    "undrain": Kind(
        "Let server {subject} publish again?",
        "Server {subject} can be chosen like every other server.",
        _of_server("undrain"),
    ),
    "stepdown": Kind(
        "Let another server lead?",
        "The leader hands over, and another server leads after a moment. Nothing is committed in that moment.",
    ),
}


def server_actions(server: int, *, leads: bool, drained: bool, moved_here: bool, gives_sets: bool) -> Iterator[Action]:
    """Yield the changes that a server's row offers. `gives_sets`: whether this server publishes sets of leaves."""
    subject = str(server)
    if gives_sets:
        yield Action("publish-now", "", "Publish now")
    yield Action("release", "", "Release") if moved_here else Action("move", subject, "Let publish")
    yield Action("undrain", subject, "Undrain") if drained else Action("drain", subject, "Drain")
    if leads:
        yield Action("stepdown", "", "Let another lead")


def leaf_actions(address: str, *, is_excluded: bool) -> Iterator[Action]:
    """Yield the change that a leaf's row offers."""
    yield Action("include", address, "Include") if is_excluded else Action("exclude", address, "Exclude")


def kind_of(name: str) -> Kind:
    """Return the kind of this name. Raises `UnknownActionError`."""
    kind = KINDS.get(name)
    if kind is None:
        raise UnknownActionError("There is no such change.")
    return kind


def entry_of(name: str, cluster: str, by: str, date: int, subject: str, reason: str) -> AdminEntry | None:
    """Make the entry for a change, and check it as the servers will; None: the leader is to step down.

    Raises `UnknownActionError`.
    """
    make = kind_of(name).entry
    if make is None:
        return None
    try:
        return AdminEntry.parse(make(cluster, by, date, subject, reason).encode())
    except (RecordError, NetDbError, ValueError) as error:
        raise UnknownActionError(f"The change is not possible: {error}.") from error
