"""One driver with a disk that the test holds back and peers that the test plays."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gf_i2p.node.consensus.driver import (
    LARGE_PROPOSAL,
    MAX_FORWARDED,
    MAX_FORWARDED_BYTES,
    RETRY_SECONDS,
    Driver,
)
from gf_i2p.node.consensus.peer import Done
from gf_i2p.node.consensus.timing import RANGE_OUTSIDE_I2P, Timeouts, TimingPlan
from gf_i2p.raft.core import Core
from gf_i2p.raft.effects import HardState, Write
from gf_i2p.raft.settings import LAN, Flow, Timing
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.write_group import WriteGroup
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, Request, Response
from integration.harness.local_farm import becomes
from tests.raft.lab import application, configuration

PATIENT = Timing(heartbeat=0.1, election_min=300, election_max=600)
"""Time-outs that are too long for any election while a test runs."""
EAGER = Timing(heartbeat=0.01, election_min=0.02, election_max=300)
"""An election at once, and a leader that stays."""


class Disk:
    """Holds writes back between `hold` and `release`."""

    def __init__(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.storage = storage
        self.waiting = threading.Event()
        self._free = threading.Event()
        self._free.set()
        store = storage.store

        def held(group: WriteGroup) -> None:
            self.waiting.set()
            assert self._free.wait(20)
            store(group)

        monkeypatch.setattr(storage, "store", held)

    def hold(self) -> None:
        self.waiting.clear()
        self._free.clear()

    def release(self) -> None:
        self._free.set()


@dataclass
class Follower:
    """Grants every vote and accepts every entry, unless a test says otherwise."""

    id: int
    requests: list[tuple[Request, Done]] = field(default_factory=list)
    answer: Callable[[Request], Response | None] | None = None
    connected: bool = True
    resets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.answer is None:
            self.answer = self.agree

    def agree(self, to: Request) -> Response:
        if to.type is MessageType.CLIENT_REQUEST and not to.entries:  # a question for the leader
            return Response(RESPONSE_TYPE[to.type], self.id, NOBODY, 0, 0, accepted=False)
        return Response(RESPONSE_TYPE[to.type], self.id, 1, to.term, to.last_log_index + len(to.entries) + 1, True)

    def reset(self, reason: str) -> None:
        for _, done in self.unanswered:
            asyncio.get_running_loop().call_soon(done, None)
        self.resets.append(reason)

    @property
    def unanswered(self) -> list[tuple[Request, Done]]:
        return self.requests if self.answer is None or self.answer != self.agree else []

    def send(self, request: Request, done: Done, *, seconds: float | None = None) -> None:
        self.requests.append((request, done))
        answer = None if self.answer is None else self.answer(request)
        if answer is not None:
            asyncio.get_running_loop().call_soon(done, answer)


@dataclass
class Rig:
    """A driver for server 1, and the driver's effects."""

    driver: Driver
    disk: Disk
    peers: dict[int, Follower]
    halts: list[BaseException]

    def ask(self, request: Request) -> list[Response | None]:
        """Give the driver a request as from another server. The answer goes into the returned list."""
        answers: list[Response | None] = []
        self.driver.incoming(request, answers.append)
        return answers

    async def lead(self) -> None:
        await becomes("leader", lambda: self.driver.core.is_leader)


@asynccontextmanager
async def rig(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    servers: int = 3,
    timing: Timing = PATIENT,
    flow: Flow | None = None,
    timeouts: Timeouts | None = None,
    on_timing: Callable[[Timing], None] = lambda _: None,
) -> AsyncIterator[Rig]:
    drawn: list[float] = []

    def soon_and_then_late(_: object, low: float, high: float) -> float:
        """The first election may come soon, and no other: an election before the disk's write would never end."""
        drawn.append(low)
        return low if drawn == [low] or low > 1 else high

    monkeypatch.setattr(random.SystemRandom, "uniform", soon_and_then_late)
    path = directory / "log.sqlite"
    if not path.exists():
        Storage.create(path, cluster="farm", server_id=1)
    storage = Storage.open(path, cluster="farm", server_id=1)
    disk = Disk(storage, monkeypatch)
    halts: list[BaseException] = []
    driver = Driver(
        1,
        storage,
        bootstrap=configuration(range(1, servers + 1)),
        timeouts=timeouts or Timeouts(TimingPlan("fixed", RANGE_OUTSIDE_I2P, fixed=timing), servers=servers),
        check_snapshot=lambda _: None,
        on_timing=on_timing,
        flow=flow,
        on_halt=halts.append,
    )
    peers = {server: Follower(server) for server in range(2, servers + 1)}
    driver.start(peers)
    try:
        yield Rig(driver, disk, peers, halts)
    finally:
        disk.release()
        await driver.stop(0.0)
        storage.close()


