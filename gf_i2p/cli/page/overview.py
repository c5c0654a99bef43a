"""The farm as the page shows it: a node's answers, made into what the template fills in.

Nothing is decided here: health, reasons and outcomes come from the node, in the words of the command line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gf_i2p.admin.monitoring.health import Health, health
from gf_i2p.cli.page.actions import Action, leaf_actions, server_actions
from gf_i2p.cli.shared.answer_text import publishing_lines

EVENTS: Final = 30
"""Most events on the page."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one node to the page's questions, see `gf_i2p.admin.api`."""

    status: Mapping[str, Any]
    explanation: Mapping[str, Any]
    administration: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server of the farm."""

    id: int
    endpoint: str
    state: str
    good: bool
    score: str
    duty: str
    """Whether the server publishes, or why not."""
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class LeafRow:
    """One leaf of the service."""

    address: str
    state: str
    good: bool
    owners: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """All that the page shows."""

    cluster: str
    answering: int
    """Id of the server that has answered."""
    may_change: bool
    """Whether the page offers changes."""
    health: Health
    leader: str
    commit: int
    publisher: str
    why: str
    publishing: tuple[str, ...]
    servers: tuple[ServerRow, ...]
    leaves: tuple[LeafRow, ...]
    parameters: tuple[tuple[str, str, str], ...]
    """Name, value, and who has changed it."""
    changes: tuple[tuple[str, str, str], ...]
    """Time, author and text of each change by an administrator, the newest first."""
    events: tuple[tuple[str, str], ...]
    """Time and sentence of each event, the newest first."""


def overview(answers: Answers, *, may_change: bool) -> Overview:
    """Make the page's content. `may_change`: whether the page offers changes."""
    status, farm, admin = answers.status, answers.explanation["farm"], answers.administration
    publishing = answers.explanation["this"]["publishing"]
    leader = status["leader"]
    return Overview(
        cluster=status["cluster"],
        answering=status["id"],
        may_change=may_change,
        health=health(status),
        leader="none" if leader is None else f"server {leader}, in term {status['term']}",
        commit=status["log"]["commit"],
        publisher="nobody" if farm["publisher"] is None else f"server {farm['publisher']} ({farm['mode']})",
        why=farm["why"] or "",
        publishing=() if publishing is None else tuple(publishing_lines(publishing)),
        servers=tuple(_servers(status, admin, may_change)),
        leaves=tuple(_leaf(leaf, may_change) for leaf in admin["leaves"]),
        parameters=tuple(
            (name, str(each["value"]), "" if each["changed"] is None else f"by {each['changed']['by']}")
            for name, each in admin["parameters"].items()
        ),
        changes=tuple((_time(each["date"]), each["by"], _with_reason(each)) for each in reversed(admin["log"])),
        events=tuple((_time(each["date"]), each["text"]) for each in reversed(answers.events[-EVENTS:])),
    )


def _servers(status: Mapping[str, Any], admin: Mapping[str, Any], may_change: bool) -> list[ServerRow]:
    duties = {each["id"]: each for each in admin["servers"]}
    rows = []
    for server in status["servers"]:
        duty = duties.get(server["id"], {"why_not": "not in the committed farm yet", "score": None, "drained": None})
        drained = duty["drained"]
        actions = server_actions(
            server["id"],
            leads=server["leader"],
            drained=drained is not None,
            moved_here=admin["moved_to"] == server["id"],
            gives_sets=admin["publisher"] == server["id"] and admin["mode"] != "failover",
        )
        words = duty["why_not"] or {"failover": "serves", "dry-run": "would publish"}.get(admin["mode"], "publishes")
        rows.append(
            ServerRow(
                server["id"],
                server["endpoint"],
                _state(server),
                server["connected"],
                "" if duty["score"] is None else f"{duty['score']}",
                f"drained by {drained['by']}; {words}" if drained is not None else words,
                tuple(actions) if may_change else (),
            )
        )
    return rows


def _state(server: Mapping[str, Any]) -> str:
    if server["leader"]:
        return "leads"
    if server["self"]:
        return "follows"
    if not server["connected"]:
        return f"not reached: {server['error']}" if server["error"] else "not reached"
    return f"{server['lag']:,} entries behind" if server["lag"] else "follows"


def _leaf(leaf: Mapping[str, Any], may_change: bool) -> LeafRow:
    excluded = leaf["excluded"]
    state = f"listed at cost {leaf['cost']}" if leaf["listed"] else f"not listed: {leaf['why_not']}"
    if excluded is not None:
        state += f"; excluded by {excluded['by']}"
    owners = ", ".join(map(str, leaf["owners"]))
    actions = tuple(leaf_actions(leaf["address"], is_excluded=excluded is not None)) if may_change else ()
    return LeafRow(leaf["address"], state, leaf["listed"], owners, actions)


def _with_reason(change: Mapping[str, Any]) -> str:
    reason = change.get("reason")
    return f"{change['what']} ({reason})" if reason else str(change["what"])


def _time(milliseconds: int | None) -> str:
    try:
        return "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # the date is the poster's, and the poster's clock may be wrong
        return f"{milliseconds} ms"
