"""`gf-i2p explain` as text: the farm's choice, the administrators' entries, this server's part."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.commands import explain
from gf_i2p.cli.commands.explain import show_explanation
from gf_i2p.cli.shared.answer_text import MEMBERSHIP_TEXTS, NO_LEADER_KNOWN
from gf_i2p.cli.shared.command import print_answer
from gf_i2p.cli.shared.errors import Exit
from tests.cli.shared.test_answer_text import SENT

DATE = 1_790_000_000_000
MADE = {"index": 12, "date": DATE, "by": "admin-jo", "what": "exclude a.b32.i2p", "reason": "moves\x1b[2J"}


def answer(**changes: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "moved_to": None,
        "drained": {},
        "excluded": {},
        "costs": {},
        "parameters": {},
        "changes": [],
        "sensed": [],
    }
    said |= changes.pop("administration", {})
    ours = {"mode": "meta", "publish": "auto", "publishing": None, "trouble": [], **changes.pop("this", {})}
    return {
        "id": 1,
        "applied": 20,
        "leader": 1,
        "membership": "member",
        "farm": {"publisher": 1, "off": False, "administration": said},
        "lines": ["server 1 publishes (meta): it is the only server that can"],
        "this": ours,
        **changes,
    }


def test_where_nobody_has_changed_anything_and_nothing_is_published() -> None:
    assert show_explanation(answer()).splitlines() == [
        "server 1 publishes (meta): it is the only server that can",
        "",
        "administrators have changed nothing",
        "",
        "this server, 1: mode meta, publishes when it is chosen",
        "  it publishes nothing now",
    ]


@pytest.mark.parametrize(
    ("mode", "does", "nothing"),
    [
        ("failover", "serves when it is chosen", "it serves"),
        ("dry-run", "would publish", "it publishes"),
    ],
)
def test_words_of_other_modes(mode: str, does: str, nothing: str) -> None:
    lines = show_explanation(answer(this={"mode": mode})).splitlines()
    assert lines[-2].startswith(f"this server, 1: mode {mode}, {does}")
    assert lines[-1] == f"  {nothing} nothing now"


def test_who_has_changed_what_and_what_is_published() -> None:
    administration = {
        "moved_to": 2,
        "drained": {"3": {**MADE, "reason": None}},
        "excluded": {"a.b32.i2p": MADE},
        "costs": {"b.b32.i2p": 7},
        "changes": [MADE],
    }
    ours = {"publishing": SENT, "publish": "on", "trouble": ["the router hung up"]}
    assert show_explanation(answer(administration=administration, this=ours)).splitlines()[1:] == [
        "",
        "administrators:",
        "  publishing was moved to server 2",
        "  server 3 is drained by admin-jo since 2026-09-21 14:13:20 UTC",
        "  a.b32.i2p is excluded by admin-jo since 2026-09-21 14:13:20 UTC: moves\\x1b[2J",
        "  b.b32.i2p costs 7",
        "  the last changes:",
        "          12  2026-09-21 14:13:20 UTC  admin-jo: exclude a.b32.i2p (moves\\x1b[2J)",
        "",
        "this server, 1: mode meta, publishes before others",
        "  2 leaves of m.b32.i2p given to the router 3 times, good for 30 minutes",
        "  the last: attempted 00:16:41 UTC, sent 00:16:43 UTC, not confirmed: no server has looked since",
        "  the next is due in 30 s: a set must not grow old",
        "  trouble: the router hung up",
    ]


def test_where_nothing_is_known_nothing_is_said_of_leaves_and_administrators() -> None:
    nobody = "nobody publishes: the servers of the farm are not known yet"
    given = answer(applied=0, leader=None, lines=[nobody, "0 leaves are listed"])
    assert show_explanation(given).splitlines()[:4] == [NO_LEADER_KNOWN, "", nobody, ""]
    assert "this server, 1" in show_explanation(given).splitlines()[4]


def test_a_date_that_is_none_is_no_defect() -> None:
    text = show_explanation(answer(administration={"changes": [{**MADE, "date": 2**53 - 1}]}))
    assert "at an unknown time" in text


@pytest.mark.parametrize(("publisher", "code"), [(1, Exit.OK), (None, Exit.DEGRADED)])
@pytest.mark.parametrize("as_json", [True, False])
def test_the_exit_code_says_whether_anybody_publishes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    publisher: int | None,
    code: Exit,
    as_json: bool,
) -> None:
    asked: list[object] = []
    given = answer()
    given["farm"]["publisher"] = publisher

    def ask(*what: object) -> Any:
        asked.append(what)
        return given

    monkeypatch.setattr(explain, "ask", ask)
    assert print_answer(explain.run(Namespace(directory=tmp_path)), as_json=as_json) == code
    assert asked == [(tmp_path, "GET", "/v1/explain")]
    told = capsys.readouterr().out
    assert told.startswith('{"ok": true') is as_json
    assert not as_json or json.loads(told) == {"ok": True, **given}


@pytest.mark.parametrize(
    ("off", "mode", "leader", "code"),
    [
        (True, "off", 1, Exit.OK),
        (True, "meta", 1, Exit.DEGRADED),  # this server's mode is meta, but the log says "off"
        (False, "off", 1, Exit.DEGRADED),
        (True, "off", None, Exit.DEGRADED),
    ],
)
def test_where_publishing_is_off_nobody_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: bool, mode: str, leader: int | None, code: Exit
) -> None:
    given = answer(this={"mode": mode}, leader=leader)
    given["farm"] |= {"publisher": None, "off": off}
    monkeypatch.setattr(explain, "ask", lambda *_: given)
    assert explain.run(Namespace(directory=tmp_path)).exit == code


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"membership": "removed"}, MEMBERSHIP_TEXTS["removed"]), ({"leader": None}, NO_LEADER_KNOWN)],
)
def test_what_is_wrong_with_the_servers_place_comes_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    said: str,
) -> None:
    given = answer(**changes)
    monkeypatch.setattr(explain, "ask", lambda *_: given)
    found = explain.run(Namespace(directory=tmp_path))
    assert found.exit == Exit.DEGRADED
    assert found.text.splitlines()[:2] == [said, ""]
