"""Rights to write into the log, for each role."""

import json
from typing import Any

import pytest

from gf_i2p.farm import strict_json
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.posters import MAX_LEAF_MEMBER_BYTES
from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, StatusRecord
from gf_i2p.farm.sensed_floodfills import Floodfill, Sensed
from gf_i2p.farm.state import read_entry
from gf_i2p.node.access.rights import (
    MAX_MEMBER_DESTINATIONS,
    RECORD_SECONDS,
    RECORDS_AT_ONCE,
    Rights,
)
from gf_i2p.node.access.roles import User
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import MessageType, Request

MEMBER = FIRST_LEAF_MEMBER_ID + 5
LEAF = Leaf(bytes(32), up=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def post(*values: bytes, kind: ValueType = ValueType.APPLICATION) -> Request:
    return Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, tuple(Entry(0, kind, value) for value in values))


def objection(name: str, *values: bytes, rights: Rights | None = None) -> str | None:
    rights, user = rights or Rights("farm", lambda: {1, 2}), User(name)
    objections = [rights.objection_to_value(user, value, rights.servers()) for value in values]
    return rights.objection_to_shape(user, post(*values)) or next(filter(None, objections), None)


def record(number: int, *leaves: Leaf, cluster: str = "farm", **more: Any) -> bytes:
    return StatusRecord(cluster, 5, number, router_up=True, leaves=leaves, **more).encode()


def admin(by: str, *, cluster: str = "farm") -> bytes:
    return AdminEntry(cluster, 5, by, "exclude", hash=bytes(32), reason="maintenance").encode()


@pytest.mark.parametrize("user", ["server-2", "client-web", "admin-alice"])
def test_a_record_is_its_own_servers_or_members(user: str) -> None:
    assert "of server 1" in str(objection(user, b"harmless", record(1)))
    assert f"of the leaf member {MEMBER}" in str(objection(user, record(MEMBER)))
    assert objection(user, record(1, cluster="another")) is None
    assert objection(user, record(7)) is None, "nobody's: it counts for nothing"
    assert objection("server-1", record(1)) is None


def test_what_was_sensed_is_said_by_administrators_and_servers_in_their_own_names() -> None:
    sensed = Sensed("2026-07-02", (Floodfill(bytes(32), bytes(32)),))
    said = {
        by: AdminEntry("farm", 5, by, "sensed", hash=bytes(32), sensed=sensed).encode()
        for by in ("admin-alice", "server-2", "client-web")
    }
    assert objection("admin-alice", said["admin-alice"]) is None
    assert objection("server-2", said["server-2"]) is None
    assert "in the name of 'server-2'" in str(objection("admin-alice", said["server-2"]))
    assert "only administrators and servers may" in str(objection("client-web", said["client-web"]))


def test_an_administrator_speaks_in_its_own_name_and_an_operator_in_its_servers() -> None:
    assert objection("admin-alice", admin("admin-alice")) is None
    assert objection("server-1", admin("server-1")) is None
    assert "in the name of 'admin-bob'" in str(objection("admin-alice", admin("admin-bob")))
    assert "in the name of 'admin-alice'" in str(objection("server-1", admin("admin-alice")))
    assert "in the name of 'admin-alice'" in str(objection("client-web", admin("admin-alice")))
    assert "only administrators and servers" in str(objection("client-web", admin("client-web")))
    assert objection("client-web", admin("admin-alice", cluster="another")) is None


def test_a_servers_key_comes_from_an_administrator_or_from_that_server() -> None:
    def key(by: str, server: int) -> bytes:
        return AdminEntry("farm", 5, by, "serverKey", server=server, key=bytes(32)).encode()

    assert objection("admin-alice", key("admin-alice", 2)) is None
    assert objection("server-2", key("server-2", 2)) is None
    assert objection("server-1", key("server-1", 2)) == (
        "server-1 posted a key of server 2, which only an administrator may post"
    )
    assert "in the name of 'server-2'" in str(objection("server-1", key("server-2", 2)))
    assert "only administrators and servers" in str(objection("client-web", key("client-web", 2)))


