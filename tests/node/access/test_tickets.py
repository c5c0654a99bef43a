"""Tickets and admissions against the keys that a server knows."""

from dataclasses import replace

import pytest

from gf_i2p.farm.admission import INSIDE, Admission, Ticket
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.access.tickets import objection_to_admission
from gf_i2p.wire.digest import Secret, Verifier

ADMIN, ONE_TIME, OWN = LoginKey(bytes([1] * 32)), LoginKey(bytes([2] * 32)), LoginKey(bytes([3] * 32))
NOW = 1_790_000_000_000
USERS: dict[str, Verifier] = {"admin-ops": ADMIN.public, "server-1": OWN.public, "client-web": ADMIN.public}
INSIDE_I2P = f"tcp://{'a' * 52}.b32.i2p:80"
PIN = f"sha256:{'ab' * 32}"


def ticket(endpoint: str = "tcp://192.0.2.4:9001", *, by: str = "admin-ops", key: LoginKey = ADMIN) -> Ticket:
    made = Ticket(4, endpoint, NOW + 1000, by, ONE_TIME.public.raw)
    return replace(made, signature=key.sign(made.signed_text("farm")))


def admission(made: Ticket, endpoint: str, pin: str | None, *, key: LoginKey = ONE_TIME) -> Admission:
    told = Admission(made, endpoint, pin, OWN.public.raw)
    return replace(told, signature=key.sign(told.signed_text("farm")))


RIGHT = admission(ticket(), "tcp://192.0.2.4:9001", PIN)


def test_a_right_admission_lets_a_server_in() -> None:
    assert objection_to_admission("farm", USERS, RIGHT, NOW) is None
    inside = admission(ticket(INSIDE), INSIDE_I2P, None)
    assert objection_to_admission("farm", USERS, inside, NOW + 1000) is None


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (admission(ticket(key=OWN), "tcp://192.0.2.4:9001", PIN), "not signed"),
        (admission(ticket(by="admin-eve"), "tcp://192.0.2.4:9001", PIN), "not signed"),
        (replace(RIGHT, ticket=replace(RIGHT.ticket, until_ms=NOW + 9999)), "not signed"),
        (replace(RIGHT, ticket=replace(RIGHT.ticket, server=5)), "not signed"),
        (admission(ticket(), "tcp://192.0.2.4:9001", PIN, key=OWN), "its ticket's key"),
        (replace(RIGHT, key=ADMIN.public.raw), "its ticket's key"),
        (admission(ticket(), "tcp://192.0.2.5:9001", PIN), "is for tcp://192.0.2.4:9001"),
        (admission(ticket(), INSIDE_I2P, None), "is for tcp://192.0.2.4:9001"),
        (admission(ticket(INSIDE), "tcp://192.0.2.4:9001", PIN), "is for i2p"),
        (admission(ticket(), "tcp://192.0.2.4:9001", None), "fingerprint"),
        (admission(ticket(INSIDE), INSIDE_I2P, PIN), "fingerprint"),
        (admission(ticket("nonsense"), "nonsense", PIN), "nonsense"),
        (admission(ticket(by="admin-owner"), "tcp://192.0.2.4:9001", PIN), "not signed"),
    ],
)
def test_a_wrong_admission_lets_nobody_in(wrong: Admission, word: str) -> None:
    assert word in str(objection_to_admission("farm", USERS, wrong, NOW))


def test_a_ticket_is_for_one_farm_and_has_an_end() -> None:
    assert "not signed" in str(objection_to_admission("barn", USERS, RIGHT, NOW))
    assert "too old" in str(objection_to_admission("farm", USERS, RIGHT, NOW + 1001))


def test_an_administrator_with_a_password_signs_nothing() -> None:
    users: dict[str, Verifier] = {"admin-ops": Secret.derive("admin-ops", "farm", "secret")}
    assert "not signed" in str(objection_to_admission("farm", users, RIGHT, NOW))
