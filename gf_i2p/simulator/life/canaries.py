"""The canaries of a farm's decisions: each makes one mistake on purpose in the farm's state, choice or publishing.

To add a canary: write the function with the mistake, and add a line to `farm_canaries`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from gf_i2p.farm import damping, farm_time
from gf_i2p.farm.admin_entries import AdminEntry, Administration
from gf_i2p.farm.choice import candidates, tree
from gf_i2p.farm.choice.listed_leaves import LeafInputs
from gf_i2p.farm.choice.publisher import Election, Merit
from gf_i2p.farm.choice.score import own_score
from gf_i2p.farm.damping import Health
from gf_i2p.farm.farm_time import FarmClock
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import Poster
from gf_i2p.farm.publishing import announcement
from gf_i2p.farm.publishing.announcement import Announcement
from gf_i2p.farm.publishing.effects import Announce, Give, PublishingEffects
from gf_i2p.farm.publishing.failover import FailoverMachine
from gf_i2p.farm.publishing.lease import JudgedRight, PublisherLease, Right
from gf_i2p.farm.publishing.meta import MetaMachine
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import life_canary as life

# The original functions, for canaries that call these functions and add a mistake before or after the call.
_administer = Administration.apply
_objection = candidates.objection
_parse_clock = FarmClock.parse.__func__  # type: ignore[attr-defined]
_parse_election = Election.parse.__func__  # type: ignore[attr-defined]
_farm_time = farm_time.farm_time_ms
_room = tree.room
_elect = Election.elect
_encode = FarmState.encode
_decode = FarmState.decode.__func__  # type: ignore[attr-defined]

# Administrators -------------------------------------------------------------------------------------------------------


def _deaf_to(*actions: str) -> Any:
    def apply(administration: Administration, entry: AdminEntry, index: int) -> None:
        if entry.action not in actions:
            _administer(administration, entry, index)

    return apply


# Candidates and the publisher choice ----------------------------------------------------------------------------------


def _forgives(reason: str) -> Any:
    def objection(*args: Any, **kwargs: Any) -> str | None:
        objected = _objection(*args, **kwargs)
        return None if objected is not None and reason in objected else objected

    return objection


def _hears_nothing(state: FarmState, record: StatusRecord, index: int) -> None:
    """Ignore a record's reports about unreachable servers."""


def _believes_the_newest_clock(dates: Iterable[int], servers: int | None = None) -> int | None:
    times = list(dates)
    return None if _farm_time(times, servers) is None else max(times)


def _believes_the_oldest_clock(dates: Iterable[int], servers: int | None = None) -> int | None:
    times = list(dates)
    return None if _farm_time(times, servers) is None else min(times)


def _takes_the_best(
    election: Election,
    merits: Mapping[int, Merit],
    now: int,
    parameters: Parameters,
    *,
    by_administrator: bool = False,
) -> None:
    election.publisher = None
    _elect(election, merits, now, parameters, by_administrator=by_administrator)


def _stays_empty(
    election: Election,
    merits: Mapping[int, Merit],
    now: int,
    parameters: Parameters,
    *,
    by_administrator: bool = False,
) -> None:
    if election.publisher is not None or now < 60_000:
        publisher = election.publisher
        _elect(election, merits, now, parameters, by_administrator=by_administrator)
        if publisher is not None and publisher not in merits:
            election.publisher = None


# Leaves ---------------------------------------------------------------------------------------------------------------


def _has_room_for_one_more(kind: str, limit: int) -> int:
    return _room(kind, limit) + 1


def _has_room_for_one(kind: str, limit: int) -> int:
    return 1


def _waits_for_nothing(flaps: int, parameters: Parameters) -> int:
    return 0


def _goes_out_at_once(health: Health, parameters: Parameters, *, told: bool) -> int:
    return health.since_ms


def _lists_all(inputs: LeafInputs, leaf: Leaf) -> str | None:
    return "it is excluded" if leaf.hash in inputs.administration.excluded else None


def _leaves_nothing_out(state: FarmState) -> dict[bytes, str]:
    return {}


# Snapshots ------------------------------------------------------------------------------------------------------------


def _forgets_how_far_it_was(cls: type[FarmClock], *args: Any) -> FarmClock:
    clock: FarmClock = _parse_clock(cls, *args)
    clock._high_ms = None
    return clock


def _restores_other_scores(cls: type[FarmState], cluster: str, data: bytes) -> FarmState:
    state: FarmState = _decode(cls, cluster, data)
    nothing = own_score({})
    for server, each in state._judgements.items():  # a copy of each, because a record keeps its judgement
        state._judgements[server] = replace(each, score=nothing, points=0, most=0, total=nothing.total)
    return state


