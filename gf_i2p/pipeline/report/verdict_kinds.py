"""The kinds of trouble: for each kind its sentence, its likely cause, and what to do next.

A sentence has these names in braces: `who` ("server 2", "most servers (1, 2)"), `been` ("has been", "were", …), `s`
("s" if `who` are many), `value` and `usual` (of the oddest hour, with the unit), `when` ("since Tuesday …", "from …").
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trouble. Its sentence follows the form above."""

    name: str
    gravity: int
    """3: clients cannot reach something; 2: clients may soon feel the trouble; 1: worth a look."""
    sentence: str
    cause: str
    next: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Which episodes are of a kind. The first rule that fits counts, and rules stand in the order of their causes."""

    of: str
    """"server" (also of most servers), "leaf" (also of most servers' leaves) or "pair"."""
    measure: str
    kind: Kind
    side: str = ""
    """"low", "high", "silent" (low, because no records came) or empty: all."""


SILENT: Final = Kind(
    "silence", 3, "{who} {been} silent {when}", "the node stopped, or the network between the servers failed",
    "See whether the node runs (gf-i2p status), and read the node's log of that time.",
)  # fmt: skip
DOWN: Final = Kind(
    "router down", 3, "The router{s} of {who} {been} down {when}, and up for {value} of the worst hour",
    "the router stopped, or was started again", "Read the router's log of that time, and the node's.",
)  # fmt: skip
RARELY: Final = Kind(
    "low availability", 3, "{who} {been} available for only {value} of the time {when}",
    "the router or its node often stops", "Read the router's log, and look at the chart of availability.",
)  # fmt: skip
RESTARTS: Final = Kind(
    "restarts", 2, "{who} {been} up and down {when}: {value} changes in the worst hour",
    "the router starts again and again, or does not answer the node in time",
    "Look for full memory and for crashes in the router's log.",
)  # fmt: skip
FEW_RECORDS: Final = Kind(
    "lost records", 2, "{who} {been} heard only {value} times an hour, not {usual} times, {when}",
    "records are lost on the way, or come too late", "Look at the tunnels between the servers, and at quarantine.",
)  # fmt: skip
CLOCK: Final = Kind(
    "wrong clock", 3, "The clock{s} of {who} {been} {value} {when}", "time synchronisation",
    "Synchronise the time of the machine (NTP). A router with a wrong clock loses its tunnels.",
)  # fmt: skip
LAG: Final = Kind(
    "slow router", 2, "The router{s} of {who} {been} slow {when}: a job lag of {value}, usually {usual}",
    "the machine has too little processor, memory or disk time", "Look at the load of the machine and at swapping.",
)  # fmt: skip
FEW_TUNNELS: Final = Kind(
    "few tunnels", 2, "{who} {been} carrying only {value} tunnels, usually {usual}, {when}",
    "other routers do not reach the router", "Look at the router's reachability, firewall and bandwidth limits.",
)  # fmt: skip
MANY_TUNNELS: Final = Kind(
    "many tunnels", 1, "{who} {been} carrying {value} tunnels, usually {usual}, {when}",
    "the network is busy or under attack", "Lower the router's limit of transit tunnels if the machine is overloaded.",
)  # fmt: skip
LITTLE_IN: Final = Kind(
    "little inbound traffic", 2, "{who} {been} receiving only {value}, usually {usual}, {when}",
    "the line is cut or throttled, or other routers do not reach the router",
    "Test the line, and look at the router's reachability.",
)  # fmt: skip
LITTLE_OUT: Final = Kind(
    "little outbound traffic", 2, "{who} {been} sending only {value}, usually {usual}, {when}",
    "the line is throttled, or a bandwidth limit was lowered", "Test the line, and look at the router's limits.",
)  # fmt: skip
MUCH_IN: Final = Kind(
    "much inbound traffic", 1, "{who} {been} receiving {value}, usually {usual}, {when}",
    "a flood, or a busy service", "See which tunnels carry the traffic, and set a bandwidth limit if clients suffer.",
)  # fmt: skip
MUCH_OUT: Final = Kind(
    "much outbound traffic", 1, "{who} {been} sending {value}, usually {usual}, {when}",
    "a busy service, or many transit tunnels", "Compare with the load of the leaves, and with the tunnels.",
)  # fmt: skip
FEW_PEERS: Final = Kind(
    "few peers", 2, "The router{s} of {who} {been} left with {value} known peers, usually {usual}, {when}",
    "the router has lost the network, or its netDb", "Look at the router's line, and reseed the router.",
)  # fmt: skip
MANY_PEERS: Final = Kind(
    "many peers", 1, "The router{s} of {who} {been} at {value} known peers, usually {usual}, {when}",
    "a flood of new routers, or old routers that stay known", "Watch the router's memory, and update the router.",
)  # fmt: skip
LEAF_DOWN: Final = Kind(
    "leaf down", 3, "{who} {been} down {when}, though the router was up",
    "the service or its session with the router ended", "See whether the service runs and answers on that server.",
)  # fmt: skip
LEAF_FLAPS: Final = Kind(
    "unsteady leaf", 2, "{who} {been} up and down {when}: {value} changes in the worst hour",
    "the service starts again and again, or its tunnels fail", "Read the service's log, and look at its tunnels.",
)  # fmt: skip
LEAF_FULL: Final = Kind(
    "full leaf", 2, "{who} {been} {value} full, usually {usual}, {when}", "more clients than usual",
    "Allow more connections, or add a leaf.",
)  # fmt: skip
NO_PUBLISHER: Final = Kind(
    "no publisher", 3, "Nobody {been} publishing {when}", "no server was able, or publishing is turned off",
    "gf-i2p explain says why each server is not chosen.",
)  # fmt: skip
PARAMETERS: Final = Kind(
    "better parameters", 0, "Other parameters are better: {value}", "the backtest of the farm's own log",
    "Look at the table of parameters below, and then use gf-i2p pipeline post.",
)  # fmt: skip

RULES: Final = (
    Rule("server", "availability", SILENT, "silent"),
    Rule("server", "availability", DOWN),
    Rule("server", "flaps", RESTARTS),
    Rule("server", "records", FEW_RECORDS),
    Rule("server", "skew_ms", CLOCK),
    Rule("pair", "skew_ms", CLOCK),
    Rule("server", "lag_ms", LAG),
    Rule("server", "tunnels", FEW_TUNNELS, "low"),
    Rule("server", "tunnels", MANY_TUNNELS, "high"),
    Rule("server", "in_bytes_s", LITTLE_IN, "low"),
    Rule("server", "in_bytes_s", MUCH_IN, "high"),
    Rule("server", "out_bytes_s", LITTLE_OUT, "low"),
    Rule("server", "out_bytes_s", MUCH_OUT, "high"),
    Rule("server", "known_peers", FEW_PEERS, "low"),
    Rule("server", "known_peers", MANY_PEERS, "high"),
    Rule("leaf", "availability", LEAF_DOWN),
    Rule("leaf", "flaps", LEAF_FLAPS),
    Rule("leaf", "load", LEAF_FULL),
)
"""All measures of `health.measures` have a rule here; a test says so."""