def test_a_name_that_is_written_another_way_is_the_same_name() -> None:
    value = admin("admin-alice")
    for name in (b'"action"', b'"by"'):
        escaped = value.replace(name, b'"' + b"".join(b"\\u%04x" % letter for letter in name[1:-1]) + b'"')
        assert escaped != value
        assert "in the name of" in str(objection("client-web", escaped))
    escaped = record(1).replace(b'"up"', b'"\\u0075p"')
    assert "of server 1" in str(objection("client-web", escaped))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"action": "exlude"}, "action is one of"),
        ({"hash": "short"}, "the hash"),
        ({"date": "now"}, "date"),
        ({"action": "set", "parameters": {"margin": -1}}, "margin is a whole number"),
    ],
)
def test_an_admin_entry_with_a_mistake_is_refused_with_the_reason(change: dict[str, Any], why: str) -> None:
    value = json.dumps({**json.loads(admin("admin-alice")), **change}).encode()
    for user in ("admin-alice", "server-1"):
        assert why in str(objection(user, value))
    assert objection("client-web", value) is None, "an application may use these names; nobody acts on it"


@pytest.mark.parametrize("user", ["server-2", "client-web", "admin-alice"])
@pytest.mark.parametrize("value", [b"", b"\xff", b'{"action":"buy","by":"me"}', b'["action"]', b'{"router":{"up":1}}'])
def test_all_else_is_data_of_applications(user: str, value: bytes) -> None:
    assert objection(user, value) is None


def test_a_member_posts_its_own_records_and_nothing_else() -> None:
    user = f"leaf-{MEMBER}"
    assert objection(user, record(MEMBER, LEAF)) is None
    assert objection(user) is None, "that asks who leads"
    for other in (1, 7, MEMBER + 1):
        assert f"a status record in the name of {other}" in str(objection(user, record(other)))
    assert "no status record" in str(objection(user, b"hello"))
    assert "no status record" in str(objection(user, admin(user)))
    assert "another farm" in str(objection(user, record(MEMBER, cluster="another")))
    assert "other than one status record" in str(objection(user, record(MEMBER), record(MEMBER)))
    rights = Rights("farm", lambda: {1, 2})
    assert "other than one status record" in str(
        rights.objection_to_shape(User(user), post(b"", kind=ValueType.CONFIGURATION))
    )


def test_a_member_is_no_server_whatever_its_id() -> None:
    rights = Rights("farm", lambda: {MEMBER})
    assert "a status record in the name of" in str(objection(f"leaf-{MEMBER}", record(MEMBER), rights=rights))
    assert objection(f"server-{MEMBER}", record(MEMBER), rights=rights) is None


def test_a_members_record_has_its_limits() -> None:
    user = f"leaf-{MEMBER}"
    most = [Leaf(bytes([number]) * 32, up=True) for number in range(MAX_MEMBER_DESTINATIONS + 1)]
    assert objection(user, record(MEMBER, *most[:-1])) is None
    assert "17 destinations" in str(objection(user, record(MEMBER, *most)))
    long = record(MEMBER, extra={"note": "x" * MAX_LEAF_MEMBER_BYTES})
    assert f"at most {MAX_LEAF_MEMBER_BYTES} are allowed" in str(objection(user, long))
    meta = Meta("AAAA", "on", publishing=True, last_published_ms=2**52)
    assert "which only servers may post" in str(objection(user, record(MEMBER, meta=meta)))
    accused = (RemoteRouter(1, reachable=False),)
    assert "which only servers may post" in str(objection(user, record(MEMBER, remote_routers=accused)))


def test_a_member_posts_one_record_in_five_seconds_on_average() -> None:
    clock = Clock()
    rights = Rights("farm", lambda: {1, 2}, clock=clock)

    def too_many(times: int, user: str = f"leaf-{MEMBER}") -> list[bool]:
        return [rights.too_many(User(user)) is not None for _ in range(times)]

    assert too_many(RECORDS_AT_ONCE + 2) == [False] * RECORDS_AT_ONCE + [True] * 2
    assert too_many(1, f"leaf-{MEMBER + 1}") == [False]
    assert not any(too_many(100, "client-web"))
    clock.now += RECORD_SECONDS
    assert too_many(2) == [False, True]
    clock.now += 1000 * RECORD_SECONDS
    assert too_many(RECORDS_AT_ONCE + 1) == [False] * RECORDS_AT_ONCE + [True]


def test_a_value_is_decoded_once_and_one_without_the_names_never(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    decode = strict_json._decode

    def count(data: bytes) -> dict[str, Any]:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(strict_json, "_decode", count)
    both = b'{"up":true,"action":"set","cluster":"farm","by":"me","a":[0]}'
    plain = b'{"cluster":"farm","date":5,"text":"\\n"}'
    assert objection("client-web", both, plain) is None
    assert decoded == [both]
    for user in ("server-1", "admin-alice"):
        assert "admin entry with a mistake" in str(objection(user, both))
    assert decoded == [both] * 3
    for value in (both, plain):
        assert read_entry(value) is None
    assert decoded == [both] * 4
