"""Checks of the other servers: whether each lets this node in, how long that takes, and whether the time-outs fit."""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gf_i2p.cli.doctor.checks import Check, CheckResult, Remedy, fail, fault_and_advice, ok, skip, warn
from gf_i2p.cli.doctor.node_directory import NODE, SECRETS, NodeFiles
from gf_i2p.cli.doctor.router import PROXY
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.router_logins import RouterLogins, proxy_settings
from gf_i2p.node.files.server_tables import ServerTable
from gf_i2p.node.files.trust import tls_settings
from gf_i2p.raft.settings import Timing
from gf_i2p.transport.client.server_queries import GetProtocol
from gf_i2p.transport.errors import DialError, TransportError, challenged_again
from gf_i2p.transport.i2p.i2p_transport import I2pTransport
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.tls.tls_transport import TlsTransport
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import Challenges
from gf_i2p.wire.upgrade import ClientHandshake, Upgraded

I2P_SECONDS: Final = 60.0
"""Most seconds for one server inside I2P: the router may have to build tunnels first."""
TLS_SECONDS: Final = 15.0
_UNANSWERED: Final = (
    "Check that the node and the router of that server run. A server that was just restarted can be found again when "
    "its old tunnels have ended, within ten minutes."
)
_CONNECTED: Final = Remedy(
    i2pd="Nothing for now: the farm uses the node's own connection. Doctor asked by the router's proxy. An i2pd "
    'that is a floodfill misreads the lease sets in its own store (its log has "number of leases", or "exceeds '
    'buffer size"), and cannot reach those destinations: set floodfill = false in i2pd.conf, and restart i2pd.',
    java="Nothing for now: the farm uses the node's own connection. Doctor asked by the router's proxy, which "
    "has another destination than the node: try again in ten minutes.",
)
"""Advice when doctor gets no answer from a server, but the node itself is connected to that server.

The fault of i2pd was seen in 2.45: `LeaseSet::PopulateLeases` reads a LeaseSet2 from i2pd's own netDb as a LeaseSet of
the first kind.
"""
ROUND_TRIPS: Final = 4
"""Least number of round trips in the shortest election time-out. So there is time to repeat a lost message."""


class NoAnswerError(DialError):
    """The proxy took the request, and no answer came in time."""


@dataclass(frozen=True, slots=True)
class Visit:
    """The durations of a log-in that succeeded, in seconds."""

    total: float
    """Seconds from the first dial to the last answer, with the challenge and the second dial."""
    round_trip: float
    """Seconds from the last request to its answer. Inside I2P this includes opening the stream."""


class PeerChecks:
    """The checks of all other servers."""

    def __init__(self, directory: Path, config: Config, secrets: Secrets | None, files: NodeFiles) -> None:
        """`files`: has the node's own connections and time-outs, as soon as the check of the node is over."""
        self._directory = directory
        self._config = config
        self._secrets = secrets
        self._files = files
        self._round_trips: dict[int, float] = {}

    def checks(self) -> list[Check]:
        """List the checks."""
        checks = [self._check(server) for server in self._config.servers if server.id != self._config.node.id]
        return [*checks, Check("time-outs", self._timing, after=(NODE, *(check.name for check in checks)))]

    def _check(self, server: ServerTable) -> Check:
        endpoint = Endpoint.parse(server.endpoint)
        seconds = I2P_SECONDS if endpoint.is_i2p else TLS_SECONDS
        # One second more than the limit of `visit`, because the message of `visit` says more.
        return Check(
            f"server {server.id}",
            lambda: self._reach(server.id, endpoint, seconds),
            seconds + 1,
            (SECRETS, PROXY) if endpoint.is_i2p else (SECRETS,),
            after=(NODE,),
        )

    async def _reach(self, server_id: int, endpoint: Endpoint, seconds: float) -> CheckResult:
        config, secrets = self._config, self._secrets
        assert secrets is not None
        credentials = secrets.login(config.node.id).at(server_id)
        try:
            login = await visit(self._transport(endpoint), endpoint, config.node.cluster, credentials, seconds)
        except NoAnswerError as error:
            if endpoint.is_i2p and server_id in self._files.connected:
                return warn(f"{endpoint.host}: {error}, but the node itself is connected to that server", _CONNECTED)
            return fail(f"{endpoint.host}: {error}", Remedy.either(_UNANSWERED))
        except (ConfigError, TransportError, RemoteProtocolError) as error:
            fault, advice = fault_and_advice(str(error).removeprefix(f"{endpoint}: "))
            return fail(
                f"{endpoint.host}: {fault}",
                Remedy.either(advice or "Check that the node and the router of that server run."),
            )
        self._round_trips[server_id] = login.round_trip
        return ok(f"{endpoint.host} lets this node in ({login.total:.2f} s, round trip {_span(login.round_trip)})")

    def _transport(self, endpoint: Endpoint) -> Transport:
        router = self._config.router
        if endpoint.is_i2p:
            assert router is not None
            assert self._secrets is not None
            return I2pTransport(proxy_settings(router, RouterLogins.of(router, self._secrets)))
        # Only servers that dial this node need its certificate, and another check looks at that certificate.
        return TlsTransport(replace(tls_settings(self._directory, self._config), certificate=None, key=None))

    async def _timing(self) -> CheckResult:
        running = self._files.timing
        plan = self._config.plan
        if running is not None:
            return timing_result(running, self._round_trips, source="in force" if plan.fixed else "adapted")
        return timing_result(plan.first, self._round_trips, source="" if plan.fixed else "at the start")