def vote(term: int) -> Request:
    return Request(MessageType.REQUEST_VOTE_REQUEST, 2, 1, term, 0, 0, 0)


def append(previous: int, *values: str, commit: int = 0) -> Request:
    entries = tuple(application(value, 1) for value in values)
    return Request(MessageType.APPEND_ENTRIES_REQUEST, 2, 1, 1, 1 if previous else 0, previous, commit, entries)


async def turns() -> None:
    """Let everything happen that can happen without the disk."""
    for _ in range(10):
        await asyncio.sleep(0)


# The timer ---------------------------------------------------------------------------------------------------------


async def test_time_outs_below_a_loops_resolution_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shortest = Timing(heartbeat=0.0002, election_min=0.05, election_max=300)
    async with rig(tmp_path, monkeypatch, timing=shortest) as r:
        await r.lead()
        for number in range(20):
            assert await r.driver.post([b"x"], seconds=20) == 2 + number
        await becomes("heartbeats", lambda: len(r.peers[2].requests) > 200)
        assert r.halts == []


# Promises ----------------------------------------------------------------------------------------------------------


async def test_a_vote_leaves_when_it_is_on_the_disk_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        r.disk.hold()
        answers = r.ask(vote(5))
        await becomes("the write is under way", r.disk.waiting.is_set)
        await turns()
        assert answers == []
        r.disk.release()
        await becomes("answered", lambda: len(answers) == 1)
        assert answers[0] == Response(MessageType.REQUEST_VOTE_RESPONSE, 1, 2, 5, 0, accepted=True)


async def test_a_promise_that_needs_no_write_waits_for_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        r.disk.hold()
        first = r.ask(append(0, "a"))
        again = r.ask(append(0, "a"))
        await becomes("the write is under way", r.disk.waiting.is_set)
        later = r.ask(append(1, "b"))
        await turns()
        assert (first, again, later) == ([], [], [])
        r.disk.release()
        await becomes("all answered", lambda: len(later) == 1)
        assert [a[0].next_index for a in (first, again, later) if a[0] is not None] == [2, 2, 3]
        assert len(r.ask(append(0, "a"))) == 1, "everything is durable: at once"


# Clients -----------------------------------------------------------------------------------------------------------


async def test_a_post_is_acknowledged_by_a_majority_of_disks_ours_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch, timing=EAGER) as r:
        await r.lead()
        await becomes("the first entry is committed", lambda: r.driver.core.applicable == 1)
        r.disk.hold()
        assert await r.driver.post([b"x"], seconds=20) == 2, "two followers have it"
        barrier = asyncio.create_task(r.driver.read_barrier())
        await becomes("the write is under way", r.disk.waiting.is_set)
        await turns()
        assert not barrier.done(), "it cannot be read here yet"
        r.disk.release()
        assert await barrier == 2
        assert r.driver.core.applicable == 2


async def test_a_lone_server_acknowledges_what_is_on_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, monkeypatch, servers=1, timing=EAGER) as r:
        await r.lead()
        await becomes("the first entry is committed", lambda: r.driver.core.applicable == 1)
        r.disk.hold()
        post = asyncio.create_task(r.driver.post([b"x"], seconds=20))
        await becomes("the write is under way", r.disk.waiting.is_set)
        await turns()
        assert not post.done()
        r.disk.release()
        assert await post == 2


async def test_a_clean_stop_answers_what_was_accepted_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch, servers=1, timing=EAGER) as r:
        await r.lead()
        await becomes("the first entry is committed", lambda: r.driver.core.applicable == 1)
        r.disk.hold()
        post = asyncio.create_task(r.driver.post([b"x"], seconds=20))
        await becomes("the write is under way", r.disk.waiting.is_set)
        stop = asyncio.create_task(r.driver.stop(20.0))
        await turns()
        assert not stop.done()
        r.disk.release()
        await stop
        assert await post == 2
    storage = Storage.open(tmp_path / "log.sqlite", cluster="farm", server_id=1)
    assert storage.read(2, 2, 1000)[0].value == b"x"
    storage.close()


