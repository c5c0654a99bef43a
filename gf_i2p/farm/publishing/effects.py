"""Work that one step of a publishing machine asks of its driver."""

from dataclasses import dataclass

from gf_i2p.farm.publishing.announcement import Announcement


@dataclass(frozen=True, slots=True)
class Announce:
    """Build and sign this set, and write the announcement into the log; then call `announced` or `failed`."""

    announcement: Announcement


@dataclass(frozen=True, slots=True)
class Rehearse:
    """Build and sign this set without giving the set away (mode `dry-run`); then call `taken` or `failed`."""

    announcement: Announcement


@dataclass(frozen=True, slots=True)
class Give:
    """Give the announced set to the router if `may_give` still allows that; then call `taken` or `failed`."""

    announcement: Announcement
    new_session: bool
    """End the session first: the present session shows the router the old keys."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Have the router forget all sets; then call `stopped`."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open a session that serves the master; then call `opened` or `failed`."""

    keys: object


@dataclass(frozen=True, slots=True)
class Drain:
    """Publish the session's lease set no more, and serve present clients for `DRAIN_SECONDS`; then call `drained`."""


@dataclass(frozen=True, slots=True)
class Close:
    """End the session at once; then call `closed`."""


Effect = Announce | Rehearse | Give | Stop | Open | Drain | Close


@dataclass(slots=True)
class PublishingEffects:
    """The work that a driver must do after a step, in the order of the fields."""

    next_step_at: float
    """Latest time of the next step, by the clock of `Situation.now`; the driver steps earlier on any change."""
    cancel: bool = False
    """Cancel the present work of the driver, and wait until that work has ended."""
    resume: bool = False
    """Let the draining session take clients again."""
    renew: bool = False
    """Post a record at once: the lease of this server is in doubt."""
    begin: Effect | None = None
    """Begin this work. A machine asks for one thing at a time."""
