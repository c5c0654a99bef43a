"""The health of a node in one word, with reasons: healthy, degraded or unavailable."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

BEHIND: Final = 100_000
"""Committed entries that the history may lack before the node is degraded. `gf-i2p doctor` warns much sooner, but a
busy history is no reason for an alarm."""


class HealthState(StrEnum):
    """The health of one node."""

    HEALTHY = "healthy"
    """All is well."""
    DEGRADED = "degraded"
    """The farm takes posts, and something needs the operator."""
    UNAVAILABLE = "unavailable"
    """The farm takes no posts through this node."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one node, with a sentence for each reason. A healthy node has no reasons."""

    state: HealthState
    reasons: tuple[str, ...] = ()


def health(status: Mapping[str, Any]) -> Health:
    """Judge a node by its status (`node_status.status`). The reasons of the worse state come first."""
    severe, mild = tuple(_severe(status)), tuple(_mild(status))
    if severe:
        return Health(HealthState.UNAVAILABLE, (*severe, *mild))
    return Health(HealthState.DEGRADED, mild) if mild else Health(HealthState.HEALTHY)


def readiness(statuses: Iterable[Mapping[str, Any]], stopped: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of /healthz and /readyz: the state of each node, with reasons, and the worst state of all.

    `statuses`: of the nodes that run. `stopped`: the nodes that have stopped by themselves, by directory, with reasons.
    """
    nodes, states = [], [HealthState.HEALTHY]
    for status in statuses:
        found = health(status)
        states.append(found.state)
        nodes.append(
            {"cluster": status["cluster"], "id": status["id"], "state": found.state, "reasons": list(found.reasons)}
        )
    if stopped or not nodes:
        states.append(HealthState.UNAVAILABLE)
    return {"state": max(states, key=tuple(HealthState).index), "nodes": nodes, "stopped": dict(stopped)}


def _severe(status: Mapping[str, Any]) -> Iterator[str]:
    if status["membership"] == "removed":
        yield "This server was removed from the farm."
        return
    if status["cannot_follow"] is not None:
        yield f"This server cannot follow its leader: {status['cannot_follow']}."
    quorum = status["quorum"]
    if quorum["reachable"] < quorum["needed"]:
        missing = ", ".join(str(server["id"]) for server in status["servers"] if not server["connected"])
        yield (
            f"No quorum: {quorum['reachable']} of {quorum['servers']} servers are reached, and {quorum['needed']} are "
            f"needed. Missing: {missing or 'none that is known'}."
        )
    elif status["leader"] is None:
        yield "No server leads: an election is under way."


def _mild(status: Mapping[str, Any]) -> Iterator[str]:
    quorum = status["quorum"]
    if quorum["reachable"] >= quorum["needed"]:
        for server in status["servers"]:
            if not server["connected"]:
                error = server["error"]
                if error is None:
                    yield f"Server {server['id']} is not reached."
                else:
                    yield f"Server {server['id']} is not reached: {error.rstrip('.')}."
    for trouble in status["farm"]["trouble"]:
        yield f"{trouble[0].upper()}{trouble[1:].rstrip('.')}."
    if status["disk"]["full"] is not None:
        full = status["disk"]["full"]
        yield f"{full[0].upper()}{full[1:].rstrip('.')}."
    history = status["history"]
    if history is not None and history["lag"] > BEHIND:
        yield f"The history is {history['lag']:,} entries behind the log."
