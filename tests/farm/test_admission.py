"""Tickets and admissions: their bytes, and what the log makes of them."""

import random
from dataclasses import replace

import pytest

from gf_i2p.farm.admin_entries import MAX_ADMITTED, AdminEntry, Administration
from gf_i2p.farm.admission import INSIDE, MAX_BY, MAX_ENDPOINT, USER_PREFIX, Admission, Ticket
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.wire.limits import MAX_AUTH_VALUE_BYTES, MAX_NEWCOMER_BYTES

TICKET = Ticket(4, INSIDE, 1_790_000_000_000, "admin-ops", bytes(range(32)), bytes(range(64)))
ADMISSION = Admission(TICKET, "tcp://192.0.2.4:9001", f"sha256:{'ab' * 32}", bytes(range(1, 33)), bytes(64))


def entry(admission: Admission = ADMISSION) -> AdminEntry:
    return AdminEntry("farm", 5, "server-1", "admit", admission=admission)


def test_a_ticket_is_read_as_it_was_written() -> None:
    assert Ticket.decode(TICKET.encode()) == TICKET
    assert Ticket.of_user(TICKET.user) == TICKET
    longest = replace(TICKET, by="admin-".ljust(MAX_BY, "a"), endpoint="e" * MAX_ENDPOINT)
    assert Ticket.of_user(longest.user) == longest
    assert len(longest.user) <= MAX_NEWCOMER_BYTES <= MAX_AUTH_VALUE_BYTES


def test_a_damaged_ticket_is_refused_and_never_another_ticket() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    name = TICKET.user
    wrong = [name[:length] for length in range(len(name))]
    for _ in range(2000):
        at = chance.randrange(len(name))
        wrong.append(name[:at] + chance.choice("AB_-=+/ é\0.") + name[at + 1 :])
    for damaged in wrong:
        try:
            read = Ticket.of_user(damaged)
        except ValueError:
            continue
        assert (read == TICKET) == (damaged == name), f"seed {seed}"
        assert read.user == damaged, f"seed {seed}: one ticket has one name"


@pytest.mark.parametrize(
    "change",
    [
        {"by": "client-web"},
        {"by": "server-1"},
        {"by": "admin-"},
        {"by": "admin-o\nx"},
        {"by": "admin-" + "o" * MAX_BY},
        {"endpoint": ""},
        {"endpoint": "tcp://a b"},
        {"endpoint": "e" * (MAX_ENDPOINT + 1)},
        {"server": -1},
        {"server": 1 << 32},
        {"until_ms": -1},
        {"key": b""},
        {"signature": b""},
    ],
)
def test_no_ticket_has_other_values(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a ticket"):
        replace(TICKET, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", USER_PREFIX, "server-1", TICKET.user + "=", " " + TICKET.user])
def test_other_names_carry_no_ticket(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Ticket.of_user(name)


@pytest.mark.parametrize(
    "change",
    [{"server": 5}, {"endpoint": "tcp://192.0.2.4:9001"}, {"until_ms": 1}, {"by": "admin-eve"}, {"key": bytes(32)}],
)
def test_the_signed_text_covers_every_field(change: dict[str, object]) -> None:
    other = replace(TICKET, **change)  # type: ignore[arg-type]
    assert other.signed_text("farm") != TICKET.signed_text("farm") != TICKET.signed_text("barn")
    assert replace(ADMISSION, ticket=other).signed_text("farm") != ADMISSION.signed_text("farm")


@pytest.mark.parametrize("change", [{"endpoint": "tcp://192.0.2.5:9001"}, {"fingerprint": None}, {"key": bytes(32)}])
def test_the_newcomer_signs_all_that_it_says(change: dict[str, object]) -> None:
    other = replace(ADMISSION, **change)  # type: ignore[arg-type]
    assert other.signed_text("farm") != ADMISSION.signed_text("farm") != ADMISSION.signed_text("barn")


def test_an_admission_is_an_entry_of_the_log() -> None:
    assert AdminEntry.parse(entry().encode()) == entry()
    assert entry().changes_no_choice
    assert entry().what == "admit server 4 at tcp://192.0.2.4:9001, invited by admin-ops"
    damages: list[dict[str, str]] = [
        {"ticket": "AA"},
        {"signature": "00"},
        {"signature": "x" * 128},
        {"endpoint": ""},
        {"key": "AA"},
        {"fingerprint": "sha256:x"},
    ]
    for damage in damages:
        with pytest.raises(RecordError):
            Admission.parse({**ADMISSION.encode(), **damage})
    with pytest.raises(RecordError):
        AdminEntry.parse(b'{"cluster":"farm","date":5,"by":"server-1","action":"admit"}')


def test_the_first_admission_with_an_id_counts() -> None:
    state = Administration()
    state.apply(entry(), 7)
    state.apply(entry(replace(ADMISSION, key=bytes(32))), 8)
    assert {server: (each.admission, each.index) for server, each in state.admitted.items()} == {4: (ADMISSION, 7)}
    assert Administration.parse(state.encode()).admitted == state.admitted


def test_an_admission_stays_until_its_server_has_left() -> None:
    state = Administration()
    state.apply(entry(), 7)
    state.forget({1, 2})
    assert list(state.admitted) == [4], "no member yet"
    state.forget({1, 2}, left={4})
    assert state.admitted == {}
    assert "admitted" not in state.encode(), "a state without admissions has the bytes of older versions"


def test_there_is_an_end_to_admissions() -> None:
    state = Administration()
    for server in range(MAX_ADMITTED + 5):
        state.apply(entry(replace(ADMISSION, ticket=replace(TICKET, server=server))), server + 1)
    assert len(state.admitted) == MAX_ADMITTED
