"""Replays repeat the farms' decisions, index by index: of simulated farms and real nodes; also with gaps in a log."""

import asyncio
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.state import FarmState
from gf_i2p.node import view
from gf_i2p.node.files.file_names import HISTORY_DIRECTORY
from gf_i2p.node.node import Node
from gf_i2p.node.recovery.restore import restore
from gf_i2p.node.recovery.snapshot_copy import of_running
from gf_i2p.pipeline.backtest.replay import Replay, ReplayedEntry, SetState
from gf_i2p.simulator.life.farm import take_in
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.history_lines import ApplicationLine
from gf_i2p.storage.history_reader import read_history
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration
from integration.harness.local_farm import becomes
from tests.farm.strategies import NOW, leaf, record
from tests.netdb.strategies import KEYS
from tests.node.farm import NodeFarm
from tests.node.routers import FakeBridge
from tests.pipeline.backtest.replays import Life, Said, decisions, of_choice, replayed, row
from tests.tier import mostly_slow

SEEDS = mostly_slow(range(1, 13), 1, 2, 3, 4)
QUICK = {"freshMs": 35_000, "leafUpMs": 0, "leafDownMs": 0, "republishMinMs": 60_000}
SECONDS = 60
"""Most seconds that a farm takes on a slow machine."""


# Equality ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_decides_at_every_index_what_the_simulated_farm_did(seed: int) -> None:
    life = Life(seed)
    assert not life.different
    assert set(life.chosen) == set(range(1, len(life.log) + 1))
    decisions = replayed(CLUSTER, [row(index, value) for index, value in enumerate(life.log, 1)])
    assert decisions == life.chosen
    assert len(set(life.chosen.values())) > 3, "a life in which something happens"


@pytest.mark.parametrize("seed", mostly_slow(range(1, 9), 1, 2))
def test_a_farm_with_other_parameters_is_one_that_was_told_so(seed: int) -> None:
    """A fixed value of a set counts from the first entry on, whatever administrators say later."""
    rng = random.Random(seed)
    fixed = {"freshMs": rng.choice([35_000, 60_000, 300_000]), "margin": rng.choice([0, 200]), "leafDownMs": 0}
    life = Life(seed)
    farm = FarmState(CLUSTER)
    replay = Replay(CLUSTER, [{}, fixed])
    for index, value in enumerate(life.log, 1):
        replay.feed(row(index, value))
        parameters = farm.administration.parameters.changed(fixed)
        farm.administration.parameters = parameters
        take_in(farm, index, value)
        farm.administration.parameters = farm.administration.parameters.changed(fixed)
        state = replay.runs[1].state
        assert of_choice(state.choice) == of_choice(farm.choice), f"index {index}, {fixed}"
        assert of_choice(replay.runs[0].state.choice) == life.chosen[index]
    assert farm.clock.encode() == replay.runs[1].state.clock.encode()


def test_a_set_keeps_what_administrators_say_of_the_rest() -> None:
    state = SetState("farm", {"margin": 7})
    assert state.parameters == Parameters(margin=7)
    entry = AdminEntry("farm", 1, "admin-ann", "set", parameters={"margin": 100, "holdMs": 5, "republishMinMs": 90_000})
    state.apply(entry.encode(), 1)
    assert state.parameters == Parameters(margin=7, hold_ms=5, republish_min_ms=90_000)
    state.apply(AdminEntry("farm", 2, "admin-ann", "set", parameters={"holdMs": None}).encode(), 2)
    assert state.parameters == Parameters(margin=7, republish_min_ms=90_000)
    assert state.leaf_inputs().parameters is state.parameters
    assert state.administration.parameters.margin == 100, "what is said is kept as it was said"


# A live farm ---------------------------------------------------------------------------------------------------------


