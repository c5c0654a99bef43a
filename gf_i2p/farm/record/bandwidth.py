"""Used part of a router's bandwidth, by the numbers of a status record."""

from collections.abc import Mapping
from typing import Any, Final

_IN: Final = "currentInboundBandwidth"
_MOST_IN: Final = "configuredInboundBandwidth"
_OUT: Final = "currentOutboundBandwidth"
_MOST_OUT: Final = "configuredOutboundBandwidth"


def bandwidth_used(router: Mapping[str, Any]) -> float | None:
    """Return the used part of a router's bandwidth, in the busier direction; None when the record does not tell."""
    inbound = part_in_use(unchecked_number(router, _IN), unchecked_number(router, _MOST_IN))
    outbound = part_in_use(unchecked_number(router, _OUT), unchecked_number(router, _MOST_OUT))
    return outbound if inbound is None else inbound if outbound is None else max(inbound, outbound)


def unchecked_number(fields: Mapping[str, Any], name: str) -> float | None:
    """Return a number of an unchecked record; None when the number is missing or negative."""
    value: Any = fields.get(name)
    kind = type(value)  # true and false are no numbers here
    if (kind is not int and kind is not float) or value < 0:
        return None
    return float(value)


def part_in_use(used: float | None, limit: float | None) -> float | None:
    """Return the used part of a limit, 0 to 1; None when the record lacks either number."""
    if used is None or not limit:
        return None
    return min(used / limit, 1.0)
