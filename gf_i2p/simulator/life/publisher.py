"""The driver of the real publishing machine in a simulated server. Its router obeys each order after a while.

The rules of publishing are in `gf_i2p/farm/publishing`. This file only stands in for log, clock, keys and router.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Protocol

from bridges.i2cp.lease_times import LEASES
from bridges.i2cp.settings import RouterKind
from gf_i2p.farm.choice.publisher import SetEntry
from gf_i2p.farm.publishing.announcement import Announcement
from gf_i2p.farm.publishing.effects import Announce, Close, Drain, Effect, Give, Open, Rehearse, Stop
from gf_i2p.farm.publishing.failover import DRAIN_SECONDS, FailoverMachine, FailoverState, NotDueError
from gf_i2p.farm.publishing.lease import LOOK_SECONDS, PublisherLease
from gf_i2p.farm.publishing.meta import MetaMachine
from gf_i2p.farm.publishing.set_progress import PublishProgress
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.farm.state import FarmState

ROUTER_SECONDS: Final = 4.0
"""Most seconds until the router has obeyed an order."""
RENEW_SECONDS: Final = LEASES[RouterKind.I2PD].renew
"""Seconds between two lease sets of a service, as at an i2pd, where sets are more frequent than at a Java router."""
RETRY_SECONDS: Final = 3.0
"""Seconds after a failed announcement of a service's lease set until the next try."""
_KEYS: Final = object()


@dataclass(frozen=True, slots=True)
class GivenSet:
    """A set that a server gives to its router."""

    server: int
    version_ms: int
    """The set's `published`, in ms since the epoch."""
    entries: tuple[SetEntry, ...]
    """The leaves of all sets; none in mode `failover`."""
    posted: float
    """Time when the announcement was posted, in seconds of the server's monotonic clock."""


