"""Trying the farm's destinations through the network: one at a time, in turn, and the outcomes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.errors import RouterRefusedError
from gf_i2p.farm.choice.publisher import SetEntry
from gf_i2p.farm.record.remote_sensing import MetaSensing
from gf_i2p.farm.record.router_facts import MeasuredStatus
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.node.clock import now_ms
from gf_i2p.node.report import destination_sensing
from gf_i2p.node.report.destination_sensing import FORGET, LEAST_PAUSE, DestinationSensing
from tests.farm.strategies import MASTER, record
from tests.node.routers import DOWN


def hash_of(number: int) -> bytes:
    return number.to_bytes(32)


class Network:
    """A router with the test's outcomes for connections and searches; sets are found unless `found` is None."""

    def __init__(self) -> None:
        self.tried: list[bytes] = []
        self.looked: list[tuple[bytes, int]] = []
        self.answer: MeasuredStatus | Exception = MeasuredStatus(lease_set_seconds=1.5, connect_seconds=2.25)
        self.found: float | Exception | None = 0.5

    async def remote_measured_status(self, target: bytes) -> MeasuredStatus:
        self.tried.append(target)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def find_set(self, master: bytes, store_type: int) -> float | None:
        self.looked.append((master, store_type))
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Senses:
    """Sensing by server 1 in a farm where server 2 has `leaves` leaves and publishes."""

    def __init__(self, *, mode: str = "failover", minutes: int = 60, leaves: int = 3) -> None:
        self.network = Network()
        meta = record(2).meta
        assert meta is not None
        self.records: dict[int, StatusRecord] = {2: replace(record(2), meta=replace(meta, publishing=True))}
        self.entries = tuple(SetEntry(hash_of(number), 3, 1, 2) for number in range(1, leaves + 1))
        self.choice = SimpleNamespace(listed=(*self.entries, SetEntry(hash_of(99), 3, 1, 1)))
        bridge: Any = self.network
        view: Any = SimpleNamespace(choice=self.choice, state=SimpleNamespace(records=self.records))
        reporter: Any = SimpleNamespace(remote_destinations=(), meta_sensing=None, changed=lambda: None)
        self.reporter = reporter
        self.sensing = DestinationSensing(1, view, reporter, bridge, mode=mode, minutes=minutes, uniform=self.uniform)
        self.asked: list[tuple[float, float]] = []

    def uniform(self, low: float, high: float) -> float:
        self.asked.append((low, high))
        return low

    @property
    def told(self) -> dict[int, tuple[bool, int | None, int | None]]:
        return {
            int.from_bytes(each.hash): (each.reachable, each.lease_set_ms, each.connect_ms)
            for each in self.reporter.remote_destinations
        }


async def test_one_after_the_other_is_tried_and_never_our_own() -> None:
    made = Senses(mode="off")
    for _ in range(7):
        await made.sensing.step()
    assert [int.from_bytes(target) for target in made.network.tried] == [1, 2, 3, 1, 2, 3, 1]
    assert made.network.looked == []
    assert made.told == dict.fromkeys((1, 2, 3), (True, 1500, 2250))


async def test_what_is_not_reached_and_what_our_router_cannot_say() -> None:
    made = Senses(mode="off")
    made.network.answer = MeasuredStatus(lease_set_seconds=None, connect_seconds=None, error="not found")
    await made.sensing.step()
    assert made.told == {1: (False, None, None)}
    made.network.answer = DOWN
    await made.sensing.step()
    assert made.told == {1: (False, None, None)}, "it says nothing of the destination"
    made.network.answer = MeasuredStatus(lease_set_seconds=1, connect_seconds=None, error="nothing was heard")
    await made.sensing.step()
    assert made.told[3] == (False, 1000, None)


async def test_who_is_not_listed_any_more_is_forgotten_and_so_is_what_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Senses(mode="off")
    for _ in range(3):
        await made.sensing.step()
    made.choice.listed = made.entries[:2]
    await made.sensing.step()
    assert made.told.keys() == {1, 2}
    made.network.answer = DOWN
    made.reporter.meta_sensing = MetaSensing(None, 5, now_ms())
    later = now_ms() + int(FORGET * 3600 + 1) * 1000
    monkeypatch.setattr(destination_sensing, "now_ms", lambda: later)
    await made.sensing.step()
    assert made.told == {}
    assert made.reporter.meta_sensing is None


@pytest.mark.parametrize(("mode", "store_type"), [("meta", 7), ("failover", 3)])
async def test_the_master_is_looked_for_while_another_one_publishes(mode: str, store_type: int) -> None:
    made = Senses(mode=mode, leaves=0)
    await made.sensing.step()
    assert made.network.looked == [(MASTER.hash, store_type)]
    assert (made.reporter.meta_sensing.fetch_ms, made.reporter.meta_sensing.last_version_ms) == (500, None)
    made.network.found = None
    await made.sensing.step()
    assert made.reporter.meta_sensing.fetch_ms is None, "not found is news, too"
    looked = len(made.network.looked)
    made.records[2] = record(2)
    await made.sensing.step()
    assert len(made.network.looked) == looked


async def test_a_router_that_cannot_find_such_sets_says_so_and_nothing_is_told() -> None:
    made = Senses(mode="meta", leaves=0)
    made.network.found = RouterRefusedError("i2pd finds none")
    await made.sensing.step()
    assert made.sensing.trouble == "i2pd finds none"
    assert made.reporter.meta_sensing is None
    made.network.found = 1.0
    await made.sensing.step()
    assert made.sensing.trouble is None


def test_all_are_tried_once_in_an_interval_at_times_that_nobody_foresees() -> None:
    made = Senses(mode="off", minutes=60)
    made.sensing.pause()
    assert made.asked == [(600.0, 1800.0)], "an hour for three"
    busy = Senses(mode="off", minutes=5, leaves=16)
    assert busy.sensing.pause() == LEAST_PAUSE
    nobody = Senses(mode="off", leaves=0)
    assert nobody.sensing.pause() == 1800.0