class Live:
    """Hears the choice of each node of a farm at each applied index."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chosen: dict[int, set[Said]] = {}
        self.configurations: dict[int, tuple[int, tuple[int, ...]]] = {}
        live = view.take_in

        def heard(state: FarmState, index: int, entry: Entry) -> None:
            live(state, index, entry)
            self.chosen.setdefault(index, set()).add(of_choice(state.choice))
            if entry.value_type is ValueType.CONFIGURATION:
                servers = tuple(server.id for server in Configuration.decode(entry.value).servers)
                self.configurations[index] = entry.term, servers

        monkeypatch.setattr(view, "take_in", heard)

    def rows(self, *histories: Path) -> list[ReplayedEntry]:
        """Give the log as all histories together have exported the log; the highest term of an index first."""
        rows = {
            (index, term): ReplayedEntry(index, term, 0, "servers", None, servers)
            for index, (term, servers) in self.configurations.items()
        }
        for history in histories:
            for each in read_history(history):
                if isinstance(each, ApplicationLine):
                    value = json.dumps(each.value).encode() if each.raw is None else each.raw
                    rows[each.index, each.term] = ReplayedEntry(each.index, each.term, each.received_ms, "other", value)
        return [rows[place] for place in sorted(rows, key=lambda place: (place[0], -place[1]))]


async def _elects_again(farm: NodeFarm) -> None:
    """Let a calm farm elect a new leader soon again after the leader's end."""
    cores = [node.driver.core for node in farm.nodes.values()]
    for node in farm.nodes.values():
        node.driver.core.timing = node.driver.timeouts.timing
    soon = asyncio.get_running_loop().time() + SECONDS / 2
    await becomes("heard with the old times", lambda: all(c.is_leader or c.deadline < soon for c in cores), SECONDS)


async def _exported(node: Node, index: int) -> None:
    exporter = node.farm_tasks.exporter
    assert exporter is not None
    await becomes("exported", lambda: exporter.durable_index >= index, SECONDS)


@pytest.mark.timeout(5 * SECONDS)
async def test_a_replay_of_the_history_decides_at_every_index_what_the_nodes_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Live(monkeypatch)
    bridges = {server: FakeBridge(server, leaf=server) for server in (1, 2, 3)}
    async with NodeFarm(tmp_path, 3, bridges=bridges, keys=KEYS) as farm:
        leader = await farm.calm()
        await becomes("all have posted", lambda: len(leader.farm_tasks.view.state.records) == 3, SECONDS)
        await leader.driver.post(
            [AdminEntry("farm", 1, "admin-test", "set", parameters={"margin": 0, "leafDownMs": 0}).encode(), b"junk"],
            seconds=SECONDS,
        )
        await becomes("a publisher", lambda: leader.farm_tasks.view.choice.publisher is not None, SECONDS)
        bridges[2].leaf_up = False
        await becomes("a leaf is out", lambda: len(leader.farm_tasks.view.choice.entries) == 2, SECONDS)
        dead = leader.farm_tasks.view.choice.publisher
        assert dead is not None
        await _elects_again(farm)
        await farm.stop(dead)
        other = await farm.leader()
        await becomes("another publisher", lambda: other.farm_tasks.view.choice.publisher not in {dead, None}, SECONDS)
        await farm.start(dead)
        await becomes("it is back", lambda: dead in other.farm_tasks.view.state.merits(), SECONDS)
        await farm.equal()
        index = other.driver.core.commit
        for node in farm.nodes.values():
            await node.farm_tasks.view.reaches(index)
        await _exported(other, index)
        rows = live.rows(farm.path(other.driver.core.id) / HISTORY_DIRECTORY)
    decisions = replayed("farm", [each for each in rows if each.index <= index])
    assert set(decisions) == set(range(1, index + 1))
    assert {place: {decision} for place, decision in decisions.items()} == {
        place: live.chosen[place] for place in decisions
    }
    assert len(set(decisions.values())) > 3


