"""The network status that follows from the numbers in an i2pcontrol answer, by router and version."""

import pytest

from bridges.i2pcontrol import router_answers as names
from bridges.i2pcontrol.router_answers import CheckedAnswer, RouterProgram, kind, reachability
from bridges.i2pcontrol.strict_json import Json
from gf_i2p.farm.record.router_facts import Reachability


def seen(router: RouterProgram | None, **values: Json) -> tuple[Reachability | None, list[str]]:
    """Return the reachability, and the notes without the common part of their names."""
    notes: list[str] = []
    said: dict[str, Json] = {"i2p.router.version": "2.58.0"}
    said |= {"i2p.router." + name.replace("_", "."): value for name, value in values.items()}
    answer = CheckedAnswer(said, notes.append)
    return reachability(router, answer, notes.append), notes


@pytest.mark.parametrize(
    ("router", "version", "expected"),
    [
        (RouterProgram.JAVA, "2.8.0-0", "ok testing firewalled hidden" + " warning" * 4 + " error" * 7),
        (RouterProgram.I2PD, "2.58.0", "ok firewalled unknown hidden ok hidden"),
        (RouterProgram.I2PD, "2.49.0", "ok firewalled unknown hidden ok hidden"),
        (RouterProgram.I2PD, "3.0.0", "ok firewalled unknown hidden ok hidden"),
        (RouterProgram.I2PD, "2.48.0", "ok testing firewalled unknown hidden ok"),
        (RouterProgram.I2PD, "2.45.1", "ok testing firewalled unknown hidden ok"),
        (RouterProgram.I2PD, "2.43.0", "ok testing firewalled error unknown hidden ok"),
        (RouterProgram.I2PD, "2.9.0", "ok testing firewalled error unknown hidden ok"),
    ],
)
def test_each_router_and_version_has_its_own_numbers(router: RouterProgram, version: str, expected: str) -> None:
    numbers = [seen(router, version=version, net_status=number) for number in range(len(expected.split()))]
    assert [state for state, _ in numbers] == [Reachability(name) for name in expected.split()]
    assert [notes for _, notes in numbers] == [[] for _ in numbers]
    beyond, notes = seen(router, version=version, net_status=len(numbers))
    assert beyond is None
    assert "which is unknown" in notes[0]


@pytest.mark.parametrize(
    ("router", "version"), [(None, "2.58.0"), (RouterProgram.I2PD, "nightly"), (RouterProgram.I2PD, None)]
)
def test_a_number_of_nobody_means_nothing_but_0(router: RouterProgram | None, version: str | None) -> None:
    assert seen(router, version=version, net_status=1)[0] is None
    assert seen(router, version=version, net_status=0) == (Reachability.OK, [])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"net_status": 2, "net_testing": 1}, "testing"),
        ({"net_status": 2, "net_testing": 0}, "unknown"),
        ({"net_status": 1, "net_testing": 1}, "firewalled"),
        ({"net_status": 2, "net_status_v6": 0}, "ok"),
        ({"net_status": 1, "net_status_v6": 0}, "ok"),
        ({"net_status": 2, "net_status_v6": 1}, "firewalled"),
        ({"net_status": 1, "net_status_v6": 2}, "firewalled"),
        ({"net_status": 0, "net_error": 0}, "ok"),
        ({"net_status": 0, "net_error": 1}, "error"),
        ({"net_status": 1, "net_error": 2}, "error"),
        ({"net_status": 1, "net_error": 3}, "firewalled"),
        ({"net_status": 0, "net_error": 77}, "error"),
    ],
)
def test_what_newer_i2pd_say_in_addition(values: dict[str, Json], expected: str) -> None:
    state, notes = seen(RouterProgram.I2PD, **values)
    assert state == Reachability(expected)
    assert len(notes) == bool(values.get("net_error"))


def test_the_names_in_an_answer_tell_the_router() -> None:
    assert kind({names.ONLY_I2PD: 0}) is RouterProgram.I2PD
    assert kind({names.ONLY_JAVA: 0}) is RouterProgram.JAVA
    assert kind({}) is None
    assert kind({names.ONLY_I2PD: 0, names.ONLY_JAVA: 0}) is None


@pytest.mark.parametrize(
    ("value", "count", "amount"),
    [
        (5, 5, 5.0),
        ("5", 5, 5.0),
        ("123.00", 123, 123.0),
        (698.5001, 698, 698.5001),
        (0, 0, 0.0),
        (None, None, None),
    ],
)
def test_numbers(value: Json, count: int | None, amount: float | None) -> None:
    notes: list[str] = []
    answer = CheckedAnswer({"x": value}, notes.append)
    assert (answer.count("x"), answer.amount("x")) == (count, amount)
    assert notes == []


@pytest.mark.parametrize(
    "value", [-1, "-1", True, "", "many", "nan", "inf", "1_0 0", 2**60, 10**31, [], {}, ["5"], "9" * 400]
)
def test_odd_numbers_are_left_out_and_noted(value: Json) -> None:
    notes: list[str] = []
    assert CheckedAnswer({"x": value}, notes.append).count("x") is None
    assert len(notes) == 1
    assert "x" in notes[0]
    assert len(notes[0]) < 250


@pytest.mark.parametrize("value", [1, "", "x" * 65, "2.8\n", "\x1b[0m", [], True])
def test_odd_texts_are_left_out_and_noted(value: Json) -> None:
    notes: list[str] = []
    assert CheckedAnswer({"x": value}, notes.append).text("x") is None
    assert len(notes) == 1


def test_what_is_missing_is_noted() -> None:
    notes: list[str] = []
    assert CheckedAnswer({}, notes.append).count("x") is None
    assert notes == ["the router does not tell x"]
