"""The farm as the page shows it: a node's answers, made into what the template fills in.

Nothing is decided here: health, reasons and outcomes come from the node, in the words of the command line, which are
translated for the browser.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gf_i2p.admin.monitoring.health import Health, HealthState, health
from gf_i2p.cli.page.actions import Action, leaf_actions, server_actions
from gf_i2p.cli.page.words import Words, marked
from gf_i2p.cli.shared.answer_text import publishing_lines
from gf_i2p.farm.events import in_order

EVENTS: Final = 30
"""Most events on the page."""
_STATES: Final = {
    HealthState.HEALTHY: marked("healthy"),
    HealthState.DEGRADED: marked("degraded"),
    HealthState.UNAVAILABLE: marked("unavailable"),
}
_HEADLINES: Final = {
    HealthState.HEALTHY: marked("All is well"),
    HealthState.DEGRADED: marked("The farm works, and something needs you"),
    HealthState.UNAVAILABLE: marked("The farm takes no posts through this server"),
}
_DUTIES: Final = {"failover": marked("serves"), "dry-run": marked("would publish")}
"""Words for the server that was chosen, by the farm's mode; in any other mode `_DUTY`."""
_DUTY: Final = marked("publishes")
_BY_A_PERSON: Final = re.compile(r"(?:admin-\S+|server-\d+): ", re.ASCII)
"""The beginning of an event that tells a change with an administrator's own words."""


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
    state: str
    """The health in a word."""
    headline: str
    """The health in a sentence."""
    leader: str
    commit: int
    publisher: str
    why: str
    """Why this publisher was chosen, as a sentence; or empty."""
    publishing: tuple[str, ...]
    servers: tuple[ServerRow, ...]
    leaves: tuple[LeafRow, ...]
    parameters: tuple[tuple[str, str, str], ...]
    """Name, value, and who has changed it."""
    changes: tuple[tuple[str, str, str], ...]
    """Time, author and text of each change by an administrator, the newest first."""
    events: tuple[tuple[str, str], ...]
    """Time and sentence of each event, the newest first."""


def overview(answers: Answers, words: Words, *, may_change: bool) -> Overview:
    """Make the page's content in the language of `words`. `may_change`: whether the page offers changes."""
    status, farm, admin = answers.status, answers.explanation["farm"], answers.administration
    publishing = answers.explanation["this"]["publishing"]
    leader, publisher, found = status["leader"], farm["publisher"], health(status)
    return Overview(
        cluster=status["cluster"],
        answering=status["id"],
        may_change=may_change,
        health=Health(found.state, tuple(map(words.of_node, found.reasons))),
        state=words.translated(_STATES[found.state]),
        headline=words.translated(_HEADLINES[found.state]),
        leader=words.translated("none")
        if leader is None
        else words.translated("server %(server)s, in term %(term)s", server=leader, term=status["term"]),
        commit=status["log"]["commit"],
        publisher=words.translated("nobody")
        if publisher is None
        else words.translated("server %(server)s (%(mode)s)", server=publisher, mode=farm["mode"]),
        why=words.sentence(farm["why"] or ""),
        publishing=() if publishing is None else tuple(map(words.of_node, publishing_lines(publishing))),
        servers=tuple(_servers(status, admin, words, may_change)),
        leaves=tuple(_leaf(leaf, words, may_change) for leaf in admin["leaves"]),
        parameters=tuple(
            (name, str(each["value"]), _changed_by(each["changed"], words))
            for name, each in admin["parameters"].items()
        ),
        changes=tuple((_time(each["date"]), each["by"], _with_reason(each, words)) for each in reversed(admin["log"])),
        events=tuple(_events(answers, words)),
    )


def _changed_by(change: Mapping[str, Any] | None, words: Words) -> str:
    return "" if change is None else words.translated("by %(name)s", name=change["by"])


def _events(answers: Answers, words: Words) -> Iterator[tuple[str, str]]:
    """Yield time and text of the events, the newest first. The words of a person are not translated."""
    changes = {f"{each['by']}: {_with_reason(each)}": each for each in answers.administration["log"]}
    for event in reversed(in_order(answers.events)[-EVENTS:]):
        text, change = event["text"], changes.get(event["text"])
        if change is not None:
            text = f"{change['by']}: {_with_reason(change, words)}"
        elif _BY_A_PERSON.match(text) is None:
            text = words.of_node(text)
        yield _time(event["date"]), text


def _servers(
    status: Mapping[str, Any], admin: Mapping[str, Any], words: Words, may_change: bool
) -> Iterator[ServerRow]:
    duties = {each["id"]: each for each in admin["servers"]}
    for server in status["servers"]:
        duty = duties.get(server["id"], {"why_not": None, "score": None, "drained": None})
        drained = duty["drained"]
        actions = server_actions(
            server["id"],
            leads=server["leader"],
            drained=drained is not None,
            moved_here=admin["moved_to"] == server["id"],
            gives_sets=admin["publisher"] == server["id"] and admin["mode"] != "failover",
        )
        if server["id"] not in duties:
            told = words.translated("not in the committed farm yet")
        elif duty["why_not"]:
            told = words.of_node(duty["why_not"])
        else:
            told = words.translated(_DUTIES.get(admin["mode"], _DUTY))
        if drained is not None:
            told = words.translated("drained by %(name)s; %(duty)s", name=drained["by"], duty=told)
        yield ServerRow(
            server["id"],
            server["endpoint"],
            _state(server, words),
            server["connected"],
            "" if duty["score"] is None else f"{duty['score']}",
            told,
            tuple(actions) if may_change else (),
        )


def _state(server: Mapping[str, Any], words: Words) -> str:
    if server["leader"]:
        return words.translated("leads")
    if server["self"]:
        return words.translated("follows")
    if not server["connected"]:
        error = server["error"]
        return (
            words.translated("not reached: %(why)s", why=words.of_node(error))
            if error
            else words.translated("not reached")
        )
    lag = server["lag"]
    if not lag:
        return words.translated("follows")
    shown = f"{lag:,}"
    return words.counted("%(number)s entry behind", "%(number)s entries behind", lag, shown)


def _leaf(leaf: Mapping[str, Any], words: Words, may_change: bool) -> LeafRow:
    excluded = leaf["excluded"]
    if leaf["listed"]:
        state = words.translated("listed at cost %(cost)s", cost=leaf["cost"])
    else:
        state = words.translated("not listed: %(why)s", why=words.of_node(leaf["why_not"]))
    if excluded is not None:
        state = words.translated("%(state)s; excluded by %(name)s", state=state, name=excluded["by"])
    owners = ", ".join(map(str, leaf["owners"]))
    actions = tuple(leaf_actions(leaf["address"], is_excluded=excluded is not None)) if may_change else ()
    return LeafRow(leaf["address"], state, leaf["listed"], owners, actions)


def _with_reason(change: Mapping[str, Any], words: Words | None = None) -> str:
    """Return a change with its reason, as an event tells it; with `words`, in their language."""
    reason, what = change.get("reason"), str(change["what"])
    what = what if words is None else words.of_node(what)
    return f"{what} ({reason})" if reason else what


def _time(milliseconds: int | None) -> str:
    try:
        return "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # the date is the poster's, and the poster's clock may be wrong
        return f"{milliseconds} ms"
