"""Text for people in a terminal."""

from typing import Any

import pytest

from gf_i2p.cli.shared.answer_text import MEMBERSHIP_TEXTS, entry_line, show_entries, show_status


def entry(index: int, **value: str) -> dict[str, Any]:
    return {"index": index, "term": 3, "type": "application", **value}


def test_entries_are_lines_and_say_how_to_go_on() -> None:
    text = show_entries({"entries": [entry(7, value="a"), entry(8, base64="AAEC")], "commit": 9})
    assert text.splitlines() == [
        "       7  term 3    application   a",
        "       8  term 3    application   (3 bytes)",
        "(9 entries are committed; go on with --first 9)",
    ]
    assert "go on" not in show_entries({"entries": [entry(9, value="a")], "commit": 9})


RECORD = '{"cluster": "farm", "date": 1795787559123, "id": 2, "router": {"up": true}, "destinations": []}'


def test_entries_fit_into_the_terminal_unless_they_are_wanted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = entry(7, value="x" * 100)
    assert entry_line(long, full=True).endswith("x" * 100)
    line = entry_line(long, full=False)
    assert (len(line), line[-2:]) == (60, "x…")
    record = entry(8, value=RECORD)
    assert entry_line(record, full=False) == (
        "       8  term 3    application   13:52:39 status record of 2, router up"[:59] + "…"
    )
    assert entry_line(record, full=True).endswith(RECORD)


