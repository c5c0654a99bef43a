"""Explanation of the choice, as text and as JSON: the publisher, the other servers, and each leaf.

The explanation follows from the log alone, so every server explains a choice in the same words. An old snapshot
explains an old choice. `docs/explanation/publisher-choice.md` describes the rules.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from gf_i2p.farm.choice import tree
from gf_i2p.farm.choice.candidates import OFF
from gf_i2p.farm.choice.cost import LOAD, UNKNOWN_LOAD, LeafLoad
from gf_i2p.farm.choice.listed_leaves import LeafInputs
from gf_i2p.farm.choice.publisher import Choice, SetEntry
from gf_i2p.farm.choice.score import MOST
from gf_i2p.farm.pieces import Pieces
from gf_i2p.farm.record.bandwidth import WHOLE
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address

_SCORE_PARTS: Final = {
    "uptime": "the router's uptime",
    "reachability": "its reachability",
    "tunnels": "exploratory tunnels",
    "job_lag": "job lag",
    "bandwidth": "free bandwidth",
    "leaves": "its leaves, as others reach them",
    "meta": "its set, as others find it",
}
VERBS: Final = {"failover": "serves", "dry-run": "would publish"}
"""Verb for the chosen server, by the farm's mode."""
_LOAD_PARTS: Final = {
    "connections": "of its connections are in use",
    "bandwidth": "of its bandwidth is in use",
    "tunnels": "of its tunnels are missing",
    "unreached": "of the servers that tried did not reach it",
}
_UNKNOWN_PARTS: Final = {
    "connections": "connections",
    "bandwidth": "bandwidth",
    "tunnels": "tunnels",
    "unreached": "tries of other servers",
}
NOT_KNOWN: Final = "not known"
"""How the text shows a part without points; the JSON has null."""


def explaining(state: FarmState) -> Pieces[dict[str, Any]]:
    """Make the explanation as a JSON object, one leaf in each piece. All times are in ms.

    `farm_time` is the time since the epoch; null until half of the servers have posted. `in_office` is the time since
    the publisher was chosen. `parts` has the points of a score or cost, by name; null: not known, and not counted.
    """
    choice, inputs = state.choice, state.leaf_inputs()
    administration = state.administration
    explanation: dict[str, Any] = {
        "cluster": state.cluster,
        "farm_time": state.now_ms,
        "mode": choice.mode,
        "off": state.common_setting.mode == OFF,
        "publisher": choice.publisher,
        "in_office": None if choice.publisher is None else state.clock.passed_ms - state.election.since_ms,
        "why": why_publisher(state),
        "servers": [_server(state, choice, server) for server in sorted(state.servers)],
        "members": len(state.leaf_members),
        "leaves": [],
        "branches": len(choice.branches),
        "administration": {
            "moved_to": administration.moved_to,
            "drained": {str(server): change.encode() for server, change in sorted(administration.drained.items())},
            "excluded": {
                to_b32_address(leaf): change.encode() for leaf, change in sorted(administration.excluded.items())
            },
            "costs": {to_b32_address(leaf): cost for leaf, cost in sorted(administration.costs.items())},
            "parameters": administration.parameters.all(),
            "sensed": [post.described() for post in administration.sensing.all()],
            "changes": [change.encode() for change in administration.log],
        },
    }
    for leaf in chain(_listed(state, choice, inputs), _left_out(choice)):
        explanation["leaves"].append(leaf)
        yield
    return explanation


def why_publisher(state: FarmState) -> str:
    """Return why the publisher was chosen, or why no server was chosen, as a clause."""
    publisher, merits = state.publisher, state.merits()
    if publisher is None:
        return _why_nobody(state)
    merit = merits.get(publisher)
    if merit is None:
        return "it was chosen"
    others = {server: each for server, each in merits.items() if server != publisher}
    if not others:
        if merit.drained:
            return "it is the only server that can, although it is drained"
        return "it is the only server that can"
    if merit.moved_here and not merit.drained:
        return "an administrator has moved publishing to it"
    equals = {server: each for server, each in others.items() if each.rank == merit.rank}
    if not equals:
        return "no other able server is set to publish (on)" if merit.is_on else "the others are drained, or wait"
    best = min(equals, key=lambda server: (-equals[server].score, server))
    best_score = equals[best].score
    if merit.score > best_score:
        return f"its score of {merit.score} is the best; server {best} has {best_score}"
    if merit.score < best_score:
        parameters = state.parameters
        lead = best_score - merit.score
        if lead <= parameters.margin:
            return (
                f"it publishes already, and server {best} is better by {lead} points: more than {parameters.margin} "
                "count"
            )
        return (
            f"it publishes already; server {best}, better by {lead} points, takes over when that has lasted for "
            f"{parameters.fresh_ms / 1000:.0f} s, and this server has published for "
            f"{parameters.hold_ms / 1000:.0f} s"
        )
    if publisher < best:
        return f"server {best} is as good, and its id is higher"
    return f"it publishes already, and server {best} is only as good"


