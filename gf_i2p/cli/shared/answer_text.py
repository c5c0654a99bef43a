"""Turns the JSON answers of a node into text for a terminal."""

import json
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from shutil import get_terminal_size
from typing import Any, Final

from gf_i2p.cli.shared.terminal import printable

MEMBERSHIP_TEXTS: Final = {
    "joining": "This server is not a member yet: the server asks the leader to be taken in. The node's output tells "
    "the outcome.",
    "leaving": "The leader removes this server. As far as this server knows, the removal is not committed yet.",
    "removed": "This server was removed from the farm, and no server sends to this server any more. You can stop "
    "this server for good. With this directory as it is, the server can be taken in again (`gf-i2p members add` on the "
    "leader's machine); a new directory, or an older copy of this one, needs a new id (`gf-i2p members invite`).",
}
"""A text for each value of "membership" in a node's status, except "member"."""
NOT_KNOWN: Final = "This server does not know yet which entries are committed, so the farm's state is not known."
_MODES: Final = {"dry-run": "in a dry run: nothing is published", "failover": "to run the service's address"}
_PUBLISHES: Final = {"on": "before others", "auto": "when it is chosen", "off": "never"}
"""Words for each value of `publishConfig`."""
_LONGEST_VALUE: Final = 200
"""Most characters of a record's value that are shown."""
_LONGEST_VERSION: Final = 20
"""Most characters of another server's version that are shown."""
_SHOWN_HASHES: Final = 3
"""Most hashes with known floodfills that are shown."""
_SHOWN_LEFT_OUT: Final = 5
"""Most left-out leaves that are shown."""
NO_LEADER_KNOWN: Final = "No leader is known: nothing can be committed until a majority of the servers has elected one."


def membership_lines(answer: dict[str, Any]) -> list[str]:
    """Return a line when the node is not a member, or knows no leader; otherwise return no line."""
    if answer["membership"] != "member":
        return [MEMBERSHIP_TEXTS[answer["membership"]]]
    return [NO_LEADER_KNOWN] if answer["leader"] is None else []


