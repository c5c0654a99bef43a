"""The administrators' decisions in a farm and the effect of the decisions, from one node's log."""

from typing import Any

from gf_i2p.farm.admin_entries import AdminChange, Administration
from gf_i2p.farm.parameters import Parameters, ranges
from gf_i2p.farm.pieces import Pieces
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import membership_of
from gf_i2p.wire.key_proof import PublicKey
from gf_i2p.wire.messages import NOBODY


def administration(node: Node) -> Pieces[dict[str, Any]]:
    """Describe the administrators' decisions, in pieces. "applied": index of the last log entry that was applied.

    "leader" and "membership" are as in `node_status.status`.
    """
    core, view = node.driver.core, node.farm_tasks.view
    applied = view.applied
    farm = yield from describing(view.state)
    return {
        "cluster": node.cluster,
        "id": core.id,
        "leader": None if core.leader == NOBODY else core.leader,
        "membership": membership_of(node),
        "applied": applied,
        "server_keys": {str(server): str(PublicKey(key.key)) for server, key in sorted(node.server_keys.items())},
        **farm,
    }


def describing(state: FarmState) -> Pieces[dict[str, Any]]:
    """Describe the decisions in the farm's state, one leaf or member in each piece.

    Times are in ms since the epoch, on the clocks of the authors.
    """
    decisions, choice = state.administration, state.choice
    members: list[dict[str, Any]] = []
    for member, record in sorted(state.leaf_members.items()):
        members.append(_member(state, member, record))
        yield
    leaves = yield from _leaves(state)
    return {
        "publisher": choice.publisher,
        "mode": choice.mode,
        "moved_to": decisions.moved_to,
        "last_published": state.last_published_ms,
        "announced_at": state.announced_at,
        "servers": [_server(state, server) for server in sorted(state.servers)],
        "leaves": leaves,
        "members": members,
        "parameters": _parameters(decisions),
        "sensed": [result.described() for result in decisions.sensing.all()],
        "log": [decision.encode() for decision in decisions.log],
    }


def _server(state: FarmState, server: int) -> dict[str, Any]:
    """Describe one server. "mode" and "publish" are the server's settings, null when its newest record has none."""
    choice, record = state.choice, state.records.get(server)
    config, meta = (None, None) if record is None else (record.config, record.meta)
    return {
        "id": server,
        "why_not": choice.why_not.get(server),
        "score": None if server not in choice.scores else choice.scores[server].total,
        "drained": _encoded(state.administration.drained.get(server)),
        "mode": None if config is None else config.mode,
        "publish": None if meta is None else meta.publish_config,
    }


def _leaves(state: FarmState) -> Pieces[list[dict[str, Any]]]:
    """Describe every leaf that a record or an administrator's entry names."""
    decisions, choice = state.administration, state.choice
    listed = {entry.hash: entry for entry in choice.listed}
    leaves: dict[bytes, dict[str, Any]] = {}
    for owner, record in [*sorted(state.records.items()), *sorted(state.leaf_members.items())]:
        for leaf in record.leaves:
            each = leaves.setdefault(leaf.hash, _leaf(leaf.hash))
            each["owners"].append(owner)
            each["up"] = bool(each["up"]) or (leaf.up and record.router_up)
            yield
    for hash_ in [*listed, *decisions.excluded, *decisions.costs]:
        leaves.setdefault(hash_, _leaf(hash_))
    for hash_, each in leaves.items():
        entry = listed.get(hash_)
        each["listed"] = entry is not None
        each["cost"] = None if entry is None else entry.cost
        each["set_cost"] = decisions.costs.get(hash_)
        each["excluded"] = _encoded(decisions.excluded.get(hash_))
        each["why_not"] = None if entry is not None else choice.left_out.get(hash_, "nobody names it now")
        yield
    return sorted(leaves.values(), key=lambda each: (not each["listed"], str(each["address"])))


def _leaf(hash_: bytes) -> dict[str, Any]:
    return {"hash": to_base64(hash_), "address": to_b32_address(hash_), "owners": [], "up": None}


def _member(state: FarmState, member: int, record: StatusRecord) -> dict[str, Any]:
    """Describe one leaf member. "age": seconds since its last record, by the time in the servers' records.

    "age" is null before the first record of a server.
    """
    poster = state.posters.by_id.get(member)  # None: the member was forgotten since the description began
    age_ms = None if poster is None or state.now_ms is None else max(state.clock.passed_ms - poster.heard_ms, 0)
    return {
        "id": member,
        "age": None if age_ms is None else age_ms / 1000,
        "router_up": record.router_up,
        "leaves": [{"address": to_b32_address(leaf.hash), "up": leaf.up} for leaf in record.leaves],
    }


def _parameters(decisions: Administration) -> dict[str, dict[str, Any]]:
    """Describe each parameter: value, default, range, and the last change."""
    defaults, allowed = Parameters().all(), ranges()
    return {
        name: {
            "value": value,
            "default": defaults[name],
            "range": list(allowed[name]),
            "changed": _encoded(decisions.changed.get(name)),
        }
        for name, value in decisions.parameters.all().items()
    }


def _encoded(decision: AdminChange | None) -> dict[str, Any] | None:
    return None if decision is None else decision.encode()
