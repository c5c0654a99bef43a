"""A node's keys sign plain entries of other programs: gf_i2p/node/publish/file_signer.py."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from bridges.errors import RouterRefusedError, RouterUnreachableError
from gf_i2p.netdb.errors import LimitError
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import SessionConfig
from gf_i2p.node.publish.file_signer import FileSigner
from gf_i2p.node.publish.publishing_keys import HANDOVER_SECONDS, PublishingKeys, Purpose
from tests.netdb.strategies import KEYS, NOW
from tests.transport.harness import soon

MASTER = KEYS.destination.hash
ENTRIES = [
    MetaLease(bytes([1]) * 32, NOW + 3600, 5),
    MetaLease(bytes([2]) * 32, NOW + 65_535, 255, LeaseType.META),
]
DAY = 86_400
SECRET = KEYS.base64[-42:]
"""The end of the key file in base64: the signing key itself."""


class Clock:
    """The clock of the signer. A wait of the signer moves the clock."""

    def __init__(self) -> None:
        self.now = float(NOW)
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def begun(path: Path, clock: Clock, **options: Any) -> FileSigner:
    """Make a signer that began a second ago, so that the signer may sign at once."""
    clock.now -= 1
    signer = FileSigner(path, clock=clock, sleep=clock.sleep, **options)
    clock.now += 1
    return signer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "master.dat", KEYS.encode())


def write(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


async def refusal(signer: FileSigner, master: bytes = MASTER) -> str:
    """Return the signer's refusal. Neither the refusal nor the log shows a part of a key."""
    with structlog.testing.capture_logs() as logs, pytest.raises(RouterRefusedError) as caught:
        await signer.sign(master, ENTRIES, None)
    told = f"{caught.value!r}{caught.value.__cause__!r}{logs!r}"
    assert not [at for at in range(len(SECRET) - 12) if SECRET[at : at + 12] in told]
    return f"{caught.value} {logs}"


async def test_the_masters_own_keys(path: Path, clock: Clock) -> None:
    made = await begun(path, clock).sign(MASTER, ENTRIES, None)
    lease_set = MetaLeaseSet.parse(made.lease_set.data)
    assert (lease_set.destination, lease_set.published, lease_set.expires_at) == (KEYS.destination, NOW, NOW + 65_535)
    assert list(lease_set.entries) == ENTRIES
    assert lease_set.options == {}
    assert lease_set.objection(NOW) is None
    assert made.signed_session is None
    session = SessionConfig.parse(made.session)
    assert (session.destination, session.date_ms) == (KEYS.destination, NOW * 1000)
    assert session.options["i2cp.leaseSetType"] == "7"


async def test_delegated_keys_and_their_end(path: Path, clock: Clock) -> None:
    """No entry outlives the keys. A set of such keys carries the config that the master has signed for i2pd."""
    keys = PublishingKeys.delegate(KEYS, NOW + HANDOVER_SECONDS + 3000, NOW)
    write(path, keys.encode())
    signer = begun(path, clock, router="i2pd")
    made = await signer.sign(MASTER, ENTRIES, None)
    assert made.lease_set.offline is not None
    assert [lease.end for lease in made.lease_set.entries] == [NOW + 3600, NOW + 3600]
    assert made.signed_session == keys.signed[Purpose.META]
    clock.now += 3000
    assert "its keys are at the end of their life, 2023-11-14 23:13 UTC" in await refusal(signer)
    write(path, KEYS.encode())
    assert (await signer.sign(MASTER, ENTRIES, None)).lease_set.offline is None


async def version(signer: FileSigner, newest: int | None = None) -> int:
    return (await signer.sign(MASTER, ENTRIES, newest)).lease_set.published


async def test_versions_rise_and_are_never_ahead_of_the_clock(path: Path, clock: Clock) -> None:
    """So a signer that begins at the clock follows every signer before, and needs no memory of its versions."""
    signer = begun(path, clock)
    for expected in range(NOW, NOW + 75):
        assert await version(signer) == expected
        assert clock.now == expected
    clock.now += 0.75
    assert await version(signer) == NOW + 75
    assert clock.waits == [1.0] * 74 + [0.25]
    clock.now += 100
    assert await version(signer) == NOW + 175
    assert len(clock.waits) == 75, "enough time had passed"


async def test_a_signer_that_starts_again_has_a_greater_version(path: Path, clock: Clock) -> None:
    clock.now += 0.5
    signer = begun(path, clock)
    last = 0
    for _ in range(5):
        newest = await version(signer)
        assert newest > last
        last, signer = newest, FileSigner(path, clock=clock, sleep=clock.sleep)


async def test_calls_at_the_same_time_have_versions_of_their_own(path: Path, clock: Clock) -> None:
    signer = begun(path, clock)
    versions = await asyncio.gather(*(version(signer) for _ in range(5)))
    assert sorted(versions) == [NOW + each for each in range(5)]


