"""Used shares of a router's and a leaf's limits, by the numbers of a status record.

Shares are whole thousandths, rounded down. So every server computes the same shares.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

WHOLE: Final = 1000
"""The share 1, in thousandths: the limit is used up."""
_IN: Final = "currentInboundBandwidth"
_MOST_IN: Final = "configuredInboundBandwidth"
_OUT: Final = "currentOutboundBandwidth"
_MOST_OUT: Final = "configuredOutboundBandwidth"


def bandwidth_used(router: Mapping[str, Any]) -> int | None:
    """Return the used share of a router's bandwidth in the busier direction, 0 to `WHOLE`; None: not in the record."""
    inbound = part_in_use(_whole_number(router, _IN), _whole_number(router, _MOST_IN))
    outbound = part_in_use(_whole_number(router, _OUT), _whole_number(router, _MOST_OUT))
    return outbound if inbound is None else inbound if outbound is None else max(inbound, outbound)


def unchecked_number(fields: Mapping[str, Any], name: str) -> float | None:
    """Return the field `name` of an unchecked record; None unless it is a finite number, 0 or more."""
    value: Any = fields.get(name)
    kind = type(value)  # true and false are no numbers here
    if (kind is not int and kind is not float) or not 0 <= value < math.inf:
        return None
    return float(value)


def part_in_use(used: int | None, limit: int | None) -> int | None:
    """Return the used share of a limit, 0 to `WHOLE`; None when a number is missing, or the limit is 0."""
    if used is None or not limit:
        return None
    return min(used * WHOLE // limit, WHOLE)


def _whole_number(fields: Mapping[str, Any], name: str) -> int | None:
    """Return the field `name`, rounded down, or None, as `unchecked_number` does. Routers tell fractions of bytes."""
    value = unchecked_number(fields, name)
    return None if value is None else int(value)
