"""How much of its bandwidth a router uses, by the numbers of a status record."""

from collections.abc import Mapping
from typing import Any, Final

_IN: Final = "currentInboundBandwidth"
_MOST_IN: Final = "configuredInboundBandwidth"
_OUT: Final = "currentOutboundBandwidth"
_MOST_OUT: Final = "configuredOutboundBandwidth"


def bandwidth_used(router: Mapping[str, Any]) -> float | None:
    """Return which part of its bandwidth a router uses, in its busier direction; None when its record does not say."""
    inbound = part_in_use(number(router, _IN), number(router, _MOST_IN))
    outbound = part_in_use(number(router, _OUT), number(router, _MOST_OUT))
    return outbound if inbound is None else inbound if outbound is None else max(inbound, outbound)


def number(found: Mapping[str, Any], name: str) -> float | None:
    """Return a number of a record that nobody has checked; None when there is none, or it is less than 0."""
    value: Any = found.get(name)
    kind = type(value)  # true and false are no numbers
    if (kind is not int and kind is not float) or value < 0:
        return None
    return float(value)


def part_in_use(used: float | None, most: float | None) -> float | None:
    """Return the part of what is configured that is used, 0 to 1; None when the record lacks one of both numbers."""
    if used is None or not most:
        return None
    return min(used / most, 1.0)
