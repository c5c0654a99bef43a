"""Asking all servers of a farm what is in their logs, to see how far a change of the servers has come."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gf_i2p.transport.client.configuration_query import fetch_configuration
from gf_i2p.transport.client.known_servers import Directory, Place
from gf_i2p.transport.errors import DialError, PeerRefusedError, TransportError, UnreachableError
from gf_i2p.transport.interface import Transport
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.log_values import Configuration


@dataclass(frozen=True, slots=True)
class Survey:
    """Who tells what of the farm, by server id."""

    told: Mapping[int, Configuration]
    """The newest Configuration in each one's log, committed or not."""
    troubles: Mapping[int, str]
    """Why the others have told nothing: a sentence each."""
    strange: Mapping[int, str]
    """Those among them that nothing here says how to dial, or how to know."""
    refused: frozenset[int] = frozenset()
    """Those that have answered and let us not in, or have no such farm: to ask again is of no use."""


async def survey(
    transport: Transport,
    directory: Directory,
    cluster: str,
    credentials: Callable[[Endpoint], Credentials],
    *,
    seconds: float,
) -> Survey:
    """Ask all servers of the directory, and those that they tell of, side by side. `seconds`: for each."""
    told: dict[int, Configuration] = {}
    troubles: dict[int, str] = {}
    refused: set[int] = set()

    async def ask(place: Place) -> None:
        try:
            found = await fetch_configuration(
                transport, place.endpoint, cluster, credentials(place.endpoint), seconds=seconds
            )
        except TransportError as error:
            troubles[place.server] = str(error)
            if isinstance(error, DialError) and not isinstance(error, (UnreachableError, PeerRefusedError)):
                refused.add(place.server)
            return
        if found is None:
            troubles[place.server] = f"{place.endpoint} tells nobody who belongs to {cluster} (404)."
            refused.add(place.server)
            return
        directory.learn(found)
        if place.server not in told or told[place.server].log_index < found.log_index:
            told[place.server] = found

    asked: tuple[Place, ...] = ()
    while new := [place for place in directory.places if place not in asked]:
        asked += tuple(new)
        await asyncio.gather(*map(ask, new))
    strange = directory.troubles
    left = {server: why for server, why in (troubles | strange).items() if server not in told}
    return Survey(told, left, strange, frozenset(refused & left.keys()))
