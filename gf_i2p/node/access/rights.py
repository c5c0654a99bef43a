"""Who may write what into the farm's log: only where a post comes in is it known who posts.

A status record is its own server's or member's. What an administrator says is said by an administrator, or by the
operator of a server on its own machine, in that server's name. A leaf-only member posts its records and nothing else,
and not too often. All else is data of applications, about which the farm knows nothing.

This is checked by the server that takes the post, the leader. Who holds a server's credentials, and leads, can write
whatever it likes: servers trust each other that far (ARCHITECTURE, "Choices").
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog

from gf_i2p.farm.admin_entries import MAX_ENTRY_BYTES, AdminEntry
from gf_i2p.farm.posters import MAX_MEMBER_BYTES
from gf_i2p.farm.record.status_record import FIRST_MEMBER_ID, RecordError, StatusRecord
from gf_i2p.farm.strict_json import decode_object
from gf_i2p.node.access.roles import Role, User
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.messages import MessageType, Request

logger = structlog.get_logger()

MAX_MEMBER_DESTINATIONS: Final = 16
RECORD_SECONDS: Final = 5.0
"""Between two records of one leaf-only member, on average."""
RECORDS_AT_ONCE: Final = 6
"""So many may come at once after a silence."""
_MAX_OPENINGS: Final = 8


class Rights:
    """What users of one farm may post here."""

    def __init__(
        self, cluster: str, servers: Callable[[], Collection[int]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`servers`: gives the ids of the farm's. `clock`: monotonic seconds."""
        self._cluster = cluster
        self._servers = servers
        self._clock = clock
        self._allowances: dict[str, _Allowance] = {}

    def objection(self, user: User, request: Request) -> str | None:
        """Return why this user may not post this; None when it may, or when nothing is posted."""
        if request.type is not MessageType.CLIENT_REQUEST:
            return None
        if user.role is Role.LEAF and (
            len(request.entries) > 1 or any(each.value_type is not ValueType.APPLICATION for each in request.entries)
        ):
            return f"{user.name} posted what is not one record"
        return self.objection_to(
            user, [entry.value for entry in request.entries if entry.value_type is ValueType.APPLICATION]
        )

    def objection_to(self, user: User, values: Sequence[bytes]) -> str | None:
        """Do the same for values that come another way: from the operator of a server, on its machine."""
        servers = self._servers()
        for value in values:
            if user.role is Role.LEAF:
                why_not = self._objection_to_member(user, value, servers)
            else:
                why_not = self._objection_to_record(user, value, servers) or self._objection_to_admin(user, value)
            if why_not is not None:
                return why_not
        return None

    def too_many(self, user: User, request: Request) -> bool:
        """Whether a leaf-only member posts too often; what it posts is counted. For the server that leads."""
        if user.role is not Role.LEAF or not request.entries:
            return False
        allowance = self._allowances.get(user.name)
        if allowance is None:
            allowance = self._allowances[user.name] = _Allowance(self._clock())
        return not allowance.take(self._clock(), user.name)

    def forget(self, users: Collection[str]) -> None:
        """Let go of what was counted for users that are there no more."""
        for user in users:
            self._allowances.pop(user, None)

    def _objection_to_record(self, user: User, value: bytes, servers: Collection[int]) -> str | None:
        if not _may_name(value, b'"up"'):
            return None
        try:
            record = StatusRecord.parse(value)
        except RecordError:
            return None
        if record.cluster != self._cluster or record.id == user.server_id:
            return None
        if record.id in servers:
            return f"{user.name} posted a status record of server {record.id}"
        if record.id >= FIRST_MEMBER_ID:
            return f"{user.name} posted a status record of the leaf-only member {record.id}"
        return None

    def _objection_to_member(self, user: User, value: bytes, servers: Collection[int]) -> str | None:
        if len(value) > MAX_MEMBER_BYTES:
            return f"{user.name} posted a record of {len(value)} bytes: it may have {MAX_MEMBER_BYTES}"
        try:
            record = StatusRecord.parse(value)
        except RecordError as error:
            return f"{user.name} posted what is no status record: {error}"
        if record.cluster != self._cluster:
            return f"{user.name} posted a status record of another farm"
        if record.id != user.member_id or record.id in servers:
            return f"{user.name} posted a status record of {record.id}"
        if len(record.leaves) > MAX_MEMBER_DESTINATIONS:
            return f"{user.name} posted {len(record.leaves)} destinations: it may have {MAX_MEMBER_DESTINATIONS}"
        if record.meta is not None or record.remote_routers:
            return f"{user.name} posted what only servers say: meta, or remoteRouters"
        return None

    def _objection_to_admin(self, user: User, value: bytes) -> str | None:
        if not _may_name(value, b'"action"'):
            return None
        try:
            entry = AdminEntry.parse(value)
        except RecordError as error:
            # Nobody acts on it; but who is allowed to administer meant it, and is told.
            meant = user.role is not Role.CLIENT and self._looks_like_admin(value)
            return f"{user.name} posted an admin entry with a mistake: {error}" if meant else None
        if entry.cluster != self._cluster:
            return None
        if entry.by != user.name:
            return f"{user.name} posted an admin entry in the name of {entry.by!r}"
        if user.role not in {Role.ADMIN, Role.SERVER}:
            return f"{user.name} posted an admin entry, which only administrators and servers may"
        return None

    def _looks_like_admin(self, value: bytes) -> bool:
        """Whether an application can hardly have meant anything else by it."""
        try:
            found = decode_object(value, "it", max_bytes=4 * MAX_ENTRY_BYTES, max_openings=4 * _MAX_OPENINGS)
        except RecordError:
            return False
        return found.get("cluster") == self._cluster and "by" in found and "action" in found


def _may_name(value: bytes, name: bytes) -> bool:
    """Whether JSON may have this name in it: most posts are not read for nothing. Any letter can be escaped."""
    return name in value or b"\\" in value


class _Allowance:
    """How many records a member may post now."""

    __slots__ = ("_at", "_left", "_told")

    def __init__(self, now: float) -> None:
        self._left = float(RECORDS_AT_ONCE)
        self._at = now
        self._told = False

    def take(self, now: float, user: str) -> bool:
        """Take one if there is one left. That there is none is logged once, until there is again as many as may be."""
        self._left = min(self._left + (now - self._at) / RECORD_SECONDS, float(RECORDS_AT_ONCE))
        self._at = now
        if self._left >= RECORDS_AT_ONCE:
            self._told = False
        if self._left >= 1:
            self._left -= 1
            return True
        if not self._told:
            self._told = True
            logger.warning("refused", reason=f"{user} posts more than one record each {RECORD_SECONDS:g} s")
        return False