def _forgets_the_publisher(cls: type[Election], saved: Mapping[str, Any]) -> Election:
    election: Election = _parse_election(cls, saved)
    election.publisher = None
    return election


def _says_who_was_quick(state: FarmState) -> bytes:
    snapshot = json.loads(_encode(state))
    return json.dumps({**snapshot, "object": id(state)}).encode()


# The publisher --------------------------------------------------------------------------------------------------------


def _by_the_minute(state: FarmState, now_ms: int) -> int:
    return now_ms // 60_000 * 60


def _does_not_wait_for_the_log(machine: MetaMachine, attempt: Announcement, situation: Situation, effects: Any) -> None:
    if not machine._giving:
        machine._give(attempt, situation, effects)


def _gives_again(machine: MetaMachine, situation: Situation) -> PublishingEffects:
    effects = _step(machine, situation)
    if isinstance(effects.begin, Announce) and machine.last_set is not None:
        announcement = _last_taken[machine]
        machine._attempt = announcement
        machine._giving = True
        effects.begin = Give(announcement, new_session=False)
    return effects


def _remembers(machine: MetaMachine, announcement: Announcement, situation: Situation) -> None:
    _last_taken[machine] = announcement
    _taken(machine, announcement, situation)


def _never_expires(lease: PublisherLease, posted_at: float, now: float, seconds: float) -> bool:
    return True


def _counts_what_was_before(lease: PublisherLease, posted_at: float, now: float, seconds: float) -> bool:
    return now - posted_at <= seconds


def _never_stood_still(lease: PublisherLease, now: float) -> bool:
    return False


def _goes_on(lease: PublisherLease, server: int, mode: str, situation: Situation) -> JudgedRight:
    chosen = situation.choice.publisher == server and situation.choice.mode == mode
    return JudgedRight(Right.PUBLISH if chosen else Right.STOP)


def _gives_whoever_is_chosen(machine: MetaMachine, announcement: Announcement, situation: Situation) -> bool:
    return True


def _does_not_give_up(machine: MetaMachine) -> bool:
    return False


def _does_not_stop(machine: MetaMachine, situation: Situation, effects: PublishingEffects) -> None:
    """Do nothing, so the router keeps the old set."""


def _announces_without_the_right(machine: FailoverMachine, published: int, situation: Situation) -> Announcement:
    return Announcement(published, situation.now)


def _checks_nothing(machine: FailoverMachine, announcement: Announcement, situation: Situation) -> None:
    """Check nothing, so the router gets the lease set of a server that may not publish."""


def _notes_no_absence(health: Health, now_ms: int, parameters: Parameters) -> None:
    """Count nothing, although the poster was silent or accused."""


def _forgives_accusations(
    poster: Poster, value: bytes, record: StatusRecord, index: int, now_ms: int, parameters: Parameters
) -> None:
    poster.accused_ms = None
    _take_record(poster, value, record, index, now_ms, parameters)


def _goes_on_serving(machine: FailoverMachine, situation: Situation, effects: PublishingEffects) -> None:
    """Do nothing, so the server goes on serving although the farm has chosen another server."""


def _waits_until_open(machine: FailoverMachine, situation: Situation, effects: PublishingEffects) -> None:
    """Do nothing, so a session opens although the farm has chosen another server meanwhile."""


def _drains_what_was_due(machine: FailoverMachine, situation: Situation, effects: PublishingEffects) -> None:
    """Drain only a session that was due at some time since the session opened."""
    if machine._right is Right.PUBLISH:
        _newest_due[machine] = machine.sessions
    if machine._right is not Right.STOP or _newest_due.get(machine) == machine.sessions:
        _serve(machine, situation, effects)


def _version_by_the_minute(machine: FailoverMachine, situation: Situation) -> int:
    return situation.wall_ms // 60_000 * 60


_take_record = Poster.take
_step = MetaMachine.step
_taken = MetaMachine.taken
_serve = FailoverMachine._when_serving
_newest_due: WeakKeyDictionary[FailoverMachine, int] = WeakKeyDictionary()
"""Number of the newest session that was due while open."""
_last_taken: WeakKeyDictionary[MetaMachine, Announcement] = WeakKeyDictionary()


