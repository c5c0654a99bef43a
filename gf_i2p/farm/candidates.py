"""Which servers can publish at all: by what they have posted, and by what others say of them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import Poster
from gf_i2p.farm.record import StatusRecord

PUBLISHES: Final = frozenset({"on", "auto"})
OFF: Final = "off"
OLD_MODE: Final = "meta"
"""Of servers whose records do not say: there was no other."""

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Accusation:
    """A server says that it hears nothing of another one, in the entry of this index."""

    by: int
    index: int


@dataclass(frozen=True, slots=True)
class Agreed:
    """What most of those servers say that may publish at all, with the lowest id where as many say otherwise."""

    mode: str = OFF
    master: bytes | None = None
    """The hash of what they publish."""

    @classmethod
    def among(cls, records: Mapping[int, StatusRecord]) -> "Agreed":
        """Ask them all, also those that are silent: who dies must not change what the others do."""
        willing = [record for _, record in sorted(records.items()) if may_publish(record)]
        masters = [record.meta.hash for _, record in sorted(records.items()) if record.meta is not None]
        return cls(
            _most(mode_of(record) for record in willing) or OFF,
            _most(master for master in masters if master is not None),
        )


def mode_of(record: StatusRecord) -> str:
    """Return what a server does when it is chosen."""
    if record.meta is None or record.meta.publish_config not in PUBLISHES:
        return OFF
    return OLD_MODE if record.config is None or record.config.mode is None else record.config.mode


def may_publish(record: StatusRecord) -> bool:
    """Whether a server is configured to publish."""
    return mode_of(record) != OFF


def objection(
    poster: Poster | None,
    accusation: Accusation | None,
    agreed: Agreed,
    now_ms: int | None,
    passed_ms: int,
    parameters: Parameters,
) -> str | None:
    """Say why a server cannot publish, or None. `now_ms`: farm time; `passed_ms`: the farm's stopwatch."""
    if poster is None or now_ms is None:
        return "it has posted nothing yet"
    record = poster.record
    if now_ms - record.date_ms > parameters.fresh_ms:
        return f"its newest record is {(now_ms - record.date_ms) / 1000:.0f} s old"
    if record.date_ms - now_ms > parameters.ahead_ms:
        return f"its clock is {(record.date_ms - now_ms) / 1000:.0f} s ahead of the farm's"
    if poster.is_silent(passed_ms, parameters):
        return f"nothing was heard of it for {(passed_ms - poster.heard_ms) / 1000:.0f} s"
    if accusation is not None:
        return f"server {accusation.by} hears nothing of it"
    if not record.router_up:
        return "its router is down"
    mode = mode_of(record)
    if record.meta is None or mode == OFF:
        return "publishing is off there"
    if mode != agreed.mode:
        return f"its mode is {mode[:20]}, and that of most is {agreed.mode[:20]}"
    if record.meta.hash is None:
        return "its master is no destination"
    if agreed.master is not None and record.meta.hash != agreed.master:
        return "it would publish for another master than most"
    return None


def _most(values: Iterable[_T]) -> _T | None:
    counted = Counter(values)  # in the order of the ids: of equal counts the first stands first
    return max(counted, key=lambda value: counted[value], default=None)