def _why_nobody(state: FarmState) -> str:
    if not state.servers:
        return "the servers of the farm are not known yet, for no entry is known to be committed"
    if state.common_setting.mode != OFF:
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


def _listed(state: FarmState, choice: Choice, inputs: LeafInputs) -> Iterator[dict[str, Any]]:
    for entry in choice.listed:
        listed = state.listing.listed.get(entry.hash)  # None: the log has gone on since the choice
        load = _load(inputs, entry)
        yield {
            "leaf": to_b32_address(entry.hash),
            "owner": entry.owner,
            "listed": True,
            "type": entry.type,
            "cost": entry.cost,
            "parts": None if load is None else load.parts(),
            "why": _why_cost(inputs, entry, load),
            "branch": tree.branch_of(listed.place, state.parameters.max_entries)
            if choice.branches and listed is not None
            else None,
        }


def _left_out(choice: Choice) -> Iterator[dict[str, Any]]:
    for leaf, reason in choice.left_out.items():
        yield {"leaf": to_b32_address(leaf), "listed": False, "why": reason}


def _load(inputs: LeafInputs, entry: SetEntry) -> LeafLoad | None:
    """Return the load of a listed leaf; None when the newest record of the owner does not name the leaf."""
    poster = inputs.posters.by_id.get(entry.owner)
    leaf = None if poster is None else poster.leaves.get(entry.hash)
    return None if poster is None or leaf is None else inputs.load(poster, entry.owner, leaf)


def _why_cost(inputs: LeafInputs, entry: SetEntry, load: LeafLoad | None) -> list[str]:
    """Return the reasons for a leaf's cost in words, one for each part of the cost."""
    if inputs.administration.costs.get(entry.hash) == entry.cost:
        return ["an administrator has set it"]
    if load is None:
        return ["its server does not name it any more"]
    reasons = [] if load.is_known else [f"{UNKNOWN_LOAD} of {LOAD}: its load is not known"]
    most, unknown = load.most(), []
    for name, points in load.parts().items():
        if points is None:
            unknown.append(_UNKNOWN_PARTS[name])
        else:
            reasons.append(f"{points} of {most[name]}: {getattr(load, name) / WHOLE:.0%} {_LOAD_PARTS[name]}")
    return [*reasons, *([f"{NOT_KNOWN}: {', '.join(unknown)}"] if unknown else [])]


def _score_part(name: str, points: int | None) -> str:
    return f"{_SCORE_PARTS[name]} {NOT_KNOWN if points is None else f'{points}/{MOST[name]}'}"


def text_lines(explanation: Mapping[str, Any]) -> Iterator[str]:
    """Yield an explanation as lines of text."""
    verb = VERBS.get(explanation["mode"], "publishes")
    if explanation["publisher"] is None:
        yield f"nobody publishes: {explanation['why']}"
    else:
        mode = "" if explanation["mode"] == OFF else f" ({explanation['mode']})"
        yield f"server {explanation['publisher']} {verb}{mode}: {explanation['why']}"
    for server in explanation["servers"]:
        score = "no score" if server["score"] is None else f"score {server['score']}"
        yield f"  server {server['id']}: {score}; {server['why_not'] or verb}"
        if server["parts"] is not None:
            yield "    " + ", ".join(_score_part(name, points) for name, points in server["parts"].items())
    if explanation["mode"] == "failover":
        yield "leaves are of no use in mode failover: clients reach the service only at the server that serves"
        return
    listed = [leaf for leaf in explanation["leaves"] if leaf["listed"]]
    branches = f" in {explanation['branches']} sets below the first" if explanation["branches"] else ""
    yield f"{len(listed)} leaves are listed{branches}"
    for leaf in listed:
        yield f"  {leaf['leaf']} of {leaf['owner']}: cost {leaf['cost']} ({'; '.join(leaf['why'])})"
    for leaf in explanation["leaves"]:
        if not leaf["listed"]:
            yield f"  {leaf['leaf']} is left out: {leaf['why']}"