async def test_a_stop_that_cannot_wait_leaves_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, monkeypatch, timing=EAGER) as r:
        await r.lead()
        await becomes("the first entry is committed", lambda: r.driver.core.commit == 1)
        for peer in r.peers.values():
            peer.answer = lambda request: None
        post = asyncio.create_task(r.driver.post([b"x"], seconds=30))
        barrier = asyncio.create_task(r.driver.read_barrier())
        await becomes("in the log", lambda: r.driver.core.log.last_index == 2)
        await r.driver.stop(0.0)
        with pytest.raises(OutcomeUnknownError, match="is stopping"):
            await post
        with pytest.raises(NotCommittedError, match="is stopping"):
            await barrier
        with pytest.raises(NotCommittedError, match="not committed: this node is stopping"):
            await r.driver.post([b"y"], seconds=30)
        assert r.ask(vote(9)) == [None]


async def test_the_time_for_a_forwarded_post_is_never_shorter_than_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        given: list[float | None] = []
        monkeypatch.setattr(r.peers[2], "send", lambda request, done, *, seconds=None: given.append(seconds))
        r.ask(append(0))
        post = asyncio.create_task(r.driver.post([b"x"], seconds=100))
        await becomes("forwarded to whom it follows now", lambda: len(given) == 1)
        assert given[0] is not None
        assert given[0] > 99 + PATIENT.election_max, "one that is over must not cost the others their connection"
        post.cancel()


async def test_no_more_posts_are_forwarded_than_the_connection_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        leader = r.peers[2]
        leader.answer = lambda request: None
        r.ask(append(0))
        posts = [asyncio.create_task(r.driver.post([b"x"], seconds=30)) for _ in range(MAX_FORWARDED + 1)]
        await becomes("as many as may be", lambda: len(leader.requests) == MAX_FORWARDED)
        await asyncio.wait(posts, timeout=3 * RETRY_SECONDS)
        assert len(leader.requests) == MAX_FORWARDED
        (request, done), rest = leader.requests[0], leader.requests[1:]
        done(leader.agree(request))
        await becomes("room for one more", lambda: len(leader.requests) == MAX_FORWARDED + 1)
        for request, done in [*rest, leader.requests[-1]]:
            done(leader.agree(request))
        await asyncio.gather(*posts)


