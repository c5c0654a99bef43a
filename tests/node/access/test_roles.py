"""Messages that each role may send."""

import pytest

from gf_i2p.node.access.roles import User, concerned
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, encode_server_id
from gf_i2p.wire.messages import RESPONSE_TYPE, MessageType, Request


def request(kind: MessageType, source: int = 0) -> Request:
    return Request(kind, source, 0, 0, 0, 0, 0)


def test_a_server_speaks_only_for_itself() -> None:
    user = User("server-7")
    for kind in RESPONSE_TYPE:
        assert user.objection(request(kind, 7)) is None
        objection = user.objection(request(kind, 8))
        assert objection is not None
        assert "in the name of server 8" in objection


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("client-web", {MessageType.CLIENT_REQUEST}),
        (
            "admin-alice",
            {MessageType.CLIENT_REQUEST, MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST},
        ),
        ("leaf-2147483648", {MessageType.CLIENT_REQUEST}),
    ],
)
def test_clients_and_administrators_are_bounded(name: str, allowed: set[MessageType]) -> None:
    user = User(name)
    assert {kind for kind in RESPONSE_TYPE if user.objection(request(kind)) is None} == allowed


@pytest.mark.parametrize(
    "name",
    [
        *(
            "root",
            "server-",
            "server-x",
            "server-01",
            "server--1",
            "server-4294967295",
            "server-٣",
            "",
            "client-",
            "-a",
        ),
        *("leaf-7", "leaf-2147483647", "leaf-4294967295", "leaf-02147483648", "leaf-", "leaf-x"),
    ],
)
def test_other_names_have_no_rights(name: str) -> None:
    with pytest.raises(ValueError, match="user"):
        User(name)


def test_a_leaf_member_has_an_id_that_no_new_server_has() -> None:
    assert User("leaf-2147483648").member_id == 2**31
    assert User("leaf-4294967294").member_id == 2**32 - 2
    assert User("leaf-2147483648").server_id is None


def about(kind: MessageType, server: int, source: int = 7) -> Request:
    adds = kind is MessageType.ADD_SERVER_REQUEST
    value = ClusterServer(server, "tcp://localhost:1").encode() if adds else encode_server_id(server)
    return Request(kind, source, 0, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))


@pytest.mark.parametrize("kind", [MessageType.ADD_SERVER_REQUEST, MessageType.REMOVE_SERVER_REQUEST])
def test_a_server_joins_and_leaves_by_itself_and_moves_nobody_else(kind: MessageType) -> None:
    assert User("server-7").objection(about(kind, 7)) is None
    objection = User("server-7").objection(about(kind, 8))
    assert objection is not None
    assert "about server 8" in objection
    assert User("admin-alice").objection(about(kind, 8, source=0)) is None
    assert User("client-web").objection(about(kind, 8, source=0)) is not None


def test_what_cannot_be_read_concerns_nobody() -> None:
    bad = Request(MessageType.ADD_SERVER_REQUEST, 7, 0, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, b"?"),))
    assert concerned(bad) is None
    assert concerned(request(MessageType.ADD_SERVER_REQUEST)) is None
    assert concerned(request(MessageType.CLIENT_REQUEST)) is None