async def test_a_call_that_gives_up_uses_up_no_version(path: Path, clock: Clock) -> None:
    """Otherwise such calls, one after the other, would put the next version further and further ahead."""
    waiting = asyncio.Event()

    async def for_ever(seconds: float) -> None:
        waiting.set()
        await asyncio.get_running_loop().create_future()

    clock.now -= 1
    signer = FileSigner(path, clock=clock, sleep=for_ever)
    clock.now += 1
    assert await version(signer) == NOW
    for _ in range(3):
        waiting.clear()
        call = asyncio.create_task(version(signer))
        await soon(waiting.wait())
        call.cancel()
        await asyncio.wait([call])
    clock.now += 1
    assert await version(signer) == NOW + 1


async def test_a_last_set_that_is_ahead_of_the_clock(path: Path, clock: Clock) -> None:
    signer = begun(path, clock)
    assert await version(signer, NOW + 3) == NOW + 4, "the caller has signed a set itself"
    assert clock.now == NOW + 4
    clock.now -= 50
    with pytest.raises(RouterRefusedError, match="is dated 50 s later than this machine's clock"):
        await version(signer)
    clock.now += 50
    assert await version(signer) == NOW + 5


async def test_versions_do_not_run_ahead_of_the_clock(path: Path, clock: Clock) -> None:
    """So a signer that starts again, and knows no earlier version, makes a greater one."""
    versions = []
    for _ in range(2):
        signer = FileSigner(path, clock=clock, sleep=clock.sleep)
        versions += [(await signer.sign(MASTER, ENTRIES, None)).lease_set.published for _ in range(75)]
        assert versions[-1] <= clock.now
        clock.now += 1
    assert versions == sorted(set(versions))


async def test_only_the_master_of_the_keys(path: Path, clock: Clock) -> None:
    other = DestinationKeys.generate().destination
    signer = begun(path, clock)
    assert f"this endpoint does not sign for {other.b32}" in await refusal(signer, other.hash)
    assert (await signer.sign(MASTER, ENTRIES, None)).lease_set.published == NOW


async def test_a_node_that_may_publish_meanwhile(path: Path, clock: Clock) -> None:
    """Nothing is signed beside such a node, and the router gets no set once such a node may have started."""
    alone = True

    async def check_node() -> Callable[[], bool]:
        if not alone:
            raise RouterUnreachableError("a node runs here")
        return lambda: alone

    signer = begun(path, clock, check_node=check_node)
    made = await signer.sign(MASTER, ENTRIES, None)
    assert made.may_give()
    alone = False
    assert not made.may_give()
    with pytest.raises(RouterUnreachableError):
        await signer.sign(MASTER, ENTRIES, None)
    alone = True
    assert (await signer.sign(MASTER, ENTRIES, None)).lease_set.published == NOW + 1, "no version was used up"


BROKEN = PublishingKeys.delegate(KEYS, NOW + DAY, NOW).encode()


@pytest.mark.parametrize(
    ("spoil", "logged"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.chmod(0o644), "chmod 600"),
        (lambda path: write(path, b"no keys"), "is neither a private key file"),
        (lambda path: write(path, KEYS.encode()[:-1]), "is neither a private key file"),
        # A line that an editor has broken: its second half is no name, but a part of the keys.
        (lambda path: write(path, BROKEN.replace(b"\nmeta", b"\n" + SECRET.encode() + b"\nmeta")), "line 6"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    ],
)
async def test_keys_that_are_missing_or_unusable(
    path: Path, clock: Clock, spoil: Callable[[Path], object], logged: str
) -> None:
    spoil(path)
    told = await refusal(begun(path, clock))
    caller, _, log = told.partition(" [")
    assert caller == (
        "this endpoint cannot sign, because its keys are missing or unusable: the operator finds the reason in the "
        "endpoint's log, and puts the right file at publish.keys"
    )
    assert logged in log


async def test_keys_that_the_router_does_not_take(path: Path, clock: Clock) -> None:
    write(path, KEYS.delegate(NOW + DAY).encode())
    assert "i2pd opens a session only for the master's own key" in await refusal(begun(path, clock, router="i2pd"))
    assert (await begun(path, clock, router="java").sign(MASTER, ENTRIES, None)).lease_set.offline


@pytest.mark.parametrize("end", [0, NOW - 1, NOW, NOW + 65_536, 2**32 - 1])
async def test_entries_that_end_too_early_or_too_late(path: Path, clock: Clock, end: int) -> None:
    signer = begun(path, clock)
    for keys in (KEYS.encode(), PublishingKeys.delegate(KEYS, NOW + DAY, NOW).encode()):
        write(path, keys)
        with pytest.raises(LimitError, match="entry 2: Expires: "):
            await signer.sign(MASTER, [ENTRIES[0], MetaLease(bytes([2]) * 32, end)], None)
    assert (await signer.sign(MASTER, ENTRIES, None)).lease_set.published == NOW, "no version was used up"


async def test_the_master_itself_is_no_entry(path: Path, clock: Clock) -> None:
    with pytest.raises(LimitError, match="cannot be an entry of its own set"):
        await begun(path, clock).sign(MASTER, [MetaLease(MASTER, NOW + 60)], None)
