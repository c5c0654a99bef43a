"""The status of a node and of its farm, and the reasons for the farm's choice, as one node knows them."""

import time
from dataclasses import asdict
from typing import Any

from gf_i2p import __version__
from gf_i2p.farm.explanation import explaining, text_lines
from gf_i2p.farm.pieces import Pieces
from gf_i2p.farm.state import FarmState
from gf_i2p.node.history.exporter import Exporter
from gf_i2p.node.node import Node
from gf_i2p.node.status.publishing_status import publishing_status
from gf_i2p.raft.configurations import majority
from gf_i2p.raft.core import Core
from gf_i2p.transport.i2p.i2p_listener import I2pListener
from gf_i2p.wire.messages import NOBODY


def status(node: Node, started: float) -> dict[str, Any]:
    """Describe the node from its own knowledge, without asking another server.

    Times are in seconds. `lag` is the number of entries that a follower is behind, null where only the leader knows.
    `round_trip` has the percentiles p50 and p99 and the number of samples, null without samples. `silence` has the
    leader's usual and longest silence. `history` has the index up to which entries are exported, and the number of
    committed entries after that index (`lag`), whether it is `paused`, and its `trouble`, null when all is well; the
    whole is null without a history. `reload` is the result of the last reload, null
    before the first. `posts` has the limits of each user, the bytes of each user that wait for their commitment at this
    leader, and the number of refused requests, by kind. `connections` counts the listener's connections, for all farms
    that share the listener. `cannot_follow` says why this node cannot take the leader's entries, null when it can.
    `disk` has the bytes of log and history, the budget (0: none), and what to do when the budget is used up, null while
    there is room. `stands_in` tells when this server stands for election, if a majority then hears no leader. The
    leader has null there. `reported_version` is the version of gf-i2p in a server's newest record, null without one.

    `healthy` means: there is a leader that this node can follow, this node is connected to a majority, and this server
    has not been removed.
    """
    core, timeouts, counters = node.driver.core, node.driver.timeouts, node.server.counters
    endpoints = {server.id: server.endpoint for server in core.configuration.servers}
    servers = []
    for server_id, endpoint in endpoints.items():
        link = node.links.get(server_id)
        match = core.match.get(server_id)
        trip = timeouts.round_trip(server_id)
        servers.append(
            {
                "id": server_id,
                "endpoint": endpoint,
                "self": server_id == core.id,
                "leader": server_id == core.leader,
                "reported_version": reported_version(node.farm_tasks.view.state, server_id),
                "connected": server_id == core.id or (link is not None and link.connected),
                "error": None if link is None or link.connected else link.last_error,
                "lag": 0 if server_id == core.leader else (None if match is None else core.log.last_index - match),
                "round_trip": None if trip is None else _rounded(asdict(trip)),
            }
        )
    reachable = sum(server["connected"] is True for server in servers)
    needed = majority(len(servers))
    leader = None if core.leader == NOBODY else core.leader
    standing, exporter = membership_of(node), node.farm_tasks.exporter
    return {
        "cluster": node.cluster,
        "id": core.id,
        "version": __version__,
        "uptime": round(time.monotonic() - started, 3),
        "healthy": leader is not None and reachable >= needed and standing != "removed" and core.cannot_follow is None,
        "role": core.role,
        "term": core.term,
        "leader": leader,
        "cannot_follow": core.cannot_follow,
        "leader_endpoint": endpoints.get(core.leader),
        "stands_in": None if (wait := node.driver.stands_in) is None else round(wait, 1),
        "quorum": {"reachable": reachable, "needed": needed, "servers": len(servers)},
        "membership": standing,
        "configuration_committed": core.configuration.log_index <= core.commit,
        "reload": None if node.last_reload is None else asdict(node.last_reload),
        "change_refused": node.driver.notice,
        "change": core.change_obstacle if core.is_leader else None,
        "snapshot": None if core.snapshot is None else {"index": core.snapshot.index, "bytes": len(core.snapshot.data)},
        "log": {
            "first_index": core.log.base + 1,
            "last_index": core.log.last_index,
            "stored": core.log.stored,
            "commit": core.commit,
            "applied": core.applicable,
        },
        "timing": {
            "profile": timeouts.plan.profile,
            **_rounded(asdict(core.timing)),
            "silence": _rounded({"usual": timeouts.silences.usual, "worst": timeouts.silences.worst}),
        },
        "servers": servers,
        "i2p": _i2p(node),
        "farm": publishing_status(node.farm_tasks),
        "history": None if exporter is None else _history(exporter),
        "disk": {"used": node.disk.used, "budget": node.disk.budget, "full": node.disk.full},
        "posts": {
            **node.budgets.shown(),
            "refused": {str(kind): count for kind, count in node.refusals.counts.items()},
        },
        "connections": {**asdict(counters), "refused": {str(why): count for why, count in counters.refused.items()}},
    }


def reported_version(state: FarmState, server: int) -> str | None:
    """Return the version of gf-i2p in a server's newest record; None when no record tells the version.

    A server posts records only beside a router. A restart with another version shows with the next record.
    """
    record = state.records.get(server)
    return None if record is None or record.config is None else record.config.version


def membership_of(node: Node) -> str:
    """Return this node's place in its farm, as `membership` does, but "removed" when another server has answered so."""
    return "removed" if node.removal_check.removal is not None else membership(node.driver.core)


def membership(core: Core) -> str:
    """Return a server's place in its farm: "member", "joining", "leaving" (not yet committed) or "removed"."""
    configuration = core.configuration
    if core.is_voter:
        return "member"
    if not core.was_voter:
        return "joining"
    return "removed" if configuration.log_index <= core.commit else "leaving"


def _history(exporter: Exporter) -> dict[str, Any]:
    return {
        "exported": exporter.durable_index,
        "lag": exporter.lag,
        "paused": exporter.paused,
        "trouble": exporter.trouble,
    }


def _i2p(node: Node) -> dict[str, Any] | None:
    """Return this node's address inside I2P, null while others cannot reach the node; None for a node outside I2P."""
    listener = node.server.listener
    return {"reached_at": listener.reached_at} if isinstance(listener, I2pListener) else None


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    """Round to tenths of a millisecond: more digits say nothing."""
    return {name: round(value, 4) for name, value in seconds.items()}


def explanation(node: Node) -> Pieces[dict[str, Any]]:
    """Explain the farm's choice, in pieces.

    "farm", and "lines" as text, follow from the log and are the same on every server. "this" is the publishing status
    of this server. "leader" and "membership" are as in `status`.
    """
    core, applied = node.driver.core, node.farm_tasks.view.applied
    farm = yield from explaining(node.farm_tasks.view.state)
    lines: list[str] = []
    for line in text_lines(farm):
        lines.append(line)
        yield
    return {
        "id": core.id,
        "leader": None if core.leader == NOBODY else core.leader,
        "membership": membership_of(node),
        "applied": applied,
        "farm": farm,
        "lines": lines,
        "this": publishing_status(node.farm_tasks),
    }
