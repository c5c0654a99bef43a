"""The farm of `docker/compose.yaml`, seen from outside: the status of the nodes, and the netDbs of the routers."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from integration.containers.engine import Engine, EngineError
from integration.containers.project import ASK_SECONDS, Project
from integration.harness.waiting import wait_for
from integration.testnet.router_console import ConsoleSummary, StoredLeaseSet, parse_lease_sets, parse_summary

NODES: Final = ("node-1", "node-2", "node-3")
BESIDE: Final = {"node-1": "router-4", "node-2": "router-5", "node-3": "router-6"}
"""The router beside each node."""
ROUTERS: Final = tuple(f"router-{number}" for number in range(7))
FLOODFILLS: Final = ROUTERS[:4]
WEB: Final = "web"
DIRECTORY: Final = "/var/lib/gf-i2p"
"""Directory of a node, in its container."""
ENOUGH: Final = 3
"""Floodfills that must hold a set so that clients find it."""
META: Final = 7
HEAL_SECONDS: Final = 900.0
"""i2pd's tunnels and lease sets last ten minutes, so a router may try those of dead routers for that long. A set that
did not arrive is sent anew after 7.5 minutes at the latest."""


@dataclass(frozen=True)
class Whole:
    """A farm that is whole, as one look saw the farm. A second look may find a farm without a leader."""

    publisher: str
    """Service name of the node that publishes."""
    sent: dict[str, Any]
    """The publication, from the status of that node."""
    held: dict[str, StoredLeaseSet]
    """The Meta lease set, by floodfill that holds the set."""

    @property
    def newest_end(self) -> float:
        """End of the newest set that a floodfill holds, in seconds since 1970."""
        return max(each.expires.timestamp() for each in self.held.values())


class ContainerFarm(Project):
    """A network of routers with three nodes."""

    def __init__(self, engine: Engine, name: str, file: Path, variables: Mapping[str, str] | None = None) -> None:
        """Take the arguments of `Project`."""
        super().__init__(engine, name, file, variables)
        self._gone: set[str] = set()

    @property
    def nodes(self) -> list[str]:
        """Nodes that were not removed for good."""
        return [node for node in NODES if node not in self._gone]

    def remove(self, service: str) -> None:
        """Remove a container for good."""
        super().remove(service)
        self._gone.add(service)

    def forget_flaps_soon(self) -> None:
        """Have a leaf that goes up and down wait no longer than any other leaf before it is listed again.

        The tests kill one container after another, and a busy machine makes leaves flap. By default a leaf then has
        to be up for half an hour. `tests/farm/test_damping.py` tests that wait.
        """
        self.exec(NODES[0], "gf-i2p", "farm", "set", DIRECTORY, "flapMs=60000", "--reason", "a test kills routers")

    def status(self, node: str) -> dict[str, Any] | None:
        """Return a node's status, None when the node does not answer."""
        try:
            answer: dict[str, Any] = json.loads(self.exec(node, "gf-i2p", "status", DIRECTORY, "--json"))
        except (EngineError, ValueError):
            return None
        return answer

    def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of each node that answers."""
        found = {node: self.status(node) for node in self.nodes}
        return {node: answer for node, answer in found.items() if answer is not None}

    def held(self, master: str) -> dict[str, StoredLeaseSet]:
        """Return the Meta lease set of a master, by floodfill that holds the set."""
        return {
            router: held
            for router in FLOODFILLS
            for held in self._lease_sets(router)
            if held.b32 == master and held.store_type == META
        }

    def summary(self, router: str) -> ConsoleSummary | None:
        """Return the numbers of a router's console, None when the router does not answer."""
        try:
            return parse_summary(self.exec(router, "router", "page"))
        except (EngineError, ValueError):
            return None

    def _lease_sets(self, router: str) -> list[StoredLeaseSet]:
        try:
            return parse_lease_sets(self.exec(router, "router", "page", "page=leasesets"))
        except EngineError:
            return []

    def look(self, *, newer_than: float = 0) -> Whole | str:
        """Return what a whole farm shows; else say in a few words why the farm is not whole.

        In a whole farm all nodes answer and agree on a leader, all leaves are listed, and enough floodfills hold the
        set. The leaf of a removed node stays listed until its last record is too old. `newer_than`: seconds since 1970;
        a set that ends then or before does not count.
        """
        answers = self.statuses()
        if silent := [node for node in self.nodes if node not in answers]:
            return f"no answer, or no majority reached: {', '.join(silent)}"
        leaders = {answer["leader"] for answer in answers.values()} - {None}
        if len(leaders) != 1:
            return "no leader" if not leaders else "two leaders"
        fewest = min(len(answer["farm"]["leaves"]) for answer in answers.values())
        if fewest < len(self.nodes):
            return f"{fewest} leaves are listed"
        found = published(answers)
        if found is None:
            return "nobody publishes"
        publisher, sent = found
        if sent["expires"] <= newer_than:
            return f"{publisher} has sent no newer set"
        held = {
            router: each for router, each in self.held(sent["master"]).items() if each.expires.timestamp() > newer_than
        }
        if len(held) < ENOUGH:
            return f"{publisher} has sent a set, {len(held)} floodfills hold it"
        return Whole(publisher, sent, held)

    def heals(self, what: str, *, newer_than: float = 0, seconds: float = HEAL_SECONDS) -> Whole:
        """Wait until the farm is whole, and print the obstacles till then; return what the last look saw.

        Raises `NotSeenError` with all known facts.
        """
        began = time.monotonic()
        seen: Whole | str = ""

        def healed() -> bool:
            nonlocal seen
            last, seen = seen, self.look(newer_than=newer_than)
            if isinstance(seen, str) and seen != last:
                print(f"  {time.monotonic() - began:5.1f} s  {seen}", flush=True)
            return isinstance(seen, Whole)

        wait_for(f"the farm is whole {what}", seconds, healed, poll=ASK_SECONDS, else_say=self.complaints)
        assert isinstance(seen, Whole)
        return seen

    def gets_healthy(self, service: str, seconds: float = HEAL_SECONDS) -> float:
        """Wait until a container's health check passes; return the seconds that it took."""
        return wait_for(
            f"{service} is healthy",
            seconds,
            lambda: self.healthy(service),
            poll=ASK_SECONDS,
            else_say=lambda: self.logs(service),
        )

    def complaints(self) -> str:
        """Describe the containers, their last output, and the nodes' status; for people."""
        parts = [self.engine.run("ps", "--all", "--filter", f"name={self.name}")]
        parts += [f"--- {service}\n{self.logs(service, 12)}" for service in (*self.nodes, *ROUTERS)]
        for node, answer in self.statuses().items():
            farm = answer["farm"]
            parts.append(
                f"--- {node}: leader {answer['leader']}, publisher {farm['publisher']}, "
                f"{len(farm['leaves'])} leaves, publishing {farm['publishing']}, i2p {answer['i2p']}"
            )
            if (sent := farm["publishing"]) is not None:
                parts.append(f"held: {self.held(sent['master'])}")
        return "\n".join(parts)


def published(answers: Mapping[str, dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    """Find the publisher in the nodes' status, with its publication."""
    saying = [
        (sent["published"], node, sent)
        for node, answer in answers.items()
        if (sent := answer["farm"]["publishing"]) is not None
    ]
    if not saying:
        return None
    _, node, sent = max(saying, key=lambda each: each[0])
    return node, sent