def farm_canaries() -> Iterator[Canary]:
    """Yield the canaries that break a farm's decisions."""
    yield life("lists-excluded", "ignores exclusions", (Administration, "apply", _deaf_to("exclude")))
    yield life("never-moves", "ignores orders to move publishing", (Administration, "apply", _deaf_to("move")))
    yield life("never-drains", "ignores orders to drain servers", (Administration, "apply", _deaf_to("drain")))
    yield life(
        "any-router", "chooses servers whose routers are down", (candidates, "objection", _forgives("router is"))
    )
    yield life("any-age", "chooses servers whose records are old", (candidates, "objection", _forgives("s old")))
    yield life("any-clock", "chooses servers whose clocks are ahead", (candidates, "objection", _forgives("ahead of")))
    yield life("any-mode", "chooses servers of another mode", (candidates, "objection", _forgives("its mode is")))
    yield life("any-off", "chooses servers that turned publishing off", (candidates, "objection", _forgives("is off")))
    yield life(
        "accusations", "ignores reports of unreachable servers", (FarmState, "_update_accusations", _hears_nothing)
    )
    yield life("newest-clock", "believes the newest clock", (farm_time, "farm_time_ms", _believes_the_newest_clock))
    yield life("oldest-clock", "believes the oldest clock", (farm_time, "farm_time_ms", _believes_the_oldest_clock))
    yield life("no-hysteresis", "always chooses the best server at once", (Election, "elect", _takes_the_best))
    yield life("stays-empty", "chooses nobody when the publisher fails", (Election, "elect", _stays_empty))
    yield life("one-too-many", "has room for one leaf too many", (tree, "room", _has_room_for_one_more))
    yield life("room-for-one", "lists one leaf only", (tree, "room", _has_room_for_one))
    yield life(
        "no-damping",
        "lists each leaf exactly while the leaf is up",
        (damping, "wait_ms", _waits_for_nothing),
        (Health, "out_ms", _goes_out_at_once),
    )
    yield life(
        "returns-clean", "forgets that an absent poster's leaves were down", (Health, "interrupt", _notes_no_absence)
    )
    yield life(
        "accused-clean", "forgets that an accused poster's leaves were down", (Poster, "take", _forgives_accusations)
    )
    yield life("own-leaf", "lists its own master, and loops", (LeafInputs, "objection", _lists_all))
    yield life("left-out", "does not name leaves that are left out", (FarmState, "_left_out", _leaves_nothing_out))
    yield life(
        "half-a-clock",
        "restores a clock without its highest time",
        (FarmClock, "parse", classmethod(_forgets_how_far_it_was)),
    )
    yield life("no-publisher", "restores no publisher", (Election, "parse", classmethod(_forgets_the_publisher)))
    yield life(
        "other-scores",
        "restores each score as if the router said nothing",
        (FarmState, "decode", classmethod(_restores_other_scores)),
    )
    yield life("other-bytes", "makes another snapshot on each server", (FarmState, "encode", _says_who_was_quick))
    yield life(
        "own-versions", "takes versions from its clock, in minutes", (announcement, "next_version", _by_the_minute)
    )
    yield life(
        "before-the-log",
        "gives sets before their announcement is committed",
        (MetaMachine, "_advance_attempt", _does_not_wait_for_the_log),
        (MetaMachine, "may_give", _gives_whoever_is_chosen),
    )
    yield life(
        "old-announcement", "gives sets that the lease no longer covers", (PublisherLease, "covers", _never_expires)
    )
    yield life(
        "no-new-version",
        "gives the old set again instead of a new version",
        (MetaMachine, "step", _gives_again),
        (MetaMachine, "taken", _remembers),
        (MetaMachine, "may_give", _gives_whoever_is_chosen),
    )
    yield life(
        "wakes-and-gives",
        "gives a set from before a pause",
        (PublisherLease, "covers", _counts_what_was_before),
        (PublisherLease, "_stalled", _never_stood_still),
    )
    yield life("no-lease", "publishes without a lease while its log agrees", (PublisherLease, "judge", _goes_on))
    yield life(
        "gives-anyway",
        "gives sets after another server is chosen",
        (MetaMachine, "may_give", _gives_whoever_is_chosen),
        (MetaMachine, "_give_up", _does_not_give_up),
        (MetaMachine, "_stop", _does_not_stop),
    )
    yield life(
        "serves-anyway",
        "gives a service's lease sets after another server is chosen",
        (FailoverMachine, "announce", _announces_without_the_right),
        (FailoverMachine, "check", _checks_nothing),
    )
    yield life("serves-on", "never drains a service", (FailoverMachine, "_when_serving", _goes_on_serving))
    yield life(
        "stays-open",
        "serves on when a session opens that is no longer due",
        (FailoverMachine, "_when_opening", _waits_until_open),
        (FailoverMachine, "_when_serving", _drains_what_was_due),
    )
    yield life(
        "service-versions",
        "takes versions of a service's lease sets from its clock, in minutes",
        (FailoverMachine, "version", _version_by_the_minute),
    )
