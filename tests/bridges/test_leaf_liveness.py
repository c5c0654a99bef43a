"""Whether a leaf that has answered pings still does: bridges/leaf_liveness.py."""

import pytest

from bridges.errors import RouterUnreachableError
from bridges.leaf_liveness import PINGS, LeafLiveness

LEAF, OTHER = b"a leaf", b"another leaf"


class Session:
    """Pings in a script: `answering` by destination; after `closed` sessions `broken` tunnels are whole again."""

    def __init__(self) -> None:
        self.answering = {LEAF, OTHER}
        self.pinged: list[bytes] = []
        self.closed = 0
        self.broken = False
        self.error: Exception | None = None

    async def ping(self, destination: bytes) -> float | None:
        self.pinged.append(destination)
        if self.error is not None:
            raise self.error
        return 0.1 if destination in self.answering and not self.broken else None

    async def close(self) -> None:
        self.closed += 1
        self.broken = False


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def liveness(session: Session) -> LeafLiveness:
    return LeafLiveness(session)


async def test_one_answer_is_enough(session: Session, liveness: LeafLiveness) -> None:
    assert not await liveness.is_silent(LEAF)
    assert (session.pinged, session.closed) == ([LEAF], 0)


async def test_a_leaf_that_never_answered_is_not_judged(session: Session, liveness: LeafLiveness) -> None:
    session.answering = set()
    for _ in range(5):
        assert not await liveness.is_silent(LEAF)
    assert (len(session.pinged), session.closed) == (5, 0)


async def test_a_leaf_that_answers_no_more_is_silent_until_it_answers(session: Session, liveness: LeafLiveness) -> None:
    assert not await liveness.is_silent(LEAF)
    assert not await liveness.is_silent(OTHER)
    session.answering = {OTHER}
    session.pinged.clear()
    assert await liveness.is_silent(LEAF)
    assert (session.pinged, session.closed) == ([LEAF] * 2 * PINGS, 1), "through old tunnels, then through new ones"
    assert not await liveness.is_silent(OTHER)
    session.pinged.clear()
    assert await liveness.is_silent(LEAF)
    assert (session.pinged, session.closed) == ([LEAF], 1), "it costs one ping from now on"
    session.answering = {LEAF}
    assert not await liveness.is_silent(LEAF)


async def test_the_tunnels_of_our_own_session_may_be_at_fault(session: Session, liveness: LeafLiveness) -> None:
    assert not await liveness.is_silent(LEAF)
    session.broken = True
    assert not await liveness.is_silent(LEAF)
    assert session.closed == 1


async def test_a_router_that_pings_nobody_says_nothing_about_the_leaf(session: Session, liveness: LeafLiveness) -> None:
    assert not await liveness.is_silent(LEAF)
    session.error = RouterUnreachableError("it is off")
    assert not await liveness.is_silent(LEAF)
    session.error, session.answering = None, set()
    assert await liveness.is_silent(LEAF)
    session.error = RouterUnreachableError("it is off")
    assert await liveness.is_silent(LEAF), "as known before"
    await liveness.close()
