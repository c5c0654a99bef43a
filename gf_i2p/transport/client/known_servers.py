"""The servers of a farm as a client knows them: the given servers, and the servers that the farm has told since."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.log_values import Configuration


class ServerEndpoint(NamedTuple):
    """A place: a server, and one endpoint of the server."""

    server: int
    endpoint: Endpoint


Prepare = Callable[[Sequence[ServerEndpoint]], Mapping[ServerEndpoint, str]]
"""Called at each change with all told places that were not given. The callback prepares dialling, and returns the
places that cannot be dialled, each with a sentence that names the missing setting."""


class KnownServers:
    """The places that were given to the client, and the places that servers have told in a Configuration.

    Given places stay. A newer Configuration replaces all told places.

    So a server may have two places: the given place, and the place that the other servers use. The client tries both,
    because either may be wrong: a server may have moved, and a client may have a way of its own to the server.
    """

    def __init__(self, endpoints: Mapping[int, Endpoint], prepare: Prepare) -> None:
        """`endpoints`: the given places, by server id. `prepare`: see `Prepare`."""
        self.given_places = tuple(ServerEndpoint(server, endpoint) for server, endpoint in endpoints.items())
        self.told_places: tuple[ServerEndpoint, ...] = ()
        """Told places that can be dialled."""
        self.troubles: dict[int, str] = {}
        """By server id, why a told place cannot be dialled: a sentence."""
        self.newest: Configuration | None = None
        """The Configuration with the greatest `log_index` so far; at most `MAX_SERVERS` servers."""
        self._prepare = prepare

    @property
    def places(self) -> tuple[ServerEndpoint, ...]:
        """All places that can be dialled, the given ones first."""
        return self.given_places + self.told_places

    def of(self, server: int) -> list[ServerEndpoint]:
        """Return the places where this server can be dialled."""
        return [place for place in self.places if place.server == server]

    def learn(self, configuration: Configuration) -> None:
        """Take in a Configuration from a server. A Configuration older than `newest` has no effect."""
        if self.newest is not None and configuration.log_index < self.newest.log_index:
            return
        self.newest = configuration
        troubles: dict[int, str] = {}
        told_places: list[ServerEndpoint] = []
        for server in configuration.servers:
            try:
                place = ServerEndpoint(server.id, Endpoint.parse(server.endpoint))
            except EndpointError as error:
                troubles[server.id] = f"Server {server.id} has an endpoint that cannot be dialled: {error}."
                continue
            if place not in self.given_places:
                told_places.append(place)
        undiallable = self._prepare(told_places)
        troubles.update({place.server: sentence for place, sentence in undiallable.items()})
        self.troubles = troubles
        self.told_places = tuple(place for place in told_places if place not in undiallable)