@pytest.mark.timeout(5 * SECONDS)
async def test_a_farm_that_began_anew_from_a_snapshot_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old servers' histories have entries, of lower terms, that this farm has forgotten."""
    live = Live(monkeypatch)
    async with NodeFarm(tmp_path) as farm:
        leader = await farm.calm()
        index = await leader.driver.post(
            [record(server, leaf(server)).encode() for server in (1, 2, 3)], seconds=SECONDS
        )
        await leader.farm_tasks.view.reaches(index)
        saved = await of_running(leader)
        assert saved is not None
        for server in (1, 2, 3):  # values to be forgotten
            forgotten = record(server, leaf(server, up=False), up=server == 3).encode()
            end = await leader.driver.post([forgotten] * 5, seconds=SECONDS)
        await leader.farm_tasks.view.reaches(end)
        await farm.equal()
        await _exported(farm.nodes[3], end)
        for server in (1, 2, 3):
            await farm.stop(server)
        old = live.rows(farm.path(3) / HISTORY_DIRECTORY)
        live.chosen = {place: decision for place, decision in live.chosen.items() if place <= saved.snapshot.index}
        done = restore(saved, farm.path(1))
        assert done.index == saved.snapshot.index + 1
        new = await farm.start(1)
        await becomes("it leads alone", lambda: new.driver.core.is_leader, SECONDS)
        index = await new.driver.post([record(1, leaf(1)).encode()], seconds=SECONDS)
        assert index < end, "the forgotten log was longer"
        await new.farm_tasks.view.reaches(index)
        await _exported(new, index)
        rows = live.rows(farm.path(1) / HISTORY_DIRECTORY)
    both = {(each.index, each.term): each for each in [*old, *rows]}
    replay = Replay("farm")
    in_order = [both[place] for place in sorted(both, key=lambda place: (place[0], -place[1]))]
    decisions = replayed("farm", in_order)
    assert set(decisions) == set(range(1, index + 1))
    assert {place: {decision} for place, decision in decisions.items()} == {
        place: live.chosen[place] for place in decisions
    }
    for each in in_order:
        replay.feed(each)
    assert replay.superseded == len(in_order) - index > 0
    assert replay.exact
    assert replay.gaps == 0


# Gaps ----------------------------------------------------------------------------------------------------------------


def _posts(first: int, *servers: int, up: bool = True) -> list[ReplayedEntry]:
    return [row(first + place, record(each, leaf(each), up=up).encode()) for place, each in enumerate(servers)]


def test_after_a_gap_nothing_is_exact_until_all_have_posted_and_the_servers_are_known() -> None:
    rows = [row(1, (1, 2, 3)), *_posts(2, 1, 2, 3)]
    assert [each["exact"] for each in decisions("farm", rows)][-1]
    rows += [*_posts(10, 1, 2, 3)]
    assert not [each["exact"] for each in decisions("farm", rows)][-1], "the servers may be others now"
    replay = Replay("farm")
    for each in [*rows, row(13, (1, 2, 3)), *_posts(14, 1)]:
        replay.feed(each)
    assert replay.gaps == 1
    assert replay.exact
    replay = Replay("farm")
    for each in [*rows[:4], row(10, (1, 2, 3)), *_posts(11, 1, 2)]:
        replay.feed(each)
    assert not replay.exact, "3 has not posted since"
    replay.feed(_posts(13, 3)[0])
    assert replay.exact


def _gap(index: int, *servers: int, term: int = 0) -> ReplayedEntry:
    return replace(row(index, servers, term=term), value=b"{}")


def test_a_gap_that_says_who_the_servers_are() -> None:
    before = [row(1, (1, 2, 3)), *_posts(2, 1, 2, 3)]
    replay = Replay("farm")
    for each in [*before, _gap(9, 1, 2), *_posts(10, 1)]:
        replay.feed(each)
    assert replay.runs[0].state.servers == (1, 2)
    assert (replay.gaps, replay.entries, replay.superseded, replay.exact) == (1, 5, 0, False)
    replay.feed(_posts(11, 2)[0])
    assert replay.exact, "3 is none of them any more"
    replay = Replay("farm")
    for each in [_gap(1, 1), *_posts(2, 2)]:
        replay.feed(each)
    assert (replay.runs[0].state.servers, replay.exact, replay.gaps) == ((1,), False, 1)


