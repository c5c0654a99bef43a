"""The roles of users: the authenticated user name of a connection limits the requests that the connection may carry.

A server speaks only for itself. A client only posts, and a leaf member posts only its own records (`rights.py`).
An administrator also changes the membership. A viewer sends none of these requests, and only reads the administration
API (`gf_i2p.admin.remote_interface`). A newcomer sends none of them either: it only shows its ticket there.
"""

from enum import StrEnum
from typing import Final

from gf_i2p.farm.admission import Ticket
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_ID
from gf_i2p.wire.log_values import ClusterServer, decode_server_id
from gf_i2p.wire.messages import MessageType, Request


class Role(StrEnum):
    """The kinds of users. User names begin with them: `server-2`, `client-web`, `admin-alice`, `leaf-2147483648`.

    The name of a newcomer carries the newcomer's ticket.
    """

    SERVER = "server"
    CLIENT = "client"
    ADMIN = "admin"
    VIEWER = "viewer"
    LEAF = "leaf"
    NEWCOMER = "newcomer"


_MAY_SEND: Final = {
    Role.SERVER: frozenset(
        {
            MessageType.REQUEST_VOTE_REQUEST,
            MessageType.APPEND_ENTRIES_REQUEST,
            MessageType.CLIENT_REQUEST,
            MessageType.ADD_SERVER_REQUEST,
            MessageType.REMOVE_SERVER_REQUEST,
            MessageType.SYNC_LOG_REQUEST,
            MessageType.JOIN_CLUSTER_REQUEST,
            MessageType.LEAVE_CLUSTER_REQUEST,
            MessageType.INSTALL_SNAPSHOT_REQUEST,
        }
    ),
    Role.CLIENT: frozenset({MessageType.CLIENT_REQUEST}),
    Role.VIEWER: frozenset(),
    Role.NEWCOMER: frozenset(),
    Role.LEAF: frozenset({MessageType.CLIENT_REQUEST}),
    Role.ADMIN: frozenset(
        {MessageType.CLIENT_REQUEST, MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST}
    ),
}


class User:
    """An authenticated user: a role, and the id of a server or leaf member.

    Raises `ValueError` when the name fits no role; such a user has no rights.
    """

    def __init__(self, name: str) -> None:
        kind, _, suffix = name.partition("-")
        if kind not in set(Role) or not suffix:
            raise ValueError(
                f"user {name!r} has no role: names are server-ID, client-NAME, admin-NAME, viewer-NAME or leaf-ID"
            )
        self.name = name
        self.role = Role(kind)
        self.ticket = Ticket.of_user(name) if self.role is Role.NEWCOMER else None
        """The ticket of a newcomer; None for other users."""
        self.server_id: int | None = None
        self.member_id: int | None = None
        """Id of a leaf member: `FIRST_LEAF_MEMBER_ID` at least."""
        if self.role is Role.SERVER:
            self.server_id = _id(suffix, 0)
            if self.server_id is None:
                raise ValueError(f"user {name!r} names no server: expected server-ID with a decimal id")
        elif self.role is Role.LEAF:
            self.member_id = _id(suffix, FIRST_LEAF_MEMBER_ID)
            if self.member_id is None:
                raise ValueError(
                    f"user {name!r} names no leaf member: expected leaf-ID, the id from {FIRST_LEAF_MEMBER_ID} to "
                    f"{MAX_ID - 1}"
                )

    def objection(self, request: Request) -> str | None:
        """Return why this user may not send the request; None when the user may."""
        if request.type not in _MAY_SEND[self.role]:
            return f"{self.name} sent {request.type.name}, which its role may not send"
        if self.server_id is not None and request.source != self.server_id:
            return f"{self.name} sent {request.type.name} in the name of server {request.source}"
        target = concerned(request)
        if self.server_id is not None and target not in {None, self.server_id}:
            return f"{self.name} sent {request.type.name} about server {target}, which only an administrator may send"
        return None


def _id(text: str, low: int) -> int | None:
    """Read an id from `low` to `MAX_ID` - 1, in decimal without leading zeros; None for any other text."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_ID)) or str(int(text)) != text:
        return None
    return int(text) if low <= int(text) < MAX_ID else None


def concerned(request: Request) -> int | None:
    """Return the id of the server that a request adds or removes; None for other or unreadable requests."""
    if not request.entries:
        return None
    try:
        match request.type:
            case MessageType.ADD_SERVER_REQUEST:
                return ClusterServer.decode(request.entries[0].value).id
            case MessageType.REMOVE_SERVER_REQUEST:
                return decode_server_id(request.entries[0].value)
            case _:
                return None
    except RemoteProtocolError:
        return None
