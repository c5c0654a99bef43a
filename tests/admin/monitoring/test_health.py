"""The health of a node, judged by a status that was made by hand."""

from typing import Any

import pytest

from gf_i2p.admin.monitoring.health import BEHIND, HealthState, health


def server(number: int, *, connected: bool = True, error: str | None = None) -> dict[str, Any]:
    return {"id": number, "connected": connected, "error": error}


def status(**changes: Any) -> dict[str, Any]:
    return {
        "membership": "member",
        "cannot_follow": None,
        "leader": 1,
        "quorum": {"reachable": 3, "needed": 2, "servers": 3},
        "servers": [server(1), server(2), server(3)],
        "farm": {"trouble": []},
        "disk": {"full": None},
        "history": {"lag": 0},
        **changes,
    }


LOST = {
    "quorum": {"reachable": 1, "needed": 2, "servers": 3},
    "servers": [server(1), server(2, connected=False, error="refused"), server(3, connected=False)],
}


def test_a_node_without_reasons_is_healthy() -> None:
    assert health(status()).state is HealthState.HEALTHY
    assert health(status(history=None)).reasons == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"leader": None}, "No server leads: an election is under way."),
        ({"leader": None, **LOST}, "No quorum: 1 of 3 servers are reached, and 2 are needed. Missing: 2, 3."),
        ({"membership": "removed", **LOST}, "This server was removed from the farm."),
        ({"cannot_follow": "it sends too much"}, "This server cannot follow its leader: it sends too much."),
    ],
)
def test_a_node_through_which_nothing_can_be_posted_is_unavailable(changes: dict[str, Any], reason: str) -> None:
    found = health(status(**changes))
    assert (found.state, found.reasons) == (HealthState.UNAVAILABLE, (reason,))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {
                "quorum": {"reachable": 2, "needed": 2, "servers": 3},
                "servers": [server(1), server(2), server(3, connected=False, error="it cannot be reached.")],
            },
            "Server 3 is not reached: it cannot be reached.",
        ),
        ({"farm": {"trouble": ["the router does not answer"]}}, "The router does not answer."),
        ({"disk": {"full": "log and history use 5 of 4 MiB"}}, "Log and history use 5 of 4 MiB."),
        ({"history": {"lag": BEHIND + 1}}, "The history is 100,001 entries behind the log."),
    ],
)
def test_a_farm_that_takes_posts_and_needs_the_operator_is_degraded(changes: dict[str, Any], reason: str) -> None:
    found = health(status(**changes))
    assert (found.state, found.reasons) == (HealthState.DEGRADED, (reason,))


def test_the_worse_reasons_come_first() -> None:
    found = health(status(leader=None, disk={"full": "make room"}))
    assert found.state is HealthState.UNAVAILABLE
    assert found.reasons == ("No server leads: an election is under way.", "Make room.")