def timing_result(timing: Timing, round_trips: dict[int, float], *, source: str = "") -> CheckResult:
    """Judge the time-outs by the measured round trips. `round_trips`: by server id. All times in seconds.

    `source`: a remark about the time-outs for the operator, such as "in force" or "at the start"; "" for none.
    """
    settings = f"heartbeat {timing.heartbeat:g} s, election {timing.election_min:g} to {timing.election_max:g} s"
    settings += f" ({source})" if source else ""
    if not round_trips:
        return skip(f"not compared, because no server was reached ({settings})")
    slowest, seconds = max(round_trips.items(), key=lambda item: item[1])
    text = f"{settings}; longest round trip {_span(seconds)} (server {slowest})"
    election_min = max(seconds * ROUND_TRIPS, 0.01)
    remedy = Remedy.either(
        f'[timing] profile = "i2p", or election_min of at least {election_min:.2f} and a quarter of that as the '
        "heartbeat; "
        "the same on every server"
    )
    if seconds >= timing.election_min:
        return fail(f"{text}: no leader could keep its leadership", remedy)
    if seconds * ROUND_TRIPS > timing.election_min:
        return warn(f"{text}: leaders may lose their leadership without a fault", remedy)
    return ok(text)


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


async def visit(
    transport: Transport, endpoint: Endpoint, cluster: str, credentials: Credentials, seconds: float
) -> Visit:
    """Log in as a node does, and close the connection: one attempt, on two connections because of the challenge.

    Nothing is sent but the handshake, so the farm does not change. Raises `DialError` or another `TransportError`, or
    `RemoteProtocolError`, each with a sentence for the operator.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    end = began + seconds
    challenges = Challenges(credentials.others)
    while True:
        caller = GetProtocol(
            ClientHandshake(
                host=endpoint.authority,
                cluster=cluster,
                credentials=credentials,
                now=loop.time(),
                entropy=os.urandom,
                proxied=transport.proxied(endpoint),
                proxy_login=transport.proxy_login(endpoint),
            ),
            endpoint,
        )
        connection = await transport.dial(endpoint, lambda caller=caller: caller, deadline=end - loop.time())  # type: ignore[misc]
        try:
            async with asyncio.timeout_at(end):
                outcome = await caller.outcome
        except TimeoutError:
            raise NoAnswerError(f"no answer within {seconds:g} s") from None
        finally:
            connection.close()
        if isinstance(outcome, Upgraded):
            return Visit(caller.answered_at - began, caller.answered_at - caller.asked_at)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            broken = caller.broken_by
            reason = "the peer closed the connection" if broken is None else f"the connection broke ({broken})"
            raise DialError(f"{reason}: check that the node of that server runs.")
        if not challenges.admit(outcome):
            raise challenged_again(outcome, "it", credentials.user)
