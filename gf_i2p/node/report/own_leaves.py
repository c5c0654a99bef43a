"""The leaves of one server or leaf member: asks the router for each leaf, and adds the state of the local service."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from bridges.router_protocol import ANY_MASTER, RouterBridge
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.node.report.leaf_farm import LeafFarm
from gf_i2p.node.report.local_leaf import LocalLeaf
from gf_i2p.node.report.router_question import RouterQuestion


class OwnLeaves:
    """One question to the router for each leaf, so that a leaf without an answer delays no other leaf."""

    def __init__(
        self,
        bridge: RouterBridge,
        local: Sequence[LocalLeaf] = (),
        *,
        leaf_farm: LeafFarm | None = None,
        seconds: float,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask nothing yet.

        Args:
            bridge: leads to the router.
            local: for each leaf, the watch of its service and its forwarder, in the order of the bridge; empty: this
                machine watches no service.
            leaf_farm: the nested farm whose master is the only leaf; None: the bridge names the leaves.
            seconds: time limit for an answer.
            on_answer: called after each answer, after each failure, and after each change of a service.
        """
        self._bridge = bridge
        self._leaf_farm = leaf_farm
        self._local = local
        asks = [partial(self._ask, place) for place in range(max(len(local), 1))]
        self._questions: list[RouterQuestion[Leaf | None]] = [
            RouterQuestion(ask, seconds=seconds, on_answer=on_answer)
            for ask in (asks if leaf_farm is None else [leaf_farm.leaf])
        ]
        for each in local:
            if each.service is not None:
                each.service.on_change = on_answer

    async def ask(self, wait: float) -> None:
        """Ask for each leaf, and wait up to `wait` seconds; a later answer still counts."""
        await asyncio.gather(*(question.ask(wait) for question in self._questions))

    async def close(self) -> None:
        """Give up the questions that are under way."""
        for question in self._questions:
            await question.close()

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The status of each leaf, from the router's last answer and `local`. A leaf without an answer is missing."""
        return tuple(leaf for leaf, _ in self.told)

    @property
    def told(self) -> tuple[tuple[Leaf, str | None], ...]:
        """Each of the `leaves`, and the reason why the leaf is down, as a clause; None: the leaf is up."""
        told = []
        for place, question in enumerate(self._questions):
            answer, local = question.answer, self._local[place] if self._local else None
            leaf = answer if local is None else local.completed(answer)
            if answer is not None and leaf is not None:
                faults = (_fault(answer), None if local is None else local.fault)
                told.append((leaf, "; ".join(fault for fault in faults if fault is not None) or None))
        return tuple(told)

    @property
    def troubles(self) -> tuple[str, ...]:
        """Advice for the operator: at most one sentence for each leaf, which names the leaf."""
        if not self._local:
            troubles = [each.trouble for each in self._questions]
            troubles += [] if self._leaf_farm is None else [self._leaf_farm.trouble]
        else:
            troubles = [
                local.trouble if each.trouble is None else _named(local, each.trouble)
                for local, each in zip(self._local, self._questions, strict=True)
            ]
        return tuple(trouble for trouble in troubles if trouble is not None)

    async def _ask(self, place: int) -> Leaf | None:
        hash_ = await self._bridge.local_leaf_hash(ANY_MASTER, place)
        if hash_ is None:
            return None
        status = await self._bridge.local_leaf_status(hash_)
        return Leaf(hash_, status.up, status.destination, current_connections=status.connections)


def _fault(answer: Leaf) -> str | None:
    """Return why a leaf is down, from the router's answer; None: the leaf is up."""
    if answer.up:
        return None
    # A router that has found the leaf's lease set tells the destination.
    return "its lease set was not found" if answer.destination is None else "it no longer answers pings"


def _named(local: LocalLeaf, trouble: str) -> str:
    return trouble if local.name is None else f"leaf {local.name}: {trouble}"
