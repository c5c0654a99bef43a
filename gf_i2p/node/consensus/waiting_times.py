"""Waiting times of connections that follow from the consensus time-outs."""

from typing import Final

from gf_i2p.raft.settings import I2P, Timing
from gf_i2p.transport.backoff import FLOOR_SECONDS
from gf_i2p.transport.i2p.i2p_transport import I2P_HANDSHAKE_SECONDS, I2P_REQUEST_SECONDS
from gf_i2p.wire.limits import HANDSHAKE_SECONDS

MAX_REDIAL_SECONDS: Final = 15.0
"""The longest pause between two attempts to dial a peer."""


def request_seconds(timing: Timing, *, inside: bool) -> float:
    """Return the seconds that a peer may take for an answer. A later answer would come after an election has begun."""
    return max(timing.election_max, 2 * timing.election_min, I2P_REQUEST_SECONDS if inside else 0.0)


def redial_seconds(timing: Timing) -> float:
    """Return the most seconds between two dials. A peer that comes back must be found before it calls an election."""
    return min(max(timing.election_max, FLOOR_SECONDS), MAX_REDIAL_SECONDS)


def handshake_seconds(timing: Timing, *, inside: bool) -> float:
    """Return the seconds that a handshake may take. `inside`: through I2P."""
    return I2P_HANDSHAKE_SECONDS if inside or timing.election_min >= I2P.election_min else HANDSHAKE_SECONDS
