"""The judgement of an attack names each harm, and the table shows the harm."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from integration.attack.attack import Attack, Load, Outcome, Rights, Scene
from integration.attack.attacked_farm import LogEntry, Memory
from integration.attack.judgement import (
    MOST_KIB,
    MOST_LINES,
    MOST_LOGIN_SECONDS,
    PEAK_KIB,
    Service,
    Trial,
    View,
    harm,
)
from integration.attack.table import COLUMNS, Row, heading, lines


async def _nothing(_: Scene) -> Load:
    return Load("")


def log(*values: str, first: int = 1) -> dict[int, LogEntry]:
    return {index: (3, "application", value) for index, value in enumerate(values, first)}


HONEST = ('{"key":"0:1"}', '{"key":"0:2"}')
BEFORE = View(1, 3, {1: "tcp://a:1", 2: "tcp://b:1"}, Memory(70 << 10, 70 << 10), {1: log(*HONEST), 2: log(*HONEST)}, 2)
AFTER = replace(BEFORE, entries={server: log(*HONEST, '{"key":"0:3"}') for server in (1, 2)})
ATTACK = Attack("many-words", Rights.CLIENT, Outcome.KEPT, _nothing)
TRIAL = Trial(
    ATTACK,
    Load("3 posts"),
    BEFORE,
    AFTER,
    Service([0.002] * 40),
    Service([0.003] * 80),
    0.2,
    0.1,
    {1: ["a line"], 2: []},
)


def after(entries: Mapping[int, Mapping[int, LogEntry]] | None = None, **changes: Any) -> Trial:
    return replace(TRIAL, after=replace(AFTER, entries=AFTER.entries if entries is None else entries, **changes))


def test_a_farm_that_bears_an_attack_has_no_harm() -> None:
    assert harm(TRIAL) == []
    assert lines(Row.of(TRIAL)).endswith("ok")


HARMS = {
    "server 1 led term 3": after(leader=2, term=4),
    "term 3, and afterwards server 1 term 4": after(term=4),
    "2 honest posts were refused": replace(TRIAL, meanwhile=Service([0.003], 2)),
    "an honest post took": replace(TRIAL, meanwhile=Service([0.003, ATTACK.most_seconds + 0.1])),
    "an honest post took inf": replace(TRIAL, meanwhile=Service([])),
    "an honest login and post took 12.1 s": replace(TRIAL, newcomer=MOST_LOGIN_SECONDS + 0.1),
    "server 2 has changed its committed entries [2]": after({1: log(*HONEST), 2: log(HONEST[0], "x")}),
    "servers 1 and 2 differ in their committed entries [3]": after({1: log(*HONEST, "a"), 2: log(*HONEST, "b")}),
    "entry 3 is no honest client's: hostile": after({server: log(*HONEST, "hostile") for server in (1, 2)}),
    "the servers have changed": after(endpoints={1: "tcp://a:1", 2: "tcp://c:9"}),
    "a node keeps 289 MiB": after(memory=Memory(MOST_KIB + 1024, 0)),
    "a node needed 449 MiB": after(memory=Memory(70 << 10, PEAK_KIB + 1024)),
    "server 2 says: Traceback": replace(TRIAL, output={1: [], 2: ["Traceback (most recent call last)"]}),
    "server 1 has logged": replace(TRIAL, output={1: ["x"] * (MOST_LINES + 1)}),
    "3 wrong logins": replace(TRIAL, load=Load("", ("3 wrong logins were let in",))),
}


@pytest.mark.parametrize("sentence", HARMS)
def test_each_harm_is_named(sentence: str) -> None:
    trial = HARMS[sentence]
    assert any(sentence in each for each in harm(trial)), harm(trial)
    assert "HARM" in lines(Row.of(trial))


def test_a_seized_server_may_depose_the_leader_and_change_nothing() -> None:
    deposed = replace(after(leader=2, term=9), attack=replace(ATTACK, outcome=Outcome.BACK), back_seconds=4.4)
    assert harm(deposed) == []
    assert " 1>2 4 s " in lines(Row.of(deposed))
    assert harm(replace(deposed, after=replace(deposed.after, entries={1: log("x", "y"), 2: log("x", "y")}))) != []


def test_an_accepted_cost_is_shown_and_is_no_harm() -> None:
    changed = replace(after({1: log("x"), 2: log("y")}), attack=replace(ATTACK, outcome=Outcome.SHOWN))
    assert harm(changed) == []
    assert lines(Row.of(changed)).endswith("shown")


def test_posts_of_an_attacker_that_may_post_are_no_harm() -> None:
    posted = after({server: log(*HONEST, "hostile") for server in (1, 2)})
    assert harm(replace(posted, attack=replace(ATTACK, writes=True))) == []


def test_entries_that_the_log_has_dropped_are_not_missed() -> None:
    assert harm(after({server: log('{"key":"0:2"}', first=2) for server in (1, 2)})) == []


def test_percentiles_are_of_the_acknowledged_posts() -> None:
    service = Service([number / 100 for number in range(100, 0, -1)])
    assert (service.percentile(0.5), service.percentile(0.99), service.percentile(1.0)) == (0.51, 1.0, 1.0)


def test_no_line_of_the_table_is_wider_than_100_columns() -> None:
    wide = replace(
        after(leader=2, term=4, memory=Memory(999 << 10, 999 << 10)),
        attack=replace(ATTACK, name="overwritten-entries"),
        load=Load("9,999,999 connections of 64 MiB to 1 GiB, 9,999,999 accepted"),
        usual=Service([9.999]),
        meanwhile=Service([99.999]),
        back_seconds=89.0,
    )
    table = [*heading().splitlines(), *lines(Row.of(wide)).splitlines()]
    assert max(map(len, table)) <= COLUMNS
    assert "9999>99999" in table[2]
    assert "9,999,999 accepted" in table[3]


def test_the_figures_of_a_row_are_for_programs() -> None:
    figures = Row.of(TRIAL).figures()
    assert figures["p99"] == [0.002, 0.003]
    assert figures["memory"] == [70 << 10, 70 << 10, 70 << 10]
    assert (figures["leader"], figures["term"], figures["lines"]) == ([1, 1], [3, 3], 1)
    assert Row("first-packets", Load("all"), [], None).figures() == {
        "attack": "first-packets",
        "load": "all",
        "harm": [],
    }
