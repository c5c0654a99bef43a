"""The servers that can publish, by their own records and by the other servers' reports."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import Poster
from gf_i2p.farm.record.status_record import StatusRecord

PUBLISHES: Final = frozenset({"on", "auto"})
OFF: Final = "off"
OLD_MODE: Final = "meta"
"""Mode of a server whose record has no mode: the server's version has this mode only."""

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Accusation:
    """A server's report that another server is not heard."""

    by: int
    """Id of the reporting server."""
    index: int
    """Index of the report's entry in the log."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The mode and the master that one server, or most servers, are configured for."""

    mode: str = OFF
    """Mode of the server as publisher: "off", "dry-run", "meta" or "failover"; "off" also when publishing is off."""
    master: bytes | None = None
    """Hash of the master, 32 bytes; None when no record tells a valid master."""

    @classmethod
    def of(cls, record: StatusRecord) -> Self:
        """Read a server's setting from its record."""
        if record.meta is None:
            return cls()
        mode = OLD_MODE if record.config is None or record.config.mode is None else record.config.mode
        return cls(mode if record.meta.publish_config in PUBLISHES else OFF, record.meta.hash)

    @property
    def is_complete(self) -> bool:
        """Whether the setting names a mode and a master."""
        return self.mode != OFF and self.master is not None

    @classmethod
    def most_frequent(cls, settings: Mapping[int, "Setting"]) -> Self:
        """Return the most frequent mode, not counting "off", and the most frequent master. `settings`: by server id.

        Mode and master are counted apart. Of equally frequent values, the value with the lowest server id wins. Silent
        servers count as well: otherwise a server's death could change the setting for the others.
        """
        in_order = [each for _, each in sorted(settings.items())]
        return cls(
            _most_frequent(each.mode for each in in_order if each.mode != OFF) or OFF,
            _most_frequent(each.master for each in in_order if each.master is not None),
        )


def is_able(poster: Poster, now_ms: int, passed_ms: int, parameters: Parameters, *, is_publisher: bool = False) -> bool:
    """Whether a server can publish: a quick test before the full test in `objection`.

    Call this only for a server that no server accuses, and whose setting is whole and equal to the setting of most
    servers. True is final. After False, `objection` decides: `objection` excuses some servers, and tells the reason.
    `now_ms`: farm time; `passed_ms`: the farm's stopwatch; `is_publisher`: whether the server publishes now.
    """
    record = poster.record
    age_ms = now_ms - record.date_ms
    if age_ms > parameters.fresh_ms or not record.router_up:
        return False
    if is_publisher:
        return -age_ms <= parameters.ahead_ms
    silent_ms = passed_ms - poster.heard_ms
    return silent_ms <= parameters.fresh_ms and silent_ms - age_ms <= parameters.ahead_ms


def objection(
    poster: Poster | None,
    setting: Setting,
    common: Setting,
    accusation: Accusation | None,
    now_ms: int | None,
    passed_ms: int,
    parameters: Parameters,
    *,
    is_publisher: bool = False,
    excused: bool = False,
) -> str | None:
    """Return why a server cannot publish, as a clause; None: the server can publish.

    Args:
        poster: the server's newest record; None before the first record.
        setting: the server's own setting.
        common: the setting of most servers.
        accusation: a report that the server is not heard; None without a report.
        now_ms: farm time; None while too few servers have posted.
        passed_ms: the farm's stopwatch.
        parameters: the farm's parameters.
        is_publisher: whether the server publishes now.
        excused: whether the server's clock may be ahead. After a silence of the whole farm, the publisher may be the
            first server to post, and is then ahead of farm time for a while.
    """
    if poster is None or now_ms is None:
        return "it has posted nothing yet"
    record = poster.record
    if now_ms - record.date_ms > parameters.fresh_ms:
        return f"its newest record is {(now_ms - record.date_ms) / 1000:.0f} s old"
    ahead_ms = record.date_ms - now_ms
    if not is_publisher:
        # Farm time has risen since the record was committed, so the clock was further ahead. The publisher is exempt:
        # after a silence of the whole farm, farm time rises only because it catches up with the publisher's record.
        ahead_ms += passed_ms - poster.heard_ms
    if ahead_ms > parameters.ahead_ms and not excused:
        return f"its clock is {ahead_ms / 1000:.0f} s ahead of the farm's"
    # After a silence of the whole farm, the first server to post makes farm time catch up at once. That jump must not
    # count as a silence of the publisher. The date of the publisher's record shows well enough how old the record is.
    if not is_publisher and poster.is_silent(passed_ms, parameters):
        return f"nothing was heard of it for {(passed_ms - poster.heard_ms) / 1000:.0f} s"
    if accusation is not None:
        return f"server {accusation.by} no longer hears it"
    if not record.router_up:
        return "its router is down"
    if setting.mode == OFF:
        return "publishing is off there"
    if setting.mode != common.mode:
        return f"its mode is {setting.mode[:20]}, and the mode of most servers is {common.mode[:20]}"
    if setting.master is None:
        return "its master is no destination"
    if setting.master != common.master:
        return "it would publish for another master than most servers"
    return None


def _most_frequent(values: Iterable[_T]) -> _T | None:
    counts = Counter(values)  # keeps the order of the ids, so `max` prefers the value with the lowest id
    return max(counts, key=lambda value: counts[value], default=None)