def record_rows(fields: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return each value of a status record with its name, as in `router.uptime`. Foreign texts are made printable."""
    rows: list[tuple[str, str]] = []
    for name, value in fields.items():
        path = printable(f"{prefix}{name}")
        if isinstance(value, dict):
            rows += record_rows(value, f"{path}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            rows += record_rows({str(number): each for number, each in enumerate(value, 1)}, f"{path}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            rows.append((path, printable(text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…")))
    return rows


def in_touch(answer: dict[str, Any]) -> bool:
    """Whether a node knows a leader and was not removed: then the node's view of the farm is current."""
    return answer["leader"] is not None and answer["membership"] != "removed"


def show_status(answer: dict[str, Any]) -> str:
    """Describe a node's status in a few lines, faults first."""
    quorum, log = answer["quorum"], answer["log"]
    lines = membership_lines(answer)
    if quorum["reachable"] < quorum["needed"] and answer["membership"] == "member":
        lines.append(
            f"Only {quorum['reachable']} of {quorum['servers']} servers can be reached from here, and a majority is "
            f"{quorum['needed']}: start the others, or mend the faults below."
        )
    if answer.get("cannot_follow") is not None:
        lines.append(f"This server cannot follow: {answer['cannot_follow']}. See docs/design/jraft.md, Limits.")
    if lines:
        lines.append("")
    leader = f"{answer['leader']} ({answer['leader_endpoint']})"
    if answer["leader"] is None:
        wait = answer.get("stands_in")
        leader = "none" if wait is None else f"none; stands for election in {wait:.0f} s, if a majority hears none"
    uptime = timedelta(seconds=int(answer["uptime"]))
    version = f", gf-i2p {answer['version']}" if "version" in answer else ""
    lines += [
        f"farm     {answer['cluster']}, server {answer['id']}, {answer['role']} in term {answer['term']}, up {uptime}"
        + version,
        f"leader   {leader}",
        f"log      {_log(log)}",
        f"timing   {_timing(answer['timing'])}",
        *_disk_lines(answer),
        *_history_lines(answer),
        *_post_lines(answer),
        *_farm_lines(answer),
        "servers",
    ]
    width = max((len(server["endpoint"]) for server in answer["servers"]), default=0)
    lines += [f"  {server['id']:>3}  {server['endpoint']:<{width}}  {_server(server)}" for server in answer["servers"]]
    return "\n".join(lines)


def _log(log: dict[str, int]) -> str:
    text = f"{log['last_index']} entries, {log['commit']} committed, {log['stored']} durable here"
    dropped = log["first_index"] - 1
    return text if dropped == 0 else f"{text}; the first {dropped} are in the snapshot only"


def _disk_lines(answer: dict[str, Any]) -> list[str]:
    """Describe the disk use of log and history; return no line for a node of an older version."""
    disk = answer.get("disk")
    if disk is None:
        return []
    used, budget = disk["used"] >> 20, disk["budget"] >> 20
    lines = [f"disk     {used} MiB of log and history" + (f", at most {budget} are allowed" if budget else "")]
    return lines if disk["full"] is None else [*lines, f"trouble  {disk['full']}"]


def _history_lines(answer: dict[str, Any]) -> list[str]:
    """Describe how far the history is behind; return no line for a history that is up to date, or for none."""
    history = answer["history"]
    if history is None or not history.get("lag"):
        return []
    return [f"history  {history['lag']} committed entries behind, exported up to {history['exported']}"]


def _post_lines(answer: dict[str, Any]) -> list[str]:
    """Describe the refused requests, with the limits; return no line when no request was refused."""
    posts = answer.get("posts")
    if not posts or not posts["refused"]:
        return []
    refused = ", ".join(f"{count} by {kind}" for kind, count in sorted(posts["refused"].items()))
    rates = [posts[f"{kind}_bytes_per_second"] for kind in ("client", "server")]
    client, server = (f"{rate >> 10} KiB/s" if rate else "any number of bytes" for rate in rates)
    return [f"refused  {refused}; a client may post {client}, a server {server}: see the node's log"]


def _farm_lines(answer: dict[str, Any]) -> list[str]:
    """Describe the farm's publishing, the keys of this server, and faults; leave out what is turned off."""
    farm, i2p = answer["farm"], answer["i2p"]
    lines = []
    if i2p is not None and i2p["reached_at"] is None:
        lines.append(
            "inside   nobody can reach this server yet: its router builds tunnels; if that lasts, see `gf-i2p doctor`"
        )
    if farm["mode"] != "off":
        lines.append(f"mode     {mode_words(farm)}")
    if farm["publisher"] is not None:
        purpose = "" if farm["farm_mode"] == "meta" else f", {_MODES.get(farm['farm_mode'], 'to publish nothing')}"
        lines.append(f"publish  server {farm['publisher']} is chosen{purpose}")
    if farm["farm_mode"] != "failover":  # in mode failover no leaf is published
        lines += _leaf_lines(farm)
    if farm["publishing"] is not None:
        lines += ["         " + line for line in publishing_lines(farm["publishing"])]
    keys = farm.get("keys")
    if keys is not None and keys["ends"] is not None:
        ends = f"{datetime.fromtimestamp(keys['ends'], UTC):%Y-%m-%d %H:%M} UTC"
        lines.append(f"keys     delegated for {keys['master']} until {ends}")
    lines += [f"trouble  {trouble}" for trouble in farm["trouble"]]
    return lines


def _leaf_lines(farm: dict[str, Any]) -> list[str]:
    lines = [] if farm["publisher"] is None else [f"leaves   {', '.join(farm['leaves']) or 'none'}"]
    lines += [f"left out {leaf}: {why}" for leaf, why in list(farm["left_out"].items())[:_SHOWN_LEFT_OUT]]
    if len(farm["left_out"]) > _SHOWN_LEFT_OUT:
        lines.append(f"         and {len(farm['left_out']) - _SHOWN_LEFT_OUT} more: see `gf-i2p explain`")
    if farm["excluded"]:
        lines.append(f"         administrators have excluded {farm['excluded']}: see `gf-i2p explain`")
    return lines


def mode_words(farm: dict[str, Any]) -> str:
    """Describe the configured mode of a server."""
    verb = {"failover": "serves", "dry-run": "would publish"}.get(farm["mode"], "publishes")
    return f"{farm['mode']}, {verb} {_PUBLISHES[farm['publish']]}"


def publishing_lines(publishing: dict[str, Any]) -> list[str]:
    """Describe the set that this server publishes or would publish, its progress, and the time of the next set."""
    if "state" in publishing:
        return _serving_lines(publishing)
    minutes = (publishing["expires"] - publishing["published"]) // 60
    pause = _pause(publishing["next"]["seconds"])
    leaves = f"{publishing['leaves']} leaves of {publishing['master']}"
    if publishing["dry_run"]:
        return [
            f"dry run: {leaves} would be published, good for {minutes} minutes",
            f"the next set would be due in {pause}: {publishing['next']['why']}",
        ]
    lines = [f"{leaves} given to the router {publishing['sent']} times, good for {minutes} minutes"]
    progress = publishing["progress"]
    if progress is not None:
        lines.append(f"the last: {', '.join(_progress_words(progress))}")
        if progress["retries"]:
            lines.append(f"given again {progress['retries']} times, because the set was not found")
    return [*lines, f"the next is due in {pause}: {publishing['next']['why']}"]


def _progress_words(progress: dict[str, Any]) -> list[str]:
    words = []
    if progress["attempted"]:
        words.append(f"attempted {_clock(progress['attempted'])}")
    if progress["sent"]:
        words.append(f"sent {_clock(progress['sent'])}")
    if progress["found"]:
        words.append(f"found {_clock(progress['found'])} by server {progress['found_by']}")
    if progress["confirmed"]:
        words.append(f"confirmed {_clock(progress['confirmed'])} by server {progress['confirmed_by']}")
    if not progress["confirmed"] and progress["unconfirmed"]:
        words.append(f"not confirmed: {progress['unconfirmed']}")
    return words or ["announced"]


def _serving_lines(serving: dict[str, Any]) -> list[str]:
    state, master, target = serving["state"], serving["master"], serving["target"]
    lines = [f"{state} {master}, which leads to {target}: {serving['streams']} of {serving['max_streams']} streams now"]
    load = serving["load"]
    if load is not None:
        lines.append(_load_line(load))
    if serving["published"] is not None:
        until = _clock(serving["expires"])
        lines.append(
            f"the last of {serving['sent']} lease sets was given {_clock(serving['published'])}, good until {until}"
        )
    return lines


def _load_line(load: dict[str, int]) -> str:
    """Describe the load of the master's session in one line, without the numbers that `load` lacks.

    `load` has the keys of a record's "meta".
    """
    parts = [f"for {_pause(load['uptime'] / 1000)}"]
    if "currentBandwidth" in load:
        parts.append(f"{load['currentBandwidth'] / 1024:.1f} KiB/s")
    if "currentTunnels" in load:
        most = load.get("configuredTunnels")
        tunnels = load["currentTunnels"]
        parts.append(f"{tunnels} inbound tunnels" if most is None else f"{tunnels} of {most} inbound tunnels")
    return f"the session: {', '.join(parts)}"


def _pause(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"


def _server(server: dict[str, Any]) -> str:
    parts = ["this server"] if server["self"] else ["connected" if server["connected"] else "not connected"]
    if server["leader"]:
        parts.append("leader")
    elif server["lag"]:
        parts.append(f"{server['lag']} entries behind")
    trip = server["round_trip"]
    if trip is not None and server["connected"]:
        parts.append(f"round trip {_seconds(trip['p50'])}, 99% within {_seconds(trip['p99'])}")
    version = server.get("reported_version")
    if version is not None and not server["self"]:
        parts.append(f"last reported gf-i2p {printable(version[:_LONGEST_VERSION])}")
    if server["error"]:
        parts.append(server["error"])
    return ", ".join(parts)


def _timing(timing: dict[str, Any]) -> str:
    heartbeat, shortest, longest = (_seconds(timing[name]) for name in ("heartbeat", "election_min", "election_max"))
    return f"{timing['profile']}: heartbeat {heartbeat}, election after {shortest} to {longest} without a leader"


def _seconds(seconds: float) -> str:
    if seconds < 0.001:
        return "under 1 ms"  # some event loops' clocks are no finer
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def show_entries(answer: dict[str, Any], *, full: bool = True) -> str:
    """Return one line for each entry, see `entry_line`, and a hint when more entries follow."""
    lines = [entry_line(entry, full=full) for entry in answer["entries"]]
    commit = answer["commit"]
    if not lines:
        return f"(no entries there: {commit} are committed)" if commit else "(no entry is committed yet)"
    last = answer["entries"][-1]["index"]
    if last < commit:
        lines.append(f"({commit} entries are committed; go on with --first {last + 1})")
    return "\n".join(lines)


def entry_line(entry: dict[str, Any], *, full: bool) -> str:
    """Return index, term, type and value of an entry as a line.

    A status record is named, with its time in UTC. `full`: show the whole value, also of a record; otherwise the line
    has the width of the terminal.
    """
    start = f"{entry['index']:>8}  term {entry['term']:<4} {entry['type']:<13} "
    if "base64" in entry:
        return f"{start}({len(b64decode(entry['base64']))} bytes)"
    if full:
        return start + printable(entry["value"])
    text = start + (_record_line(entry["value"]) or printable(entry["value"]))
    width = get_terminal_size().columns
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _record_line(value: str) -> str | None:
    """Return the line for a status record; None for any other value."""
    try:
        record = json.loads(value)
        time = datetime.fromtimestamp(record["date"] / 1000, UTC)
        router = "up" if record["router"]["up"] else "down"
        return f"{time:%H:%M:%S} status record of {int(record['id'])}, router {router}"
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None


def sensed_lines(sensed: list[dict[str, Any]]) -> list[str]:
    """Sum up the sensed floodfills: a line about all hashes, then a line for each of the first `_SHOWN_HASHES`."""
    if not sensed:
        return []
    newest = max(sensed, key=lambda each: each["index"])
    by_address: dict[str, list[dict[str, Any]]] = {}
    for each in sensed:
        by_address.setdefault(each["address"], []).append(each)
    hint = f", the first {_SHOWN_HASHES} shown here (all: --json)" if len(by_address) > _SHOWN_HASHES else ""
    hashes = f"{len(by_address)} hash{'es'[: 2 * (len(by_address) > 1)]}"
    lines = [f"closest floodfills sensed for {hashes}, last at index {newest['index']}{hint}"]
    for address, days in list(by_address.items())[:_SHOWN_HASHES]:
        last = max(days, key=lambda each: each["day"])
        lines.append(f"{address}  {last['what']} (by {last['by']}; {len(days)} day{'s'[: len(days) > 1]} known)")
    return lines