@pytest.mark.parametrize(
    "value",
    ["{}", "[]", "7", "{", '{"date": 1e400, "id": 2, "router": {"up": true}}', '{"date": 1, "id": 2, "router": 3}'],
)
def test_a_value_that_is_no_record_is_shown_as_it_is(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert entry_line(entry(7, value=value), full=False).endswith(f" {value}")


def test_no_entries() -> None:
    assert show_entries({"entries": [], "commit": 0}) == "(no entry is committed yet)"
    assert show_entries({"entries": [], "commit": 9}) == "(no entries there: 9 are committed)"


def test_a_value_cannot_control_the_terminal() -> None:
    text = show_entries({"entries": [entry(1, value="\x1b[2J\r\n\u202e\x9b \u00fc")], "commit": 1})
    assert text.endswith("\\x1b[2J\\r\\n\\u202e\\x9b \u00fc")
    assert len(text.splitlines()) == 1


FARM: dict[str, Any] = {
    "mode": "off", "publish": "off", "farm_mode": "off", "publisher": None, "why_not": {}, "leaves": [], "left_out": {},
    "excluded": 0, "publishing": None, "trouble": [],
}  # fmt: skip


def status(**changes: Any) -> dict[str, Any]:
    servers = [
        {
            "id": 1,
            "endpoint": "tcp://a:1",
            "self": True,
            "leader": True,
            "connected": True,
            "error": None,
            "lag": 0,
            "round_trip": None,
        },
        {
            "id": 20,
            "endpoint": "tcp://b:100",
            "self": False,
            "leader": False,
            "connected": True,
            "error": None,
            "lag": 5,
            "round_trip": {"p50": 0.0, "p99": 1.5, "samples": 256},
        },
        {
            "id": 3,
            "endpoint": "tcp://c:1",
            "self": False,
            "leader": False,
            "connected": False,
            "error": "tcp://c:1 cannot be reached",
            "lag": None,
            "round_trip": {"p50": 0.0, "p99": 0.0123, "samples": 2},
        },
    ]
    return {
        "cluster": "farm", "id": 1, "uptime": 3725.5, "healthy": True, "role": "leader", "term": 7, "leader": 1,
        "leader_endpoint": "tcp://a:1", "quorum": {"reachable": 2, "needed": 2, "servers": 3},
        "membership": "member", "servers": servers,
        "log": {"first_index": 1, "last_index": 12, "stored": 11, "commit": 10, "applied": 10},
        "timing": {"profile": "auto", "heartbeat": 0.5, "election_min": 3, "election_max": 6.25}, "i2p": None,
        "farm": FARM, "history": None, **changes,
    }  # fmt: skip


def test_status_of_a_farm_that_is_well() -> None:
    assert show_status(status()).splitlines() == [
        "farm     farm, server 1, leader in term 7, up 1:02:05",
        "leader   1 (tcp://a:1)",
        "log      12 entries, 10 committed, 11 durable here",
        "timing   auto: heartbeat 500 ms, election after 3 s to 6.25 s without a leader",
        "servers",
        "    1  tcp://a:1    this server, leader",
        "   20  tcp://b:100  connected, 5 entries behind, round trip under 1 ms, 99% within 1.5 s",
        "    3  tcp://c:1    not connected, tcp://c:1 cannot be reached",
    ]


def test_status_shows_the_versions_that_are_known() -> None:
    answer = status(version="0.2.0")
    answer["servers"][0]["reported_version"] = "0.1.0"  # before the restart: the node itself knows better
    answer["servers"][1]["reported_version"] = "0.1.0"
    answer["servers"][2]["reported_version"] = "\x1b" + "9" * 100
    lines = show_status(answer).splitlines()
    assert lines[0] == "farm     farm, server 1, leader in term 7, up 1:02:05, gf-i2p 0.2.0"
    assert lines[-3] == "    1  tcp://a:1    this server, leader"
    assert lines[-2].endswith(", last reported gf-i2p 0.1.0")
    assert "last reported gf-i2p \\x1b" + "9" * 19 + ", tcp://c:1 cannot be reached" in lines[-1]


def test_status_shows_a_history_that_is_behind() -> None:
    assert "history" not in show_status(status(history=None))
    assert "history" not in show_status(status(history={"exported": 9, "lag": 0}))
    lines = show_status(status(history={"exported": 9, "lag": 4})).splitlines()
    assert "history  4 committed entries behind, exported up to 9" in lines


def test_status_shows_the_disk_and_the_refused_requests() -> None:
    posts = {"client_bytes_per_second": 1 << 20, "server_bytes_per_second": 0, "refused": {}}
    lines = show_status(status(disk={"used": 5 << 20, "budget": 0, "full": None}, posts=posts)).splitlines()
    assert "disk     5 MiB of log and history" in lines
    assert not any(line.startswith("refused") for line in lines)
    disk = {"used": 5 << 20, "budget": 4 << 20, "full": "make room"}
    posts["refused"] = {"disk": 7, "budget": 3}
    lines = show_status(status(disk=disk, posts=posts)).splitlines()
    assert "disk     5 MiB of log and history, at most 4 are allowed" in lines
    assert "trouble  make room" in lines
    refused = next(line for line in lines if line.startswith("refused"))
    assert "3 by budget, 7 by disk; a client may post 1024 KiB/s, a server any number of bytes" in refused


def test_status_without_leader_and_quorum_says_so_first() -> None:
    text = show_status(status(leader=None, leader_endpoint=None, quorum={"reachable": 1, "needed": 2, "servers": 3}))
    lines = text.splitlines()
    assert lines[0].startswith("No leader is known")
    assert lines[1].startswith("Only 1 of 3 servers can be reached from here, and a majority is 2")
    assert "leader   none" in lines
    waits = show_status(status(leader=None, leader_endpoint=None, stands_in=12.3))
    assert "leader   none; stands for election in 12 s, if a majority hears none" in waits.splitlines()


SENT: dict[str, Any] = {
    "dry_run": False,
    "master": "m.b32.i2p",
    "published": 1000,
    "expires": 2800,
    "leaves": 2,
    "sent": 3,
    "progress": {
        "word": "sent", "attempted": 1001.0, "sent": 1003.5, "found": None, "found_by": None, "confirmed": None,
        "confirmed_by": None, "unconfirmed": "no server has looked since", "retries": 0,
    },
    "next": {"seconds": 30.2, "why": "a set must not grow old"},
}  # fmt: skip


def farm_lines(**farm: Any) -> list[str]:
    lines = show_status(status(farm={**FARM, **farm}, i2p={"reached_at": None})).splitlines()
    return lines[4 : lines.index("servers")]


def test_status_of_a_publisher() -> None:
    named = {
        "mode": "meta",
        "publish": "auto",
        "publisher": 1,
        "farm_mode": "meta",
        "leaves": ["a.b32.i2p", "b.b32.i2p"],
    }
    assert farm_lines(**named, publishing=SENT, trouble=["the router hung up"]) == [
        "inside   nobody can reach this server yet: its router builds tunnels; if that lasts, see `gf-i2p doctor`",
        "mode     meta, publishes when it is chosen",
        "publish  server 1 is chosen",
        "leaves   a.b32.i2p, b.b32.i2p",
        "         2 leaves of m.b32.i2p given to the router 3 times, good for 30 minutes",
        "         the last: attempted 00:16:41 UTC, sent 00:16:43 UTC, not confirmed: no server has looked since",
        "         the next is due in 30 s: a set must not grow old",
        "trouble  the router hung up",
    ]
    why = "the router does not tell the version"
    progress = {**SENT["progress"], "found": 1050.0, "found_by": 2, "unconfirmed": why}
    assert farm_lines(**named, publishing={**SENT, "progress": progress})[5].endswith(
        f"sent 00:16:43 UTC, found 00:17:30 UTC by server 2, not confirmed: {why}"
    )
    progress = {**SENT["progress"], "confirmed": 1060.0, "confirmed_by": 3, "retries": 2}
    lines = farm_lines(**named, publishing={**SENT, "progress": progress})
    assert lines[5].endswith("sent 00:16:43 UTC, confirmed 00:17:40 UTC by server 3")
    assert lines[6] == "         given again 2 times, because the set was not found"


def test_status_of_a_dry_run_says_that_nothing_is_published() -> None:
    dry = {**SENT, "dry_run": True, "sent": 0, "progress": None, "next": {"seconds": 400, "why": "so"}}
    assert farm_lines(publisher=1, farm_mode="dry-run", leaves=["a.b32.i2p"], publishing=dry)[1:] == [
        "publish  server 1 is chosen, in a dry run: nothing is published",
        "leaves   a.b32.i2p",
        "         dry run: 2 leaves of m.b32.i2p would be published, good for 30 minutes",
        "         the next set would be due in 7 minutes: so",
    ]


def test_status_in_mode_failover_names_no_leaf_and_says_what_is_served() -> None:
    served = {
        "state": "serving", "master": "m.b32.i2p", "target": "127.0.0.1:80", "published": 1000, "expires": 1060,
        "streams": 2, "max_streams": 512, "sessions": 1, "sent": 7, "word": "sent",
        "load": {"uptime": 90_000, "currentTunnels": 3, "configuredTunnels": 4, "currentBandwidth": 1536},
    }  # fmt: skip
    named = {"mode": "failover", "publish": "auto", "publisher": 1, "farm_mode": "failover", "leaves": ["a.b32.i2p"]}
    assert farm_lines(**named, left_out={"b.b32.i2p": "down"}, excluded=1, publishing=served)[1:] == [
        "mode     failover, serves when it is chosen",
        "publish  server 1 is chosen, to run the service's address",
        "         serving m.b32.i2p, which leads to 127.0.0.1:80: 2 of 512 streams now",
        "         the session: for 90 s, 1.5 KiB/s, 3 of 4 inbound tunnels",
        "         the last of 7 lease sets was given 00:16:40 UTC, good until 00:17:40 UTC",
    ]


def test_status_names_leaves_that_are_left_out_and_how_many_more() -> None:
    lines = farm_lines(left_out={f"{number}.b32.i2p": "it is down" for number in range(7)}, excluded=2)
    assert lines[1] == "left out 0.b32.i2p: it is down"
    assert lines[5:] == [
        "left out 4.b32.i2p: it is down",
        "         and 2 more: see `gf-i2p explain`",
        "         administrators have excluded 2: see `gf-i2p explain`",
    ]


@pytest.mark.parametrize("ends", [None, 1_800_000_000])
def test_status_says_until_when_a_publisher_has_keys(ends: int | None) -> None:
    keys = {"master": "m.b32.i2p", "delegated": ends is not None, "ends": ends, "stage": "good"}
    farm: dict[str, Any] = {"publisher": None, "why_not": {}, "leaves": [], "publishing": None, "trouble": []}
    farm |= {"left_out": {}, "excluded": 0, "mode": "off", "farm_mode": "off"}
    line = "keys     delegated for m.b32.i2p until 2027-01-15 08:00 UTC"
    assert (line in show_status(status(farm={**farm, "keys": keys})).splitlines()) is (ends is not None)


def test_status_of_a_log_whose_beginning_is_dropped() -> None:
    log = {"first_index": 8, "last_index": 12, "stored": 11, "commit": 10, "applied": 10}
    line = "log      12 entries, 10 committed, 11 durable here; the first 7 are in the snapshot only"
    assert line in show_status(status(log=log)).splitlines()


@pytest.mark.parametrize("membership", ["joining", "leaving", "removed"])
def test_status_of_one_that_is_no_member(membership: str) -> None:
    quorum = {"reachable": 0, "needed": 1, "servers": 0}
    lines = show_status(status(membership=membership, servers=[], quorum=quorum, leader=None)).splitlines()
    assert lines[0] == MEMBERSHIP_TEXTS[membership]
    assert lines[1] == ""
