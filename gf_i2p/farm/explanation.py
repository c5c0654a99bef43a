"""Explanation of the choice, as text and as JSON: the publisher, the other servers, and each leaf.

The explanation follows from the log alone, so every server explains a choice in the same words. An old snapshot
explains an old choice. `docs/publisher-choice.md` describes the rules.
"""

from collections.abc import Iterator
from typing import Any, Final

from gf_i2p.farm.choice import tree
from gf_i2p.farm.choice.candidates import OFF
from gf_i2p.farm.choice.cost import WEIGHTS
from gf_i2p.farm.choice.listed_leaves import Field
from gf_i2p.farm.choice.publisher import Choice, SetEntry
from gf_i2p.farm.choice.score import MOST
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address

_PARTS: Final = {
    "uptime": "the router's uptime",
    "reachability": "its reachability",
    "tunnels": "exploratory tunnels",
    "job_lag": "job lag",
    "bandwidth": "free bandwidth",
    "leaves": "its leaves, as others reach them",
    "meta": "its set, as others find it",
}
_DOES: Final = {"failover": "serves", "dry-run": "would publish"}
"""Verb for the chosen server, by the farm's mode."""
_LOADS: Final = {
    "connections": "of its connections are in use",
    "bandwidth": "of its bandwidth is in use",
    "tunnels": "of its tunnels are missing",
    "unreached": "of the servers that tried did not reach it",
}


def explain(state: FarmState) -> dict[str, Any]:
    """Give the explanation as JSON. Times in ms; `farm_time` since the epoch, null until half of the servers post."""
    choice, seen = state.choice, state.field()
    administration = state.administration
    return {
        "cluster": state.cluster,
        "farm_time": state.now_ms,
        "mode": choice.mode,
        "off": state.most.mode == OFF,
        "publisher": choice.publisher,
        "in_office": None if choice.publisher is None else state.clock.passed_ms - state.election.since_ms,
        "why": why(state),
        "servers": [_server(state, choice, server) for server in sorted(state.servers)],
        "members": len(state.leaf_members),
        "leaves": [*_listed(state, choice, seen), *_left_out(choice)],
        "branches": len(choice.branches),
        "administration": {
            "moved_to": administration.moved_to,
            "drained": {str(server): made.encode() for server, made in sorted(administration.drained.items())},
            "excluded": {to_b32_address(leaf): made.encode() for leaf, made in sorted(administration.excluded.items())},
            "costs": {to_b32_address(leaf): cost for leaf, cost in sorted(administration.costs.items())},
            "parameters": administration.parameters.all(),
            "sensed": [told.described() for told in administration.sensing.all()],
            "changes": [made.encode() for made in administration.log],
        },
    }


def lines(state: FarmState) -> list[str]:
    """Give the explanation as lines of text."""
    found = explain(state)
    return list(_lines(found))


def why(state: FarmState) -> str:
    """Say why the publisher was chosen, or why no server was chosen."""
    publisher, standings = state.publisher, state.standings()
    if publisher is None:
        return _why_nobody(state)
    own = standings.get(publisher)
    if own is None:
        return "it was chosen"
    others = {server: each for server, each in standings.items() if server != publisher}
    if not others:
        return "it is the only server that can" + (", although it is drained" if own.drained else "")
    if not own.not_moved and not own.drained:
        return "an administrator has moved publishing to it"
    equals = {server: each for server, each in others.items() if each.rank == own.rank}
    if not equals:
        return "no other able server is set to publish (on)" if not own.not_on else "the others are drained, or wait"
    best = min(equals, key=lambda server: (-equals[server].score, server))
    score = equals[best].score
    if own.score > score:
        return f"its score of {own.score} is the best; server {best} has {score}"
    if own.score < score:
        parameters = state.parameters
        more = score - own.score
        if more <= parameters.margin:
            count = f"more than {parameters.margin} count"
            return f"it publishes already, and server {best} is better by {more} points: {count}"
        return (
            f"it publishes already; server {best}, better by {more} points, takes over when that has lasted for "
            f"{parameters.fresh_ms / 1000:.0f} s, and this server has published for "
            f"{parameters.hold_ms / 1000:.0f} s"
        )
    if publisher < best:
        return f"server {best} is as good, and its id is higher"
    return f"it publishes already, and server {best} is only as good"


