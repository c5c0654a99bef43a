"""What one step of a publishing machine asks its driver to do."""

from dataclasses import dataclass

from gf_i2p.farm.publishing.announcement import Announcement


@dataclass(frozen=True, slots=True)
class Announce:
    """Build and sign this set, and write the announcement into the log; then call `announced` or `failed`."""

    announcement: Announcement


@dataclass(frozen=True, slots=True)
class Rehearse:
    """Build and sign this set, and give it to nobody (mode `dry-run`); then call `given` or `failed`."""

    announcement: Announcement


@dataclass(frozen=True, slots=True)
class Give:
    """Give the announced set to the router, when `may_give` still says so; then call `given` or `failed`."""

    announcement: Announcement
    new_session: bool
    """End the session first: the open session shows the router the old keys."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Have the router forget everything; then call `stopped`."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open a session that serves the master; then call `opened` or `failed`."""

    keys: object


@dataclass(frozen=True, slots=True)
class Drain:
    """Have the session publish nothing more and let the clients go, for `DRAIN_SECONDS`; then call `drained`."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the session at once; then call `closed`."""


Effect = Announce | Rehearse | Give | Stop | Open | Drain | Close


@dataclass(slots=True)
class Effects:
    """What a driver does after a step, in the order of the fields."""

    look_at: float
    """When to step again at the latest, by the clock of `Situation.now`; earlier when anything changes."""
    cancel: bool = False
    """Cancel what the driver does for the machine now, and wait until that has ended."""
    resume: bool = False
    """Have the draining session go on."""
    renew: bool = False
    """Post a record at once: the lease of this server is in doubt."""
    begin: Effect | None = None
    """Begin this. A machine asks for one thing at a time."""
