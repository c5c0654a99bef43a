"""The publisher's office: what a server does while the farm has chosen it, and when it may."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from gf_i2p.node.clock import awake_or_not
from gf_i2p.node.report.reporter import Reporter
from gf_i2p.node.view import FarmView

LEASE_SECONDS: Final = 90.0
"""A publisher whose last record was posted longer ago, of those that it has seen committed, stops by itself: a little
before the others hold it for dead (`Parameters.fresh_ms`)."""


class Office(Protocol):
    """What `[publish] mode` names: one for sets of leaves (`publishing.Publisher`), one for each further mode."""

    @property
    def trouble(self) -> str | None:
        """Why what should be done is not, None when all is well."""
        ...

    async def run(self) -> None:
        """Take the office up when this server is chosen, lay it down when not, for ever."""
        ...

    def shown(self) -> dict[str, Any] | None:
        """Describe for the status what this server publishes now; None when nothing."""
        ...

    async def finish(self, seconds: float) -> None:
        """Return when nobody needs this server any more that has resigned, or after so long; `run` goes on."""
        ...


class Tenure:
    """Whether this server is to publish: chosen, by a log that has lately shown it something of its own."""

    def __init__(
        self, server_id: int, view: FarmView, reporter: Reporter, *, clock: Callable[[], float] = awake_or_not
    ) -> None:
        """`clock`: the reporter's."""
        self._id = server_id
        self._view = view
        self._reporter = reporter
        self._clock = clock

    @property
    def chosen(self) -> bool:
        """Whether the log, as far as it is taken in, names this server."""
        return self._view.choice.publisher == self._id

    @property
    def objection(self) -> str | None:
        """Why a server that is chosen must not act on it, None when it may.

        What the log has not shown us yet may name another one: only what we have taken in renews the lease, and it runs
        from when that was posted. So one that stood still, and wakes, does nothing before it has committed anew.
        """
        if self._clock() - self._reporter.seen_at(self._view.applied) > LEASE_SECONDS:
            return f"nothing of ours was committed for {LEASE_SECONDS:.0f} s: the farm may have another publisher"
        return None

    @property
    def holds(self) -> bool:
        """Whether this server may publish now."""
        return self.chosen and self.objection is None