def _why_nobody(state: FarmState) -> str:
    if not state.servers:
        return "the servers of the farm are not known yet, for no entry is known to be committed"
    if state.most.mode != OFF:
        return "no server can publish"
    if all(server in state.records for server in state.servers):
        return "publishing is off on all servers"
    return "no server says that it is set to publish; a server with publishing off need not say so"


def _server(state: FarmState, choice: Choice, server: int) -> dict[str, Any]:
    score = choice.scores.get(server)
    return {
        "id": server,
        "publishes": server == choice.publisher,
        "can": state.objection(server) is None,
        "why_not": choice.why_not.get(server),
        "score": None if score is None else score.total,
        "parts": None if score is None else score.parts(),
    }


def _listed(state: FarmState, choice: Choice, seen: Field) -> Iterator[dict[str, Any]]:
    for entry in choice.listed:
        place = state.listing.listed[entry.hash].place
        yield {
            "leaf": to_b32_address(entry.hash),
            "owner": entry.owner,
            "listed": True,
            "type": entry.type,
            "cost": entry.cost,
            "why": _why_cost(seen, entry),
            "branch": tree.branch_of(place, state.parameters.max_entries) if choice.branches else None,
        }


def _left_out(choice: Choice) -> Iterator[dict[str, Any]]:
    for leaf, reason in choice.left_out.items():
        yield {"leaf": to_b32_address(leaf), "listed": False, "why": reason}


def _why_cost(seen: Field, entry: SetEntry) -> list[str]:
    """Describe the parts of a cost in words."""
    if seen.administration.costs.get(entry.hash) == entry.cost:
        return ["an administrator has set it"]
    poster = seen.posters.by_id[entry.owner]
    leaf = poster.leaves.get(entry.hash)
    if leaf is None:
        return ["its server does not name it any more"]
    load = seen.load(poster, entry.owner, leaf)
    found = [
        f"{points} of {WEIGHTS[name]}: {getattr(load, name):.0%} {_LOADS[name]}" for name, points in load.points.items()
    ]
    return found or ["its load is not known"]


def _lines(found: dict[str, Any]) -> Iterator[str]:
    if found["publisher"] is None:
        yield f"nobody publishes: {found['why']}"
    else:
        mode = "" if found["mode"] == OFF else f" ({found['mode']})"
        yield f"server {found['publisher']} {_DOES.get(found['mode'], 'publishes')}{mode}: {found['why']}"
    for server in found["servers"]:
        score = "no score" if server["score"] is None else f"score {server['score']}"
        yield f"  server {server['id']}: {score}; {server['why_not'] or _DOES.get(found['mode'], 'publishes')}"
        if server["parts"] is not None:
            yield "    " + ", ".join(
                f"{_PARTS[name]} {points}/{MOST[name]}" for name, points in server["parts"].items()
            )
    if found["mode"] == "failover":
        yield "leaves are of no use in mode failover: clients reach the service only at the server that serves"
        return
    listed = [leaf for leaf in found["leaves"] if leaf["listed"]]
    branches = f" in {found['branches']} sets below the first" if found["branches"] else ""
    yield f"{len(listed)} leaves are listed{branches}"
    for leaf in listed:
        yield f"  {leaf['leaf']} of {leaf['owner']}: cost {leaf['cost']} ({'; '.join(leaf['why'])})"
    for leaf in found["leaves"]:
        if not leaf["listed"]:
            yield f"  {leaf['leaf']} is left out: {leaf['why']}"
