"""The signer of plain entries: the endpoint passes the entries on, and has no keys itself."""

from collections.abc import Sequence
from typing import Protocol

from bridges.errors import RouterRefusedError
from bridges.router_protocol import Publication
from gf_i2p.netdb.meta_lease_set import MetaLease


class AnotherPublishesError(RouterRefusedError):
    """A node beside the endpoint may publish the master: the endpoint gives up the master's session."""


class EntrySigner(Protocol):
    """Signs sets for callers that may not sign."""

    async def sign(self, master: bytes, entries: Sequence[MetaLease], newest: int | None) -> Publication:
        """Make and sign a set with these entries, and the SessionConfig of the master.

        `master`: the hash of the master. `newest`: `published` of the last set that the router got for the master, in
        seconds since the epoch; None: no set. The new set has a greater `published` than that set, and than every set
        that a signer has made here for the master before, also before a restart.

        Raises `AnotherPublishesError` while a node beside the endpoint may publish the master, `RouterRefusedError`
        when the signer may not sign for this master, or cannot sign, and another `RouterError` when the signer cannot
        find out whether signing is right. The sentence shows no secret. Raises `LimitError` for entries that make no
        set which both routers accept.
        """
        ...
