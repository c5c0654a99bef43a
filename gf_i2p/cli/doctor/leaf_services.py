"""Checks of the services beside this node: whether a service answers, and whether a leaf's forwarder can listen."""

import socket
from collections.abc import Callable, Collection
from functools import partial

from gf_i2p.cli.doctor.checks import Check, CheckResult, Remedy, fail, ok
from gf_i2p.cli.doctor.node_directory import NODE
from gf_i2p.node.files.router_settings import LeafSettings, LeavesTable, host_and_port
from gf_i2p.node.report.service_watch import CONNECT_SECONDS, ServiceWatch
from gf_i2p.transport.errors import error_text

SERVICE_SECONDS = CONNECT_SECONDS + 1
"""Most seconds for a check by `look_at_service`."""


async def look_at_service(address: str, *, setting: str, effect: str) -> CheckResult:
    """Connect to a service once.

    `setting`: the setting with the address. `effect`: a clause about the effect of a service that does not answer.
    """
    service = ServiceWatch(host_and_port(address))
    await service.check()
    if service.up:
        return ok(f"{service.name} answers")
    return fail(
        f"the service at {service.name} does not answer ({service.error}): {effect}",
        Remedy.either(f"start the service, or correct {setting}"),
    )


class LeafServiceChecks:
    """Checks of the service and the forwarder of each leaf."""

    def __init__(self, publish: LeavesTable, forwarded: Callable[[], Collection[str] | None]) -> None:
        """`forwarded`: returns the leaves for which the running node forwards; returns None when no node runs.

        `forwarded` is called only after the check of the node.
        """
        self._publish = publish
        self._forwarded = forwarded

    def checks(self) -> list[Check]:
        """List the checks."""
        checks: list[Check] = []
        leaves = self._publish.all_leaves
        for number, leaf in enumerate(leaves, 1):
            name = "leaf" if len(leaves) == 1 else f"leaf {number}"
            table = "[publish]" if leaf is self._publish else "[[publish.leaves]]"
            if leaf.leaf_service is not None:
                setting = f"leaf_service in {table}"
                look = partial(look_at_service, leaf.leaf_service, setting=setting, effect="this leaf is not listed")
                checks.append(Check(f"{name} service", look, SERVICE_SECONDS))
            if leaf.leaf_forward is not None:
                checks.append(Check(f"{name} forwarder", partial(self._forwarder, leaf, table), needs=(NODE,)))
        return checks

    async def _forwarder(self, leaf: LeafSettings, table: str) -> CheckResult:
        address, forwarded = leaf.leaf_forward, self._forwarded()
        assert address is not None
        obstacle = _obstacle(*host_and_port(address))
        runs = forwarded is not None
        listens = forwarded is not None and leaf.leaf in forwarded
        if obstacle is None:
            if not runs:
                return ok(f"{address} is free for the node, which does not run")
            return fail(
                f"the node runs, and does not listen at {address}",
                Remedy.either("restart the node, which reads leaf_forward at the start only"),
            )
        if listens:
            return ok(f"the node listens at {address}, and passes on to {leaf.leaf_service}")
        return fail(
            f"the node cannot listen at {address} ({obstacle})",
            Remedy.either(f"stop the program that listens there, or correct leaf_forward in {table}"),
        )


def _obstacle(host: str, port: int) -> str | None:
    """Return why a program that starts now could not listen at this address; None: the program could listen.

    The test binds a socket to the address, and never listens with the socket.
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as asyncio's servers do
            if probe.family is socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((host, port))
    except OSError as error:
        return error_text(error)
    return None
