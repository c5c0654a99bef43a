"""Which servers can publish, by their own records and by the other servers' reports."""

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
"""Mode of servers whose records have no mode: their version knew no other."""

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Accusation:
    """A server reports that it hears nothing of another server, in the entry of this index."""

    by: int
    index: int


@dataclass(frozen=True, slots=True)
class Setting:
    """The configured publishing of one server, or of most servers."""

    mode: str = OFF
    """Mode of the server as publisher: "off", "dry-run", "meta" or "failover"."""
    master: bytes | None = None
    """Hash of the master, 32 bytes; None when the record does not tell the master."""

    @classmethod
    def of(cls, record: StatusRecord) -> Self:
        """Read a server's setting from its record."""
        if record.meta is None:
            return cls()
        mode = OLD_MODE if record.config is None or record.config.mode is None else record.config.mode
        return cls(mode if record.meta.publish_config in PUBLISHES else OFF, record.meta.hash)

    @property
    def is_whole(self) -> bool:
        """Whether the setting names a mode and a master."""
        return self.mode != OFF and self.master is not None

    @classmethod
    def of_most(cls, settings: Mapping[int, "Setting"]) -> Self:
        """Return the commonest mode other than off, and the commonest master.

        Among equals the lowest server id decides. Silent servers count, too: a server's death must not change the
        setting of the others.
        """
        in_order = [each for _, each in sorted(settings.items())]
        return cls(
            _most(each.mode for each in in_order if each.mode != OFF) or OFF,
            _most(each.master for each in in_order if each.master is not None),
        )


def is_able(poster: Poster, now_ms: int, passed_ms: int, parameters: Parameters, *, is_publisher: bool = False) -> bool:
    """Whether a server whose setting is that of most, and whom nobody accuses, can publish. Quick.

    After False, `objection` decides, and gives the reason.
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
    most: Setting,
    accusation: Accusation | None,
    now_ms: int | None,
    passed_ms: int,
    parameters: Parameters,
    *,
    is_publisher: bool = False,
    excused: bool = False,
) -> str | None:
    """Say why a server cannot publish, or None.

    `setting`: its own; `most`: that of most servers. `now_ms`: farm time; `passed_ms`: the farm's stopwatch.
    `is_publisher`: whether it publishes now.
    `excused`: for being ahead. After a silence of the whole farm the publisher may be the first who posts.
    """
    if poster is None or now_ms is None:
        return "it has posted nothing yet"
    record = poster.record
    if now_ms - record.date_ms > parameters.fresh_ms:
        return f"its newest record is {(now_ms - record.date_ms) / 1000:.0f} s old"
    ahead_ms = record.date_ms - now_ms
    if not is_publisher:  # it has gone on since; after a silence of all farm time catches up with the publisher's
        ahead_ms += passed_ms - poster.heard_ms
    if ahead_ms > parameters.ahead_ms and not excused:
        return f"its clock is {ahead_ms / 1000:.0f} s ahead of the farm's"
    # After a silence of the whole farm, the first server to post makes farm time catch up at once. That jump is no
    # silence of the publisher: the date of the publisher's record says how old the record is, by farm time.
    if not is_publisher and poster.is_silent(passed_ms, parameters):
        return f"nothing was heard of it for {(passed_ms - poster.heard_ms) / 1000:.0f} s"
    if accusation is not None:
        return f"server {accusation.by} hears nothing of it"
    if not record.router_up:
        return "its router is down"
    if setting.mode == OFF:
        return "publishing is off there"
    if setting.mode != most.mode:
        return f"its mode is {setting.mode[:20]}, and the mode of most servers is {most.mode[:20]}"
    if setting.master is None:
        return "its master is no destination"
    if setting.master != most.master:
        return "it would publish for another master than most servers"
    return None


def _most(values: Iterable[_T]) -> _T | None:
    counted = Counter(values)  # in the order of the ids: among equal counts the lowest id comes first
    return max(counted, key=lambda value: counted[value], default=None)