async def test_large_posts_are_forwarded_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        leader = r.peers[2]
        leader.answer = lambda request: None
        r.ask(append(0))
        large = [bytes(MAX_FORWARDED_BYTES // 2 + 1)]
        posts = [asyncio.create_task(r.driver.post(large, seconds=30)) for _ in range(2)]
        for number in (1, 2):
            await becomes("the next", lambda number=number: len(leader.requests) == number)  # type: ignore[misc]
            await asyncio.wait(posts, timeout=3 * RETRY_SECONDS)
            assert len(leader.requests) == number
            request, done = leader.requests[-1]
            done(leader.agree(request))
        await asyncio.gather(*posts)


async def test_posts_to_a_leader_that_hangs_are_given_up_when_another_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch) as r:
        hung = r.peers[2]
        hung.answer = lambda request: None
        r.ask(append(0))
        large = [bytes(MAX_FORWARDED_BYTES // 2 + 1)]
        post = asyncio.create_task(r.driver.post(large, seconds=300))
        await becomes("forwarded", lambda: len(hung.requests) == 1)
        claim = Request(MessageType.APPEND_ENTRIES_REQUEST, 3, 1, 2, 0, 0, 0)
        r.ask(claim)
        with pytest.raises(OutcomeUnknownError):
            await post
        assert len(hung.resets) == 1
        assert await r.driver.post(large, seconds=30) == 1, "there is room on the way to the new leader"


# Trouble -----------------------------------------------------------------------------------------------------------


async def test_a_large_post_waits_for_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one turn of the event loop would append the large posts of all connections."""

    def post(*values: str) -> Request:
        return Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, tuple(map(application, values)))

    async with rig(tmp_path, monkeypatch, servers=1, timing=EAGER) as r:
        await r.lead()
        log = r.driver.core.log
        last = log.last_index
        r.ask(post("small"))
        assert log.last_index == last, "small posts of one turn are appended together"
        r.ask(post(*["x"] * LARGE_PROPOSAL))
        assert log.last_index == last + 1 + LARGE_PROPOSAL
        r.ask(post("small, too"))
        await becomes("appended", lambda: log.last_index == last + 2 + LARGE_PROPOSAL)


async def over(r: Rig, reason: str) -> None:
    """Check that no promise is open any more."""
    assert len(r.halts) == 1
    with pytest.raises(NotCommittedError, match=f"stopped by itself.*{reason}"):
        await r.driver.post([b"y"], seconds=30)
    with pytest.raises(NotCommittedError, match=f"stopped by itself.*{reason}"):
        await r.driver.read_barrier()
    assert r.ask(vote(9)) == [None]
    assert r.ask(Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, (application("z"),))) == [None]
    r.driver.reachable(2)
    sent = sum(len(peer.requests) for peer in r.peers.values())
    await turns()
    assert sum(len(peer.requests) for peer in r.peers.values()) == sent
    assert len(r.halts) == 1


async def test_a_disk_that_fails_ends_everything_and_lets_every_caller_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch, servers=1, timing=EAGER) as r:
        await r.lead()

        def full(group: WriteGroup) -> None:
            raise StorageError("no space left")

        await becomes("the first entry is committed", lambda: r.driver.core.applicable == 1)
        monkeypatch.setattr(r.disk.storage, "store", full)
        posts = [asyncio.create_task(r.driver.post([b"x"], seconds=30)) for _ in range(3)]
        for post in posts:
            with pytest.raises(OutcomeUnknownError, match="no space left"):
                await post
        await over(r, "no space left")


async def test_a_log_that_cannot_be_read_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.sqlite"
    Storage.create(path, cluster="farm", server_id=1)
    storage = Storage.open(path, cluster="farm", server_id=1)
    group = storage.group()
    group.add(Write(HardState(1, 1), 1, (Entry(1, ValueType.APPLICATION, b"x"),) * 3))
    storage.store(group)
    storage.close()
    async with rig(tmp_path, monkeypatch, timing=EAGER) as r:

        def bad(first: int, last: int, max_bytes: int) -> list[Entry]:
            raise StorageError("bit rot")

        monkeypatch.setattr(r.disk.storage, "read", bad)
        behind = r.peers[3]
        behind.answer = lambda to: (
            behind.agree(to)
            if to.type is MessageType.REQUEST_VOTE_REQUEST
            else Response(MessageType.APPEND_ENTRIES_RESPONSE, 3, 1, to.term, 1, accepted=False)
        )
        await becomes("halted", lambda: r.halts != [])
        await over(r, "bit rot")


async def test_a_defect_of_the_core_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, monkeypatch, timing=LAN) as r:

        def defect(*_: object) -> None:
            raise AssertionError("cannot be")

        monkeypatch.setattr(Core, "step", defect)
        await becomes("halted", lambda: r.halts != [])
        await over(r, "cannot be")


async def test_a_caller_that_fails_takes_nothing_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(tmp_path, monkeypatch, servers=1, timing=EAGER) as r:
        await r.lead()

        def bad(response: Response | None) -> None:
            raise RuntimeError("a defect")

        request = Request(MessageType.CLIENT_REQUEST, 0, 0, 0, 0, 0, 0, (application("z"),))
        r.driver.incoming(request, bad)
        answers = r.ask(request)
        await becomes("answered", lambda: len(answers) == 1)
        assert answers[0] is not None
        assert answers[0].accepted
        assert r.halts == []
        assert await r.driver.post([b"x"], seconds=20) == 4


async def test_a_peer_that_fails_counts_as_one_that_lost_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(tmp_path, monkeypatch, timing=EAGER, flow=Flow(in_flight=2)) as r:
        calls = 0

        def broken(request: Request, done: Done, *, seconds: float | None = None) -> None:
            nonlocal calls
            calls += 1
            raise RuntimeError("a defect")

        monkeypatch.setattr(r.peers[2], "send", broken)
        await r.lead()
        assert await r.driver.post([b"x"], seconds=20) == 2, "the other follower has it"
        beyond = calls + 4
        await becomes("it is tried again", lambda: calls > beyond)
        assert r.halts == []
