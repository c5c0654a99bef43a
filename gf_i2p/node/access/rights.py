"""The rights to write into the farm's log.

A status record may come only from the server or leaf member that the record describes. An admin entry may come only
from an administrator, or from a server's operator on the server's own machine, in that server's name. A leaf member
posts its own records and nothing else, at a limited rate. All other entries are data of applications, unknown to the
farm.

Log entries have no signatures, so only the server that takes a post can check the poster's rights; that server is the
leader. A leader with stolen credentials can write anything: servers trust each other that far (docs/design/access.md).
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.admission import Admission
from gf_i2p.farm.posters import MAX_LEAF_MEMBER_BYTES
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, RecordError, StatusRecord
from gf_i2p.farm.state import decode_entry
from gf_i2p.node.access.roles import Role, User
from gf_i2p.raft.token_bucket import TokenBucket
from gf_i2p.wire.entries import ValueType
from gf_i2p.wire.messages import Request

MAX_MEMBER_DESTINATIONS: Final = 16
"""Most leaves in the record of a leaf member."""
RECORD_SECONDS: Final = 5.0
"""Seconds between two records of one leaf member, on average."""
RECORDS_AT_ONCE: Final = 6
"""Most records that one leaf member may post at once, after 30 s without a record."""


class Rights:
    """Decides which posts of the users of one farm are allowed at this server."""

    def __init__(
        self,
        cluster: str,
        servers: Callable[[], Collection[int]],
        objection_to_admission: Callable[[Admission], str | None] = lambda _: "nobody may join",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`servers` returns the ids of the farm's servers. `clock`: monotonic seconds.

        `objection_to_admission` returns why an admission lets no server join; None: it does.
        """
        self._cluster = cluster
        self._objection_to_admission = objection_to_admission
        self.servers = servers
        self._clock = clock
        self._allowances: dict[str, TokenBucket] = {}
        """By leaf member, the records that the member may post now."""

    def objection_to_shape(self, user: User, request: Request) -> str | None:
        """Return why this user may not post this number of entries, or entries of these types; None: the user may.

        The values of the entries are not looked at.
        """
        if user.role is Role.LEAF and (
            len(request.entries) > 1 or any(each.value_type is not ValueType.APPLICATION for each in request.entries)
        ):
            return f"{user.name} posted something other than one status record"
        return None

    def objection_to_value(self, user: User, value: bytes, servers: Collection[int]) -> str | None:
        """Return why this user may not post this Application value, which is parsed once; None when the user may.

        `servers`: the ids of the farm's servers.
        """
        if user.role is Role.LEAF:
            return self._objection_to_member(user, value, servers)
        fields = decode_entry(value)
        if fields is None:
            return None
        if (why_not := self._objection_to_record(user, fields, servers)) is not None or "action" not in fields:
            return why_not
        return self._objection_to_admin(user, fields, value)

    def too_many(self, user: User) -> str | None:
        """Count a post of a leaf member; return why the post is one too many, or None. Only the leader calls this."""
        if user.role is not Role.LEAF:
            return None
        now = self._clock()
        allowance = self._allowances.get(user.name)
        if allowance is None:
            allowance = self._allowances[user.name] = TokenBucket(RECORDS_AT_ONCE, 1 / RECORD_SECONDS, now)
        if allowance.content(now) < 1:
            return f"{user.name} posts more than one record each {RECORD_SECONDS:g} s"
        allowance.spend(1)
        return None

    def forget(self, users: Collection[str]) -> None:
        """Drop the counts of users that are gone or have another password."""
        for user in users:
            self._allowances.pop(user, None)

    def _objection_to_record(self, user: User, fields: Mapping[str, Any], servers: Collection[int]) -> str | None:
        try:
            record = StatusRecord.of_fields(fields)
        except RecordError:
            return None
        if record.cluster != self._cluster or record.id == user.server_id:
            return None
        if record.id in servers:
            return f"{user.name} posted a status record of server {record.id}"
        if record.id >= FIRST_LEAF_MEMBER_ID:
            return f"{user.name} posted a status record of the leaf member {record.id}"
        return None

    def _objection_to_member(self, user: User, value: bytes, servers: Collection[int]) -> str | None:
        if len(value) > MAX_LEAF_MEMBER_BYTES:
            return f"{user.name} posted a record of {len(value)} bytes: at most {MAX_LEAF_MEMBER_BYTES} are allowed"
        try:
            record = StatusRecord.parse(value)
        except RecordError as error:
            return f"{user.name} posted a value that is no status record: {error}"
        if record.cluster != self._cluster:
            return f"{user.name} posted a status record of another farm"
        if record.id != user.member_id or record.id in servers:
            return f"{user.name} posted a status record in the name of {record.id}"
        if len(record.leaves) > MAX_MEMBER_DESTINATIONS:
            return (
                f"{user.name} posted {len(record.leaves)} destinations: at most {MAX_MEMBER_DESTINATIONS} are allowed"
            )
        if record.meta is not None or record.remote_routers:
            return f"{user.name} posted a record with meta or remoteRouters, which only servers may post"
        return None

    def _objection_to_admin(self, user: User, fields: Mapping[str, Any], value: bytes) -> str | None:
        try:
            entry = AdminEntry.of_decoded(fields, value)
        except RecordError as error:
            # The farm ignores such an entry. An administrator or server that clearly meant an admin entry learns of the
            # mistake. From a client, the value may be an application's own data.
            meant = user.role is not Role.CLIENT and self._looks_like_admin(fields)
            return f"{user.name} posted an admin entry with a mistake: {error}" if meant else None
        if entry.cluster != self._cluster:
            return None
        if entry.by != user.name:
            return f"{user.name} posted an admin entry in the name of {entry.by!r}"
        if user.role not in {Role.ADMIN, Role.SERVER}:
            return f"{user.name} posted an admin entry, which only administrators and servers may post"
        if entry.admission is not None and (why_not := self._objection_to_admission(entry.admission)) is not None:
            return f"{user.name} posted an admission: {why_not}"
        if entry.key is not None and user.role is Role.SERVER and entry.server != user.server_id:
            return f"{user.name} posted a key of server {entry.server}, which only an administrator may post"
        return None

    def _looks_like_admin(self, fields: Mapping[str, Any]) -> bool:
        """Whether the value has the fields of an admin entry for this farm; an application's data hardly has them."""
        return fields.get("cluster") == self._cluster and "by" in fields and "action" in fields
