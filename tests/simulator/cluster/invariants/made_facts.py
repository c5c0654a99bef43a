"""Facts of farms made by hand, for tests of invariants."""

from collections.abc import Callable

import pytest

from gf_i2p.raft.effects import HardState
from gf_i2p.simulator.cluster.invariants.invariant import Invariant
from gf_i2p.simulator.facts import Facts, ServerFacts, ShadowLog, Violation
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import NOBODY


def facts(*logs: list[Entry], term: int = 1) -> Facts:
    """Servers 1, 2, ... with these logs, in memory and on disk, and this term on disk."""
    servers = {}
    for server, log in enumerate(logs, 1):
        servers[server] = ServerFacts(server, tuple(range(1, len(logs) + 1)))
        servers[server].durable = ShadowLog(log)
        servers[server].hard_state = HardState(term, NOBODY)
        servers[server].restart()
    return Facts(servers)


def leader(found: Facts, server: int, term: int) -> ServerFacts:
    found.servers[server].leads, found.servers[server].term = True, term
    return found.servers[server]


def fires(invariant: Invariant, act: Callable[[], None], text: str) -> None:
    with pytest.raises(Violation, match=text) as raised:
        act()
    assert raised.value.invariant == type(invariant).__name__
