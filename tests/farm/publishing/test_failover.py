"""Serving the master itself: the states of `gf_i2p/farm/publishing/failover.py`, step by step."""

from dataclasses import replace
from typing import Any

import pytest

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.publishing.effects import Close, Drain, Open, PublishingEffects
from gf_i2p.farm.publishing.failover import MAX_RETRY_SECONDS, FailoverMachine, FailoverState, NotDueError
from gf_i2p.farm.publishing.lease import LEASE_SECONDS, LOOK_SECONDS, STALL_SECONDS, PublisherLease
from gf_i2p.farm.publishing.set_progress import PublishProgress
from gf_i2p.farm.publishing.situation import Situation
from gf_i2p.farm.state import FarmState
from tests.farm.strategies import NOW, leaf, record

IDLE, OPENING, SERVING, DRAINING = FailoverState
KEYS, OTHER_KEYS = object(), object()


class Server:
    """Server 1 in mode `failover`, alone in a farm; the test chooses the publisher, and turns the clock."""

    def __init__(self) -> None:
        self.progress = PublishProgress()
        self.lease = PublisherLease()
        self.machine = FailoverMachine(1, self.lease, self.progress)
        state = FarmState("farm")
        state.configure((1,))
        self.situation = Situation(0.0, NOW, Choice(1, {}, mode="failover"), state, 0, keys=KEYS)
        self.posts()

    def posts(self, published: int = 0) -> None:
        """Commit and apply one record of server 1."""
        index = self.situation.applied + 1
        text = record(1, leaf(1), date=NOW, mode="failover", published=published * 1000)
        self.situation.state.apply(text.encode(), index)
        self.lease.committed(index, self.situation.now)
        self.situation = replace(self.situation, applied=index)

    def chosen(self, server: int | None) -> None:
        self.situation = replace(self.situation, choice=Choice(server, {}, mode="failover"))

    def step(self, seconds: float = 0.0, **changes: Any) -> PublishingEffects:
        """Move the clock by `seconds`, with the steps that the driver would make, and return the last effects."""
        end = self.situation.now + seconds
        while self.situation.now < end:
            self.situation = replace(self.situation, now=min(self.situation.now + LOOK_SECONDS, end))
            if self.situation.now < end:
                effects = self.machine.step(self.situation)
                assert effects.begin is None, "nothing was to happen in between"
        self.situation = replace(self.situation, **changes)
        return self.machine.step(self.situation)

    def announces(self, published: int) -> None:
        announcement = self.machine.announce(published, self.situation)
        self.progress.announced(published, b"the set")
        self.posts(published)
        self.machine.check(announcement, self.situation)
        self.machine.taken(published, self.situation.wall_ms)

    def serves(self) -> None:
        assert self.step().begin == Open(KEYS)
        self.announces(NOW // 1000)
        self.machine.opened(self.situation.now)
        assert self.step().begin is None
        assert self.machine.state is SERVING

    @property
    def state(self) -> FailoverState:
        return self.machine.state


def test_a_server_opens_serves_drains_and_closes() -> None:
    server = Server()
    assert (server.state, server.machine.serving) == (IDLE, False)
    server.serves()
    assert (server.machine.sent, server.machine.sessions, server.machine.trouble) == (1, 1, None)
    assert server.progress.current is not None
    assert server.progress.current.stage == "sent"
    server.chosen(2)
    assert server.step().begin == Drain()
    assert (server.state, server.machine.serving) == (DRAINING, True)
    assert server.step(seconds=30).begin is None
    server.machine.drained()
    effects = server.step()
    assert (effects.begin, effects.cancel) == (Close(), True)
    assert server.step().begin is None, "the session is being closed"
    server.machine.closed()
    assert (server.step().begin, server.state) == (None, IDLE)


def test_a_server_that_is_not_chosen_opens_nothing() -> None:
    server = Server()
    server.chosen(2)
    assert server.step().begin is None
    with pytest.raises(NotDueError, match="another server's turn"):
        server.machine.announce(NOW // 1000, server.situation)


def test_a_farm_in_another_mode_is_not_served() -> None:
    server = Server()
    effects = server.step(choice=Choice(1, {}, mode="meta"))
    assert effects.begin is None
    assert "the farm publishes in mode meta" in (server.machine.trouble or "")


def test_an_opening_that_is_no_longer_wanted_is_cancelled_and_closed() -> None:
    server = Server()
    assert server.step().begin == Open(KEYS)
    server.chosen(2)
    effects = server.step()
    assert (effects.cancel, effects.begin) == (True, Close())
    server.machine.closed()
    assert (server.state, server.machine.trouble) == (IDLE, None)


def test_a_turn_that_comes_back_during_the_drain_is_gone_on_with() -> None:
    server = Server()
    server.serves()
    server.chosen(2)
    server.step()
    server.chosen(1)
    effects = server.step()
    assert (effects.cancel, effects.resume, effects.begin) == (True, True, None)
    assert (server.state, server.machine.sessions) == (SERVING, 1)


def test_a_router_that_refuses_is_asked_again_later_and_later() -> None:
    server = Server()
    pauses = []
    assert server.step().begin == Open(KEYS)
    for _ in range(7):
        server.machine.failed("another client holds the destination", server.situation.now)
        began = server.situation.now
        while server.step().begin is None:
            assert (server.state, server.machine.trouble) == (IDLE, "another client holds the destination")
            server.posts()
            server.situation = replace(server.situation, now=server.situation.now + 1)
        pauses.append(server.situation.now - began)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    server.chosen(2)
    assert server.step().begin == Close()
    server.machine.closed()
    server.step()
    server.chosen(1)
    server.posts()
    assert server.step().begin == Open(KEYS), "a new turn begins without a pause"


def test_a_session_that_is_lost_is_closed_and_opened_anew() -> None:
    server = Server()
    server.serves()
    effects = server.step(loss="the router hung up")
    assert effects.begin == Close()
    server.machine.closed()
    assert (server.state, server.machine.trouble) == (IDLE, "the router hung up")
    server.situation = replace(server.situation, loss=None)
    assert server.step(seconds=2).begin == Open(KEYS)
    server.machine.opened(server.situation.now)
    assert (server.machine.sessions, server.machine.trouble) == (2, None)


def test_a_session_that_lasted_is_opened_anew_without_a_long_pause() -> None:
    server = Server()
    assert server.step().begin == Open(KEYS)
    for _ in range(5):
        server.machine.failed("no tunnels", server.situation.now)
        server.posts()
        while server.step().begin is None:
            server.situation = replace(server.situation, now=server.situation.now + 1)
    server.machine.opened(server.situation.now)
    for _ in range(3):
        server.posts()
        assert server.step(seconds=MAX_RETRY_SECONDS / 2).begin is None
    assert server.step(loss="the router hung up").begin == Close()
    server.machine.closed()
    assert server.step(seconds=2, loss=None).begin == Open(KEYS)


def test_new_keys_open_a_new_session() -> None:
    server = Server()
    server.serves()
    assert server.step(keys=OTHER_KEYS).begin == Close()
    server.machine.closed()
    assert server.step().begin == Open(OTHER_KEYS)


def test_keys_that_end_are_a_reason_to_drain() -> None:
    server = Server()
    server.serves()
    assert server.step(signing_obstacle="the keys have ended").begin == Drain()
    assert server.machine.trouble == "the keys have ended"


def test_a_lease_that_ends_drains_and_a_lease_that_comes_back_goes_on() -> None:
    server = Server()
    server.serves()
    assert server.step(seconds=LEASE_SECONDS).begin is None, "the lease has just not ended"
    assert server.step(seconds=1).begin == Drain()
    assert "no own record was committed" in (server.machine.trouble or "")
    server.posts()
    assert server.step().resume
    assert server.machine.trouble is None


def test_a_process_that_stood_still_gives_nothing_and_closes_nothing() -> None:
    server = Server()
    server.serves()
    announcement = server.machine.announce(NOW // 1000 + 5, server.situation)
    server.posts(NOW // 1000 + 5)
    server.situation = replace(server.situation, now=server.situation.now + STALL_SECONDS + 1)
    with pytest.raises(NotDueError, match="since this server's lease set was announced"):
        server.machine.check(announcement, server.situation)
    effects = server.step()
    assert (effects.renew, effects.begin, server.state) == (True, None, SERVING)
    assert not server.step().renew, "one record is enough"
    with pytest.raises(NotDueError):
        server.machine.announce(NOW // 1000 + 6, server.situation)
    server.posts()
    with pytest.raises(NotDueError):
        server.machine.check(announcement, server.situation)
    server.step()
    server.announces(NOW // 1000 + 6)
    assert server.machine.sent == 2


def test_a_lease_set_that_was_overtaken_is_not_given() -> None:
    server = Server()
    server.serves()
    announcement = server.machine.announce(NOW // 1000 + 5, server.situation)
    server.posts(NOW // 1000 + 9)
    with pytest.raises(NotDueError, match="a newer set"):
        server.machine.check(announcement, server.situation)


def test_versions_rise() -> None:
    server = Server()
    first = server.machine.version(server.situation)
    assert first == NOW // 1000
    server.serves()
    assert server.machine.version(server.situation) == first + 1
