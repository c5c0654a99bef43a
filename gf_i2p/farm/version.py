"""Which version a new set has."""

from gf_i2p.farm.state import FarmState


def next_version(state: FarmState, now_ms: int) -> int:
    """Return `published` for a new set, in seconds: later than all that was announced."""
    return max(now_ms // 1000, state.last_published_ms // 1000 + 1)