class Host(Protocol):
    """The simulated server that a `SimulatedPublisher` runs on."""

    id: int
    state: FarmState
    applied: int

    @property
    def mode(self) -> str:
        """The server's mode as publisher."""

    @property
    def monotonic(self) -> float:
        """The time that the monotonic clock shows now, in seconds."""

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970 by this machine's wall clock, which may be wrong."""

    def announce(self, version_ms: int, done: Callable[[int | None], None]) -> None:
        """Post a record that names a set of this version.

        `done` gets the record's index in the log; None: the outcome is unknown.
        """

    def changed(self) -> None:
        """Post a record soon, because something has changed."""

    def give(self, lease_set: GivenSet) -> None:
        """Give a set to the router."""

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action in this process after `seconds`, or at the end of a pause if that is later."""


class SimulatedPublisher:
    """The driver of the publishing machine in one process of a simulated server. A restart makes a new driver."""

    def __init__(self, host: Host, rng: Random) -> None:
        self._host = host
        self._rng = rng
        self._looks = 0
        """Number of steps that the machine has taken."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        host = self._host
        self.lease = PublisherLease()
        self._mode = host.mode
        self._progress = PublishProgress()
        self._machine: MetaMachine | FailoverMachine
        if self._mode == "failover":
            self._machine = FailoverMachine(host.id, self.lease, self._progress)
        else:
            self._machine = MetaMachine(host.id, self.lease, self._progress, dry_run=self._mode == "dry-run")
        self._under_way = 0
        """Number of the machine's present action. An action with another number was cancelled."""
        self._service = 0
        """Number of the open session; 0: no session is open."""
        self._awaited: tuple[Announcement, int] | None = None
        """The session's lease set whose announcement is committed, and the index of the announcement."""

    @property
    def version_ms(self) -> int:
        """The newest version that this process has announced, in ms since the epoch; 0: no version yet."""
        current = self._progress.current
        return 0 if current is None else current.published_ms

    @property
    def publishes(self) -> bool:
        """Whether the router publishes for this process, and would go on without an order to stop."""
        if isinstance(self._machine, FailoverMachine):
            return self._machine.state is FailoverState.SERVING
        return self._machine.last_set is not None and self._mode != "dry-run"

    def look(self) -> None:
        """Step the machine, and carry out the effects."""
        if self._mode != self._host.mode:
            self._begin_anew()  # as a restart with another configuration does
        if self._mode == "off":
            return
        if isinstance(self._machine, FailoverMachine):
            self._check_service(self._machine)
        effects = self._machine.step(self._situation())
        if effects.cancel or effects.resume:
            self._under_way += 1
        if effects.renew:
            self._host.changed()
        if effects.begin is not None:
            self._under_way += 1
            self._begin(effects.begin)
        wait = effects.next_step_at - self._host.monotonic
        self._looks += 1
        if wait < LOOK_SECONDS:  # the host looks at that interval anyway
            self._host.after(max(wait, 0.0), partial(self._look_again, self._looks))

    def _look_again(self, number: int) -> None:
        if number == self._looks:
            self.look()

    def _situation(self) -> Situation:
        host = self._host
        return Situation(host.monotonic, host.wall_ms, host.state.choice, host.state, host.applied, keys=_KEYS)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Finish the present action after a random time of up to `seconds`, and step the machine.

        Does nothing if the action was cancelled by then.
        """
        number, machine = self._under_way, self._machine

        def ends() -> None:
            if number == self._under_way and machine is self._machine:
                action()
                self.look()

        self._host.after(self._rng.random() * seconds, ends)

    def _begin(self, effect: Effect) -> None:
        machine, now = self._machine, self._host.monotonic
        if isinstance(machine, FailoverMachine):
            match effect:
                case Open():
                    self._later(ROUTER_SECONDS, partial(self._announce_lease_set, machine, self._under_way))
                case Drain():
                    self._later(DRAIN_SECONDS, machine.drained)
                case Close():
                    self._service, self._awaited = 0, None
                    machine.closed()
            return
        match effect:
            case Rehearse(announcement):
                machine.taken(announcement, self._situation())
            case Announce(announcement):
                self._announce(machine, announcement)
            case Give(announcement):
                self._later(ROUTER_SECONDS, partial(self._give, machine, announcement))
            case Stop():
                self._later(ROUTER_SECONDS, partial(machine.stopped, now))

    # Sets of leaves -------------------------------------------------------------------------------------------------

    def _announce(self, machine: MetaMachine, announcement: Announcement) -> None:
        number = self._under_way
        self._progress.announced(announcement.published, b"")

        def done(index: int | None) -> None:
            if number != self._under_way or machine is not self._machine:
                return
            if index is None:
                machine.failed("nobody knows whether it is in the log", self._host.monotonic)
            else:
                machine.announced(announcement, index)
            self.look()

        self._host.announce(announcement.published * 1000, done)

    def _give(self, machine: MetaMachine, announcement: Announcement) -> None:
        if not machine.may_give(announcement, self._situation()):
            machine.failed("the lease is in doubt", self._host.monotonic)
            return
        self._give_to_host(announcement)
        machine.taken(announcement, self._situation())

    def _give_to_host(self, announcement: Announcement) -> None:
        leaves = announcement.leaf_set.leaves
        self._host.give(GivenSet(self._host.id, announcement.published * 1000, leaves, announcement.posted_at))

    # A service ------------------------------------------------------------------------------------------------------

    def _announce_lease_set(self, machine: FailoverMachine, number: int) -> None:
        """Announce the next lease set of session `number`, if that session is open or about to open."""
        if machine is not self._machine or number not in {self._service, self._under_way}:
            return
        situation = self._situation()
        try:
            announcement = machine.announce(machine.version(situation), situation)
        except NotDueError as error:
            self._refused(machine, number, str(error))
            return
        self._progress.announced(announcement.published, b"")

        def done(index: int | None) -> None:
            if machine is not self._machine or number not in {self._service, self._under_way}:
                return
            if index is None:
                self._refused(machine, number, "nobody knows whether it is in the log")
            else:
                self._awaited = announcement, index
            self.look()

        self._host.announce(announcement.published * 1000, done)

    def _check_service(self, machine: FailoverMachine) -> None:
        """Give the router the announced lease set when the announcement is applied."""
        if self._awaited is None or self._host.applied < self._awaited[1]:
            return
        (announcement, _), self._awaited = self._awaited, None
        number = self._service or self._under_way
        try:
            machine.check(announcement, self._situation())
        except NotDueError as error:
            self._refused(machine, number, str(error))
            return
        self._give_to_host(announcement)
        machine.taken(announcement.published, self._host.wall_ms)
        if machine.state is FailoverState.OPENING:  # the farm may choose another server before the router answers
            self._later(ROUTER_SECONDS, partial(self._opened, machine, number))
        self._host.after(RENEW_SECONDS, partial(self._announce_lease_set, machine, number))

    def _opened(self, machine: FailoverMachine, number: int) -> None:
        self._service = number
        machine.opened(self._host.monotonic)

    def _refused(self, machine: FailoverMachine, number: int, reason: str) -> None:
        if machine.state is FailoverState.OPENING:
            machine.failed(reason, self._host.monotonic)
        elif self._service == number:
            self._host.after(RETRY_SECONDS, partial(self._announce_lease_set, machine, number))
