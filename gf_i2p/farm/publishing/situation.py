"""The input of one step of a publishing machine."""

from dataclasses import dataclass

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.state import FarmState


@dataclass(frozen=True, slots=True)
class Situation:
    """Log, clocks and keys at one step, as this server sees them."""

    now: float
    """Seconds, by a clock that never goes back and that goes on while the machine sleeps."""
    wall_ms: int
    """Milliseconds since the epoch, by this machine's clock."""
    choice: Choice
    """The farm's choice, by the log up to `applied`."""
    state: FarmState
    """The farm's state, by the log up to `applied`."""
    applied: int
    """Index of the last entry that this server has applied."""
    keys: object = None
    """The publishing keys. The machine only compares them by identity."""
    signing_obstacle: str | None = None
    """Why this server cannot sign, a clause for the operator; None while the server can sign."""
    loss: str | None = None
    """Why the router has lost the last set, a clause for the operator; None while the router has the set."""
