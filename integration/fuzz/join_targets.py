"""Targets for a server that joins by a code: code, ticket, admission, and the answer of the farm."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from gf_i2p.farm.admission import Admission, Admitted, Ticket
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.server_tables import ServerTable
from gf_i2p.node.membership.join_code import JoinCode, JoinCodeError, Joined
from integration.fuzz import samples
from integration.fuzz.target import Target

_PIN: Final = f"sha256:{'ab' * 32}"
_TICKET: Final = Ticket(4, "tcp://192.0.2.4:9001", samples.NOW_MS, "admin-a", bytes(range(32)), bytes(64))
_INSIDE: Final = replace(_TICKET, endpoint="i2p")
_ADMISSION: Final = Admission(_TICKET, _TICKET.endpoint, _PIN, LoginKey(bytes(range(32))).public.raw, bytes(64))
_ANSWER: Final[dict[str, Any]] = {
    "cluster": "farm",
    "profile": "auto",
    "servers": [{"id": 1, "endpoint": "tcp://192.0.2.1:9001", "fingerprint": _PIN, "founder": True}],
    "removed": [3],
    "users": {"server-1": f"ed25519:{'ab' * 32}"},
    "left_out": ["viewer-a"],
}


def _user(data: bytes) -> None:
    """One ticket has one name."""
    name = data.decode("latin-1")
    assert Ticket.of_user(name).user == name


def _ticket(data: bytes) -> None:
    assert Ticket.decode(data).encode() == data


def _code(data: bytes) -> None:
    text = data.decode("latin-1")
    assert JoinCode.parse(JoinCode.parse(text).text).text


def _codes() -> Iterator[bytes]:
    servers = (
        ServerTable(id=1, endpoint="tcp://192.0.2.1:9001", fingerprint=_PIN),
        ServerTable(id=2, endpoint=f"tcp://{'a' * 52}.b32.i2p:80"),
    )
    for ticket in (_TICKET, _INSIDE):
        yield JoinCode("farm", ticket, bytes(range(32)), servers).text.encode()


def _admission(data: bytes) -> None:
    value = json.loads(data)
    admission = Admission.parse(value)
    assert Admission.parse(admission.encode()) == admission
    admitted = Admitted(admission, 7, samples.NOW_MS)
    assert Admitted.parse(admitted.encode()) == admitted


def _joined(data: bytes) -> None:
    Joined.parse(json.loads(data))


TARGETS: Final = (
    Target("newcomer-name", _user, (ValueError,), lambda: [t.user.encode() for t in (_TICKET, _INSIDE)]),
    Target("join-ticket", _ticket, (ValueError,), lambda: [t.encode() for t in (_TICKET, _INSIDE)]),
    Target("join-code", _code, (JoinCodeError,), _codes),
    Target(
        "admission",
        _admission,
        (RecordError, ValueError, RecursionError),
        lambda: [json.dumps(_ADMISSION.encode()).encode()],
    ),
    Target("join-answer", _joined, (JoinCodeError, ValueError, RecursionError), lambda: [json.dumps(_ANSWER).encode()]),
)