def test_what_a_gap_says_counts_only_where_nobody_has_the_entries() -> None:
    replay = Replay("farm")
    for each in [row(1, (1, 2, 3)), *_posts(2, 1, 2), _gap(3, 1), _gap(2, 2), *_posts(4, 3)]:
        replay.feed(each)
    assert (replay.runs[0].state.servers, replay.exact, replay.gaps) == ((1, 2, 3), True, 0)
    for each in [*_posts(9, 1), _gap(9, 1), *_posts(10, 1)]:
        replay.feed(each)
    assert (replay.runs[0].state.servers, replay.gaps) == ((1,), 1), "who the servers are was not known behind 5 to 8"


def test_a_farm_that_began_anew_has_the_servers_of_its_snapshot_and_forgets_what_came_after_it() -> None:
    replay = Replay("farm")
    for each in [row(1, (1, 2)), *_posts(2, 1, 2), _gap(3, 1, term=8), *_posts(4, 2), _gap(5, 2, term=7)]:
        replay.feed(each)
    assert (replay.runs[0].state.servers, replay.exact) == ((1,), True)
    assert (replay.entries, replay.superseded, replay.gaps) == (3, 1, 0)


def test_beginning_anew_with_the_servers_that_it_has_is_no_decision() -> None:
    """Leaf 1 has become busy, which counts at the next set: the snapshot has not been there yet."""
    idle, busy = (replace(leaf(1), configured_connections=10, current_connections=each) for each in (0, 10))
    posts = [
        record(server, each, date=NOW + seconds * 1000).encode()
        for seconds in range(0, 211, 30)
        for server, each in ((1, idle), (2, leaf(2)))
    ]
    posts.append(record(1, busy, date=NOW + 220_000).encode())
    log = [row(1, (1, 2)), *(row(index, each) for index, each in enumerate(posts, 2))]
    alone = row(log[-1].index + 1, (1,), term=8)
    for between in ([], [_gap(log[-1].index, 1, 2, term=8)]):
        replay = Replay("farm")
        decided = [each.index for each in [*log, *between, alone] if replay.feed(each)]
        assert decided[-1] == alone.index
        assert log[-1].index not in decided
        assert (replay.exact, replay.runs[0].state.listing.spent_ms) == (True, 280_000)


def test_a_history_without_configurations_is_replayed_with_those_who_post() -> None:
    replay = Replay("farm")
    for each in _posts(2, 3, 1, 2):
        replay.feed(each)
    assert replay.runs[0].state.servers == (3, 1, 2)
    assert replay.runs[0].publisher is not None
    assert not replay.exact


def test_what_administrators_said_before_a_gap_still_counts() -> None:
    rows = [
        row(1, (1, 2)),
        row(2, AdminEntry("farm", 1, "admin-ann", "exclude", hash=leaf(1).hash).encode()),
        *_posts(9, 1, 2),
    ]
    assert [entry["owner"] for entry in list(decisions("farm", rows))[-1]["listed"]] == [2]


def test_of_one_index_the_highest_term_counts_and_lower_ones_after_it_never() -> None:
    down = [replace(each, term=1) for each in _posts(5, 1, 2, up=False)]
    up = [replace(each, term=7) for each in _posts(5, 1)]
    rows = [row(1, (1, 2)), *_posts(2, 1, 2), row(4, (1, 2))]
    replay = Replay("farm")
    for each in [*rows, *up, *down]:
        replay.feed(each)
    assert (replay.superseded, replay.entries, replay.gaps) == (2, 5, 0)
    assert replay.runs[0].publisher == 1


def test_other_farms_records_and_junk_change_nothing() -> None:
    rows = [
        row(1, (1, 2)),
        row(2, b"\xff"),
        row(3, record(1, cluster="another").encode()),
        row(4, AdminEntry("another", 1, "admin-ann", "drain", server=1).encode()),
    ]
    assert list(decisions("farm", rows)) == []
