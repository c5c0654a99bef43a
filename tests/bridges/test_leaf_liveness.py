"""Whether a leaf that has answered pings still does: bridges/leaf_liveness.py."""

import asyncio

import pytest

from bridges import leaf_liveness
from bridges.errors import RouterUnreachableError
from bridges.leaf_liveness import PINGS, SESSIONS, LeafLiveness
from tests.transport.harness import soon, until

LEAF, OTHER = b"a leaf", b"another leaf"


class Session:
    """Pings in a script: `answering` by destination. A new session has whole tunnels, and learns a leaf's new keys."""

    def __init__(self) -> None:
        self.answering = {LEAF, OTHER}
        self.pinged: list[bytes] = []
        self.closed = 0
        self.broken = 0
        """Number of sessions, from this one on, through which nobody answers."""
        self.reached = True
        """Whether a ping to the session itself arrives."""
        self.has_old_keys = False
        self.error: Exception | None = None
        self.hangs = False

    async def ping(self, destination: bytes) -> float | None:
        self.pinged.append(destination)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.error is not None:
            raise self.error
        return 0.1 if destination in self.answering and not (self.broken or self.has_old_keys) else None

    async def reaches_itself(self) -> bool:
        await asyncio.sleep(0)
        return self.reached

    async def close(self) -> None:
        self.closed += 1
        self.broken, self.has_old_keys = max(self.broken - 1, 0), False


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def liveness(session: Session) -> LeafLiveness:
    return LeafLiveness(session)


async def heard(liveness: LeafLiveness, session: Session, *leaves: bytes) -> None:
    """Have leaves answer for the first time, which nobody waits for."""
    for leaf in leaves:
        assert not await liveness.is_silent(leaf)
        await until(lambda leaf=leaf: leaf in liveness._answered)  # type: ignore[misc]
    session.pinged.clear()


async def test_one_answer_is_enough(session: Session, liveness: LeafLiveness) -> None:
    await heard(liveness, session, LEAF)
    assert not await liveness.is_silent(LEAF)
    assert (session.pinged, session.closed) == ([LEAF], 0)


async def test_a_leaf_that_never_answered_is_not_judged(session: Session, liveness: LeafLiveness) -> None:
    session.answering = set()
    for count in range(1, SESSIONS + 3):
        assert not await liveness.is_silent(LEAF)
        await until(lambda count=count: len(session.pinged) == count and liveness._first.done())  # type: ignore[misc, union-attr]
    assert session.closed == SESSIONS, "no more sessions for a leaf whose owner has turned pings off"


async def test_nobody_waits_for_the_first_answer(session: Session, liveness: LeafLiveness) -> None:
    session.hangs = True
    for _ in range(3):
        assert not await soon(liveness.is_silent(LEAF))
    await until(lambda: session.pinged == [LEAF])
    await soon(liveness.close())


async def test_a_leaf_that_answers_no_more_is_silent_until_it_answers(session: Session, liveness: LeafLiveness) -> None:
    await heard(liveness, session, LEAF, OTHER)
    session.answering = {OTHER}
    assert await liveness.is_silent(LEAF)
    assert (session.pinged, session.closed) == ([LEAF] * SESSIONS * PINGS, SESSIONS - 1), "old tunnels, then new ones"
    assert not await liveness.is_silent(OTHER)
    session.pinged.clear()
    assert await liveness.is_silent(LEAF)
    assert (session.pinged, session.closed) == ([LEAF], SESSIONS), "it costs one ping from now on"
    session.answering, session.has_old_keys = {LEAF}, True
    assert not await liveness.is_silent(LEAF), "the leaf is back with new keys"


@pytest.mark.parametrize("broken", range(1, SESSIONS))
async def test_the_tunnels_of_a_session_or_one_lease_of_the_leaf_may_be_at_fault(
    session: Session, liveness: LeafLiveness, broken: int
) -> None:
    await heard(liveness, session, LEAF)
    session.broken = broken
    assert not await liveness.is_silent(LEAF)
    assert session.closed == broken


async def test_sessions_that_do_not_reach_themselves_say_nothing_about_the_leaf(
    session: Session, liveness: LeafLiveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await heard(liveness, session, LEAF)
    session.answering, session.reached = set(), False
    monkeypatch.setattr(leaf_liveness, "JUDGE_SECONDS", 0.05)
    assert not await soon(liveness.is_silent(LEAF))
    assert session.closed > SESSIONS, "each try has new tunnels"
    monkeypatch.undo()
    judged = asyncio.create_task(liveness.is_silent(LEAF))
    tried = session.closed
    await until(lambda: session.closed > tried + SESSIONS)
    session.reached, tried = True, session.closed
    assert await soon(judged)
    assert session.closed == tried + SESSIONS - 1, "these count"


async def test_a_router_that_pings_nobody_says_nothing_about_the_leaf(
    session: Session, liveness: LeafLiveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await heard(liveness, session, LEAF)
    session.error = RouterUnreachableError("it is off")
    assert not await liveness.is_silent(LEAF)
    session.error, session.hangs = None, True
    monkeypatch.setattr(leaf_liveness, "JUDGE_SECONDS", 0.05)
    assert not await soon(liveness.is_silent(LEAF)), "no session in time"
    monkeypatch.undo()
    session.hangs, session.answering = False, set()
    assert await liveness.is_silent(LEAF)
    session.error = RouterUnreachableError("it is off")
    assert await liveness.is_silent(LEAF), "as known before"
    await liveness.close()
