"""Parameters of the whole farm. Administrators set them in the log, so every server has the same parameters."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import RecordError
from gf_i2p.netdb.limits import MAX_META_ENTRIES

TREES: Final = ("best", "tree")
_WORD: Final = re.compile(r"_([a-z])")
_RANGES: Final = {
    "fresh_ms": (35_000, 3_600_000),
    "ahead_ms": (10_000, 600_000),
    "margin": (0, 1000),
    "hold_ms": (0, 86_400_000),
    "leaf_up_ms": (0, 3_600_000),
    "leaf_down_ms": (0, 3_600_000),
    "unheard_ms": (0, 3_600_000),
    "flap_ms": (60_000, 86_400_000),
    "republish_min_ms": (60_000, 450_000),
    "republish_max_ms": (60_000, 450_000),
    "max_entries": (1, MAX_META_ENTRIES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of a farm. Times are in ms. In the log, the names are the same in camelCase: `freshMs`."""

    fresh_ms: int = 105_000
    """Greatest age of a server's newest record. A server posts every 30 s, and more often when this age is low."""
    ahead_ms: int = 60_000
    """How far a record's date may be ahead of farm time. Without this limit, a dead server whose clock was ahead would
    stay fresh for that much longer."""
    margin: int = 50
    """A server of the same rank may replace the publisher if its score, 0 to 1000, is higher by more than this."""
    hold_ms: int = 600_000
    """How long a publisher stays before a better server may take over. A publisher that fails is replaced at once."""
    leaf_up_ms: int = 60_000
    """How long a leaf that was down must be up before the farm lists the leaf again."""
    leaf_down_ms: int = 0
    """How long a listed leaf may be down before the farm drops the leaf, if the leaf's own server reports the leaf as
    down. That server is sure: the service did not answer, six pings got no answer, or the router found no lease set two
    times. With more than 0, the first record after that time drops the leaf; that record may come 30 s later."""
    unheard_ms: int = 90_000
    """How long a leaf stays listed while nothing is known about the leaf: another server reports that the leaf's server
    is not heard, or the router of the leaf's server does not answer."""
    flap_ms: int = 1_800_000
    """Longest wait of a leaf that goes up and down; each recent flap doubles the wait."""
    republish_min_ms: int = 60_000
    """Least time between two sets with different entries."""
    republish_max_ms: int = 450_000
    """Most time between two sets: Java takes no set that is ten minutes old."""
    tree: str = "best"
    """For more leaves than one set has room for: "best" lists the best leaves, "tree" makes branches."""
    max_entries: int = MAX_META_ENTRIES
    """Most entries of one set."""

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with these changes: new values, by the names in the log; None stands for the default.

        Raises `RecordError` for an unknown name, a value out of its range, or values that contradict each other.
        """
        values: dict[str, Any] = {}
        for name, value in changes.items():
            attribute = NAMES.get(name)
            if attribute is None:
                raise RecordError(f"{name[:80]!r} is no parameter of a farm; choose from {', '.join(sorted(NAMES))}")
            if value is None:
                values[attribute] = getattr(_DEFAULTS, attribute)
            else:
                values[attribute] = _checked_value(name, attribute, value)
        parameters = replace(self, **values)
        if parameters.republish_min_ms > parameters.republish_max_ms:
            raise RecordError("republishMinMs must not be greater than republishMaxMs")
        return parameters

    def encode(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults, by their names in the log."""
        return {
            name: getattr(self, attribute)
            for name, attribute in NAMES.items()
            if getattr(self, attribute) != getattr(_DEFAULTS, attribute)
        }

    def all(self) -> dict[str, Any]:
        """Return all parameters, by their names in the log."""
        return {name: asdict(self)[attribute] for name, attribute in NAMES.items()}


def _checked_value(name: str, attribute: str, value: object) -> int | str:
    if attribute == "tree":
        if value not in TREES:
            raise RecordError(f"{name} is one of {', '.join(TREES)}")
        return str(value)
    low, high = _RANGES[attribute]
    if type(value) is not int or not low <= value <= high:
        raise RecordError(f"{name} is a whole number from {low} to {high}")
    return value


_DEFAULTS: Final = Parameters()
NAMES: Final = {_WORD.sub(lambda match: match[1].upper(), each.name): each.name for each in fields(Parameters)}
"""The attributes' names, by the parameters' names in the log."""


def ranges() -> dict[str, tuple[int | str, ...]]:
    """Return the range of each parameter, by its name in the log.

    A range is the least and the greatest value, or the allowed words.
    """
    return {name: TREES if attribute == "tree" else _RANGES[attribute] for name, attribute in NAMES.items()}
