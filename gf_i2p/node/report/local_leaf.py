"""The part of a leaf's status that comes from this machine: service, load and uptime of the leaf."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.node.clock import seconds_since_boot
from gf_i2p.node.files.router_settings import LeafSettings, LeavesTable, host_and_port
from gf_i2p.node.report.leaf_forward import LeafForward
from gf_i2p.node.report.service_watch import ServiceWatch

_AGAIN_SECONDS: Final = 5.0
"""Seconds before a forwarder that could not listen tries again."""


class LocalLeaf:
    """Watches the service behind the leaf, and forwards to the service, if the settings ask for that."""

    def __init__(
        self, settings: LeafSettings, *, table: str = "[publish]", clock: Callable[[], float] = seconds_since_boot
    ) -> None:
        """`table`: name of the table with these settings, for messages. `clock`: monotonic seconds."""
        self.name = settings.leaf
        """The leaf, as the settings name the leaf: an address, or the name of a tunnel."""
        self.service: ServiceWatch | None = None
        """None: the settings do not name the service."""
        self.forward: LeafForward | None = None
        """None: the settings ask for no forwarder."""
        self._clock = clock
        self._up_since: float | None = None
        if settings.leaf_service is None:
            return
        place = host_and_port(settings.leaf_service)
        leaf = "this router's leaf" if self.name is None else f"the leaf {self.name}"
        self.service = ServiceWatch(place, setting=f"leaf_service in {table}", effect=f"{leaf} is not listed")
        if settings.leaf_forward is not None:
            limit = settings.leaf_bandwidth_kib
            self.forward = LeafForward(
                host_and_port(settings.leaf_forward),
                place,
                max_connections=settings.leaf_connections,
                max_bytes_per_second=None if limit is None else limit << 10,
                leaf=leaf,
                table=table,
            )

    @property
    def trouble(self) -> str | None:
        """Advice for the operator; None while service and forwarder do well."""
        parts = (self.service, self.forward)
        return next((part.trouble for part in parts if part is not None and part.trouble is not None), None)

    @property
    def fault(self) -> str | None:
        """The fault on this machine that makes the leaf down, as a clause; None while service and forwarder do well."""
        if self.service is not None and self.service.trouble is not None:
            return "its service does not answer"
        if self.forward is not None and self.forward.trouble is not None:
            return "its forwarder cannot listen"
        return None

    def completed(self, leaf: Leaf | None) -> Leaf | None:
        """Return the router's answer about the leaf, with uptime and load added; None without an answer.

        The leaf is down while its service does not answer, or its forwarder cannot listen. The uptime counts from the
        first answer that found the leaf up.
        """
        if leaf is None:
            self._up_since = None
            return None
        up = leaf.up and self.trouble is None
        if not up:
            self._up_since = None
        elif self._up_since is None:
            self._up_since = self._clock()
        uptime = None if self._up_since is None else int((self._clock() - self._up_since) * 1000)
        if self.forward is None or self.forward.trouble is not None:
            return replace(leaf, up=up, uptime_ms=uptime)
        load = self.forward.load
        return replace(
            leaf,
            up=up,
            uptime_ms=uptime,
            configured_connections=load.max_connections,
            current_connections=load.connections,
            configured_bandwidth=load.max_bytes_per_second,
            current_bandwidth=load.bytes_per_second,
        )

    async def run(self) -> None:
        """Watch and forward until cancelled."""
        async with asyncio.TaskGroup() as parts:
            if self.service is not None:
                parts.create_task(self.service.run())
            if self.forward is not None:
                parts.create_task(_forward(self.forward))
            await asyncio.get_running_loop().create_future()


def local_leaves(publish: LeavesTable) -> tuple[LocalLeaf, ...]:
    """Return this machine's part of each leaf, in the order of `LeavesTable.all_leaves`."""
    return tuple(
        LocalLeaf(each, table="[publish]" if each is publish else "[[publish.leaves]]") for each in publish.all_leaves
    )


async def _forward(forward: LeafForward) -> None:
    while True:
        await forward.run()
        await asyncio.sleep(_AGAIN_SECONDS)
