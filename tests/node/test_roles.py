"""Who may send what."""

import pytest

from gf_i2p.node.roles import User
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
    ],
)
def test_clients_and_administrators_are_bounded(name: str, allowed: set[MessageType]) -> None:
    user = User(name)
    assert {kind for kind in RESPONSE_TYPE if user.objection(request(kind)) is None} == allowed


@pytest.mark.parametrize(
    "name",
    ["root", "server-", "server-x", "server-01", "server--1", "server-4294967295", "server-٣", "", "client-", "-a"],
)
def test_other_names_have_no_rights(name: str) -> None:
    with pytest.raises(ValueError, match="user"):
        User(name)
