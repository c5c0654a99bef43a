"""Publishing sets of leaves: the states of `gf_i2p/farm/publishing/meta.py`, step by step."""

from dataclasses import replace
from typing import Any

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.publishing.announcement import Announcement
from gf_i2p.farm.publishing.cadence import HURRIED_SECONDS, HURRIED_SETS
from gf_i2p.farm.publishing.effects import Announce, Effect, Give, PublishingEffects, Rehearse, Stop
from gf_i2p.farm.publishing.lease import (
    LEASE_SECONDS,
    LOOK_SECONDS,
    STALL_SECONDS,
    PublisherLease,
    lease_seconds,
    record_seconds,
)
from gf_i2p.farm.publishing.meta import NO_LEAF, MetaMachine
from gf_i2p.farm.publishing.set_progress import PublishProgress
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.farm.state import FarmState
from tests.farm.strategies import NOW, leaf, record

KEYS, OTHER_KEYS = object(), object()


class Server:
    """Server 1 of a farm of one; the test turns the clock and answers for log and router."""

    def __init__(self, mode: str = "meta") -> None:
        self.mode = mode
        self.progress = PublishProgress()
        self.lease = PublisherLease()
        self.machine = MetaMachine(1, self.lease, self.progress, dry_run=mode == "dry-run")
        self.state = FarmState("farm")
        self.state.configure((1,))
        self.now, self.wall_ms, self.applied = 0.0, NOW, 0
        self.changes: dict[str, Any] = {"keys": KEYS}
        self.posts()

    @property
    def situation(self) -> Situation:
        return Situation(self.now, self.wall_ms, self.state.choice, self.state, self.applied, **self.changes)

    def posts(self, published: int = 0, *, up: bool = True, posted_at: float | None = None) -> int:
        """Commit and apply a record of this server; return the record's index."""
        self.applied += 1
        status = record(1, leaf(1, up=up), date=self.wall_ms, mode=self.mode, published=published * 1000)
        self.state.apply(status.encode(), self.applied)
        self.lease.committed(self.applied, self.now if posted_at is None else posted_at)
        return self.applied

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.wall_ms += int(seconds * 1000)

    def step(self) -> PublishingEffects:
        return self.machine.step(self.situation)

    def waits(self, seconds: float) -> PublishingEffects:
        """Let time pass with the driver's steps and the server's records; return the last step's effects."""
        end = self.now + seconds
        while True:
            effects = self.step()
            if self.now >= end or effects.begin is not None:
                return effects
            self.passes(min(LOOK_SECONDS, end - self.now, max(effects.next_step_at - self.now, 0.001)))
            if self.now - self.lease.newest_post_at(self.applied) >= 30:
                self.posts(self.state.last_published_ms // 1000)

    def announces(self, begun: Effect | None = None) -> Announcement:
        begun = begun or self.step().begin
        assert isinstance(begun, Announce)
        self.progress.announced(begun.announcement.published, b"the set")
        return begun.announcement

    def commits(self, announcement: Announcement) -> None:
        self.machine.announced(announcement, self.posts(announcement.published))

    def gives(self, begun: Effect | None = None) -> Announcement:
        """Go once through all steps of giving a set. `begun`: the first step, if the machine has taken it."""
        announcement = self.announces(begun)
        self.commits(announcement)
        assert self.step().begin == Give(announcement, new_session=False)
        self.machine.taken(announcement, self.situation)
        return announcement


def test_a_set_is_announced_then_given_then_kept() -> None:
    server = Server()
    announcement = server.announces()
    assert (announcement.published, announcement.leaf_set.hashes) == (NOW // 1000, {leaf(1).hash})
    assert server.step().begin is None, "the announcement is under way"
    server.machine.announced(announcement, server.applied + 1)
    assert server.step().begin is None, "the announcement is not applied here"
    server.posts(announcement.published)
    assert server.step().begin == Give(announcement, new_session=False)
    assert server.machine.last_set is None
    server.machine.taken(announcement, server.situation)
    assert server.machine.last_set is not None
    assert (server.machine.last_set.sent_count, server.machine.trouble) == (1, None)
    assert server.progress.current is not None
    assert server.progress.current.stage == "sent"


def test_each_try_that_fails_makes_the_pause_longer() -> None:
    server = Server()
    pauses = []
    effects = server.step()
    for _ in range(6):
        assert isinstance(effects.begin, Announce)
        server.machine.failed("the router is off", server.now)
        assert server.machine.trouble == "the router is off"
        began = server.now
        while (effects := server.step()).begin is None:
            server.passes(effects.next_step_at - server.now)
            server.posts()
        pauses.append(round(server.now - began))
    assert pauses == [5, 10, 20, 40, 60, 60]


def test_an_announcement_that_was_overtaken_is_made_anew_and_is_no_fault() -> None:
    server = Server()
    announcement = server.announces()
    server.machine.announced(announcement, server.posts(announcement.published + 7))
    assert (server.step().begin, server.machine.trouble) == (None, None)
    server.passes(1)
    assert server.announces().published == announcement.published + 8


def test_a_set_of_the_future_is_a_fault() -> None:
    server = Server()
    announcement = server.announces()
    server.machine.announced(announcement, server.posts())
    assert server.step().begin is None
    assert "check this machine's clock" in (server.machine.trouble or "")


def test_a_version_that_no_router_would_take_is_not_announced() -> None:
    server = Server()
    server.posts(NOW // 1000 + 25)
    server.wall_ms -= 40_000
    assert server.step().begin is None
    assert "its date would be 66 s in the future" in (server.machine.trouble or "")


def test_a_leaf_that_was_excluded_meanwhile_is_not_given() -> None:
    server = Server()
    server.state.configure((1, 2))
    server.state.apply(record(2, leaf(2), date=NOW, mode="meta").encode(), server.applied)
    announcement = server.announces()
    assert announcement.leaf_set.hashes == {leaf(1).hash, leaf(2).hash}
    server.commits(announcement)
    entry = AdminEntry("farm", NOW, "admin-a", "exclude", hash=leaf(2).hash)
    server.state.apply(entry.encode(), server.applied)
    assert (server.step().begin, server.machine.trouble) == (None, None)
    server.passes(1)
    assert server.announces().leaf_set.hashes == {leaf(1).hash}


def test_a_leaf_that_is_excluded_while_the_router_opens_a_session_is_not_given() -> None:
    server = Server()
    server.state.configure((1, 2))
    server.state.apply(record(2, leaf(2), date=NOW, mode="meta").encode(), server.applied)
    announcement = server.announces()
    server.commits(announcement)
    assert server.step().begin == Give(announcement, new_session=False)
    assert server.machine.may_give(announcement, server.situation)
    entry = AdminEntry("farm", NOW, "admin-a", "exclude", hash=leaf(2).hash)
    server.state.apply(entry.encode(), server.applied)
    assert not server.machine.may_give(announcement, server.situation)
    server.machine.failed("the set was not given", server.now)
    server.passes(5)
    announcement = server.gives()
    assert announcement.leaf_set.hashes == {leaf(1).hash}
    server.state.configure(())
    assert not server.machine.may_give(announcement, server.situation)


def test_new_keys_make_a_new_session() -> None:
    server = Server()
    server.gives()
    assert server.step().begin is None
    server.changes["keys"] = OTHER_KEYS
    announcement = server.announces()
    server.commits(announcement)
    assert server.step().begin == Give(announcement, new_session=True)
    server.machine.failed("the router cannot be told to forget the old session", server.now)
    server.passes(5)
    announcement = server.announces()
    server.commits(announcement)
    assert server.step().begin == Give(announcement, new_session=True), "the old session is there still"


def orders(server: Server) -> None:
    server.applied += 1
    server.state.apply(AdminEntry("farm", server.wall_ms, "admin-ops", "publishNow").encode(), server.applied)


def test_an_administrators_order_brings_one_new_set() -> None:
    server = Server()
    server.gives()
    for _ in range(HURRIED_SETS - 1):
        server.gives(server.waits(HURRIED_SECONDS).begin)
    assert server.waits(2 * HURRIED_SECONDS).begin is None, "a set is young for minutes"
    orders(server)
    server.gives()
    orders(server)
    assert server.step().begin is None, "i2pd would drop the set"
    server.gives(server.waits(HURRIED_SECONDS).begin)
    assert server.waits(2 * HURRIED_SECONDS).begin is None, "one order, one set"


def test_an_administrators_order_ends_the_pause_after_failures() -> None:
    server = Server()
    for _ in range(6):
        server.machine.failed("no", server.now)
    assert server.step().begin is None
    orders(server)
    assert isinstance(server.step().begin, Announce)


def test_a_set_that_the_router_has_lost_is_published_at_once() -> None:
    server = Server()
    server.gives()
    assert server.step().begin is None
    server.changes["loss"] = "the router has restarted"
    server.announces()
    assert server.machine.trouble == "the router has restarted"


def test_a_publisher_that_is_not_chosen_any_more_gives_up_and_has_the_router_forget() -> None:
    server = Server()
    server.gives()
    server.changes["loss"] = "the router has restarted"
    server.announces()
    server.state.configure(())
    effects = server.step()
    assert (effects.cancel, effects.begin) == (True, Stop())
    assert (server.machine.last_set, server.machine.trouble) == (None, None)
    assert server.step().begin is None, "the router is being told"
    server.machine.stopped(server.now, failed=True)
    assert server.step().begin is None
    server.passes(5)
    assert server.step().begin == Stop()
    server.machine.stopped(server.now)
    server.passes(5)
    assert server.step().begin is None


def test_a_router_that_was_given_nothing_is_told_nothing() -> None:
    server = Server()
    server.announces()
    server.state.configure(())
    effects = server.step()
    assert (effects.cancel, effects.begin) == (True, None)


def test_a_publisher_without_a_lease_stops() -> None:
    server = Server()
    server.gives()
    effects = server.step()
    while server.now < LEASE_SECONDS:
        assert effects.begin is None or isinstance(effects.begin, Announce)
        server.passes(LOOK_SECONDS)
        effects = server.step()
    server.passes(0.1)
    effects = server.step()
    assert effects.begin == Stop()
    assert "no own record was committed for 90 s" in (server.machine.trouble or "")


def test_an_announcement_that_is_older_than_the_lease_is_not_given() -> None:
    """The log may show an announcement late, beside a newer record that renews the lease."""
    server = Server()
    announcement = server.announces()
    while server.now <= LEASE_SECONDS:
        server.passes(LOOK_SECONDS)
        server.posts()
        assert not isinstance(server.step().begin, Give)
    assert server.machine._attempt is not announcement


def test_a_process_that_stood_still_gives_nothing_before_it_has_committed_anew() -> None:
    server = Server()
    server.gives()
    server.changes["loss"] = "the router has restarted"
    announcement = server.announces()
    server.commits(announcement)
    server.passes(STALL_SECONDS + 1)
    assert not server.machine.may_give(announcement, server.situation)
    effects = server.step()
    assert (effects.cancel, effects.begin, effects.renew) == (True, None, True)
    assert "stood still" in (server.machine.trouble or "")
    assert server.machine.last_set is not None, "the router keeps what it has"
    server.passes(1)
    assert not server.step().renew, "one record is enough"
    server.posts(announcement.published)
    assert server.announces().published > announcement.published


def test_a_farm_in_another_mode_gets_no_set() -> None:
    server = Server()
    server.machine.mode = "dry-run"
    assert server.step().begin is None
    assert "the farm publishes in mode meta" in (server.machine.trouble or "")


def test_no_leaf_no_set() -> None:
    server = Server()
    server.gives()
    for _ in range(30):
        server.passes(LOOK_SECONDS)
        server.posts(server.state.last_published_ms // 1000, up=False)
    for _ in range(60):
        if isinstance(server.step().begin, Stop):
            break
        server.machine._end_attempt()
        server.passes(LOOK_SECONDS)
        server.posts(server.state.last_published_ms // 1000, up=False)
    assert server.machine.trouble == NO_LEAF


def test_a_dry_run_announces_nothing_and_gives_nothing() -> None:
    server = Server("dry-run")
    begun = server.step().begin
    assert isinstance(begun, Rehearse)
    server.machine.taken(begun.announcement, server.situation)
    assert server.machine.last_set is not None
    assert server.progress.current is None
    begun = server.waits(400).begin
    assert begun is None
    server.state.configure(())
    assert server.step().begin is None, "the router has nothing to forget"


def test_a_lease_never_outlasts_the_records_of_the_farm() -> None:
    assert lease_seconds(Parameters()) == LEASE_SECONDS
    assert lease_seconds(replace(Parameters(), fresh_ms=35_000)) == 30
    assert lease_seconds(replace(Parameters(), fresh_ms=3_600_000)) == LEASE_SECONDS


@pytest.mark.parametrize("fresh_ms", [35_000, 60_000, 105_000])
def test_a_healthy_publisher_never_stops(fresh_ms: int) -> None:
    """The log takes each record five seconds after the post."""
    server = Server()
    entry = AdminEntry("farm", NOW, "admin-a", "set", parameters={"freshMs": fresh_ms})
    server.state.apply(entry.encode(), server.applied)
    server.gives()
    posted_at, interval = server.now, record_seconds(30, server.state.parameters)
    while server.now < 600:
        if server.now >= posted_at + interval + 5:
            posted_at += interval
            server.posts(server.state.last_published_ms // 1000, posted_at=posted_at)
        match server.step().begin:
            case Announce(announcement):
                server.progress.announced(announcement.published, b"the set")
                server.commits(announcement)
            case Give(announcement):
                server.machine.taken(announcement, server.situation)
            case begun:
                assert begun is None, f"after {server.now:.0f} s, {server.machine.trouble}"
        server.passes(1)
