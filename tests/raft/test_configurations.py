"""The Configurations of a log: which one is in force after a cut, a drop, and a snapshot."""

import pytest

from gf_i2p.raft.configurations import Configurations
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration
from tests.raft.lab import configuration


def servers(index: int, *ids: int) -> Configuration:
    return Configuration(index, 0, configuration(ids).servers)


def entry(index: int, *ids: int) -> Entry:
    return Entry(1, ValueType.CONFIGURATION, servers(index, *ids).encode())


def of_log() -> Configurations:
    """Configurations at 0 (the first), 3 and 6."""
    found = Configurations(servers(0, 1))
    found.replace_from(3, [entry(3, 1, 2)])
    found.replace_from(6, [entry(6, 1, 2, 3)])
    return found


def in_force(found: Configurations, last: int = 8) -> list[tuple[int, ...]]:
    return [tuple(server.id for server in found.at(index).servers) for index in range(last)]


def test_each_is_in_force_from_its_index_on() -> None:
    found = of_log()
    assert in_force(found) == [(1,)] * 3 + [(1, 2)] * 3 + [(1, 2, 3)] * 2
    assert (found.voters, found.current_index) == ((1, 2, 3), 6)


@pytest.mark.parametrize(("index", "left"), [(2, [0, 3, 6]), (3, [3, 6]), (5, [3, 6]), (6, [6]), (7, [6])])
def test_what_a_drop_leaves(index: int, left: list[int]) -> None:
    found = of_log()
    found.drop(index)
    assert [at for at, _ in found._history] == left
    assert found.voters == (1, 2, 3)


@pytest.mark.parametrize(("index", "left"), [(5, [5, 6]), (6, [5]), (7, [5])])
def test_a_snapshot_of_a_part_of_the_log_replaces_what_it_covers(index: int, left: list[int]) -> None:
    found = of_log()
    found.begin(index, servers(5, 1, 2, 4))
    assert [at for at, _ in found._history] == left
    assert found.voters == ((1, 2, 3) if 6 in left else (1, 2, 4))


def test_a_snapshot_of_another_log_replaces_all() -> None:
    found = of_log()
    found.restart(servers(9, 4, 5))
    assert (found.voters, found.current_index) == ((4, 5), 9)
    assert not found.ever_has(1)
    assert not found.has_since(20, 1)


def test_a_server_counts_from_the_index_on() -> None:
    found = of_log()
    found.replace_from(7, [entry(7, 2, 3)])
    assert found.has_since(6, 1)
    assert not found.has_since(7, 1)
    assert found.has_since(0, 3)


def test_every_change_of_the_voters_is_counted() -> None:
    found = Configurations(servers(0, 1))
    seen = {found.changes}

    def has_changed() -> bool:
        new = found.changes not in seen
        seen.add(found.changes)
        return new

    found.replace_from(3, [entry(3, 1, 2)])
    assert has_changed()
    found.replace_from(3, [])
    assert has_changed()
    found.begin(2, servers(2, 1, 2))
    assert has_changed()
    found.restart(servers(5, 3))
    assert has_changed()
    found.replace_from(9, [])
    assert not has_changed()
