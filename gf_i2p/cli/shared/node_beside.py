"""Questions of the endpoint of `gf-i2p bridge serve` to the node that runs in the same directory.

The endpoint asks whether the node may publish, and how many connections the node counts for a leaf.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bridges.errors import RouterError, RouterUnreachableError
from bridges.serving.entry_signer import AnotherPublishesError
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.local_client import request
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.storage.private_files import holding_run

ASK_SECONDS: Final = 5.0
"""Most seconds to wait for the node's answer."""
_PUBLISHING: Final = frozenset({"meta", "failover"})
"""Modes in which the farm itself publishes the master."""


class NodeBeside:
    """Asks the node of a directory, by the node's local socket.

    Error messages are for the programs that call the endpoint, so the messages name no file.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def check_publishes_nothing(self) -> Callable[[], bool]:
        """Raise `RouterError` when a node runs here that may publish, or that does not answer.

        Returns a function that says whether this check still holds. The check holds until another node starts here,
        because a node changes its mode only at its start.
        """
        run = self._run
        if run is None:
            return lambda: self._run is None
        mode = (await self._ask_farm())["mode"]
        if mode in _PUBLISHING:
            raise AnotherPublishesError(
                f"this endpoint signs nothing while the node beside it runs in mode {mode!r}: the netDb has one place "
                "for the master, and the farm publishes there. The operator stops that node, or restarts it with "
                'publish.mode = "off"'
            )
        return lambda: self._run in {None, run}

    async def leaf_connections(self, leaf: str) -> int:
        """Return the number of connections that the node's forwarder (`leaf_forward`) for a leaf counts now.

        `leaf`: as the settings name the leaf.

        Raises `RouterError` when no node counts these connections.
        """
        if self._run is None:
            raise RouterError(
                "the node beside this endpoint counts the connections (publish.leaf_forward), and does not run: the "
                "operator starts that node"
            )
        load = (await self._ask_farm()).get("leaf_loads", {}).get(leaf)
        if load is None:
            raise RouterError(
                "the node beside this endpoint counts no connections, because publish.leaf_forward is new or cannot "
                "listen: the operator looks at the output of that node, and restarts the node"
            )
        return int(load["connections"])

    @property
    def _run(self) -> str | None:
        """A text that identifies the run of the node that holds the log; None: no node runs."""
        return holding_run(self._directory / DATABASE_FILE)

    async def _ask_farm(self) -> Any:
        try:
            return (await request(self._directory, "GET", "/v1/status", seconds=ASK_SECONDS))["farm"]
        except CommandError as error:
            raise RouterUnreachableError(
                "the node beside this endpoint runs, and does not answer: the operator looks at the output of that node"
            ) from error
