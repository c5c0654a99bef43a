"""The servers of a farm as a client knows them: those it was given, and those that the farm has told of since."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.log_values import Configuration


class Place(NamedTuple):
    """A server, and one endpoint at which it is said to be."""

    server: int
    endpoint: Endpoint


Prepare = Callable[[Sequence[Place]], Mapping[Place, str]]
"""Told of all places that were not given, each time that they change: makes ready for dialling them, and returns those
that cannot be, each with a sentence that says what to add so that they can."""


class KnownServers:
    """What was given stays. What was told is exchanged when somebody tells of a newer Configuration.

    A server may so have two places: where the client was told that it is, and where the servers find it. Both count,
    for neither need be right: a server may have moved, and a client may have a way of its own to it.
    """

    def __init__(self, given: Mapping[int, Endpoint], prepare: Prepare) -> None:
        """`given`: by server id. `prepare`: see `Prepare`."""
        self.given = tuple(Place(server, endpoint) for server, endpoint in given.items())
        self.told: tuple[Place, ...] = ()
        """Places beside those given that can be dialled."""
        self.troubles: dict[int, str] = {}
        """Servers that have been told of with a place that cannot be dialled: a sentence each."""
        self.newest: Configuration | None = None
        """The Configuration with the greatest `log_index` so far; at most `MAX_SERVERS` servers."""
        self._prepare = prepare

    @property
    def places(self) -> tuple[Place, ...]:
        """All that can be dialled, those given first."""
        return self.given + self.told

    def of(self, server: int) -> list[Place]:
        """Where this server can be dialled."""
        return [place for place in self.places if place.server == server]

    def learn(self, configuration: Configuration) -> None:
        """Take in what a server has told; an older Configuration than the newest changes nothing."""
        if self.newest is not None and configuration.log_index < self.newest.log_index:
            return
        self.newest = configuration
        troubles: dict[int, str] = {}
        told: list[Place] = []
        for server in configuration.servers:
            try:
                place = Place(server.id, Endpoint.parse(server.endpoint))
            except EndpointError as error:
                troubles[server.id] = f"Server {server.id} has an endpoint that cannot be dialled: {error}."
                continue
            if place not in self.given:
                told.append(place)
        refused = self._prepare(told)
        troubles.update({place.server: sentence for place, sentence in refused.items()})
        self.troubles = troubles
        self.told = tuple(place for place in told if place not in refused)
