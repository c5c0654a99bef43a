"""The posters' records, and how the leaves have kept up."""

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import MAX_PAST, Posters
from gf_i2p.farm.record.remote_sensing import RemoteDestination
from gf_i2p.farm.record.status_record import StatusRecord
from tests.farm.strategies import leaf, record

P = Parameters()


def take(posters: Posters, posted: StatusRecord, now: int = 0) -> None:
    posters.take(posted.encode(), posted, 1, now, P, is_server=True)


def test_who_names_a_leaf() -> None:
    posters = Posters()
    for server in (3, 1):
        take(posters, record(server, leaf(7), leaf(server)))
    assert [owner for owner, _ in posters.holders(leaf(7).hash)] == [1, 3]
    assert [poster for poster, _ in posters] == [1, 3]
    assert list(posters.by_id) == [3, 1]
    posters.remove(1)
    assert [owner for owner, _ in posters.holders(leaf(7).hash)] == [3]
    assert posters.holders(leaf(1).hash) == []
    posters.remove(77)


def test_a_leaf_that_is_named_no_more_is_forgotten_after_a_while() -> None:
    posters = Posters()
    take(posters, record(1, leaf(1), leaf(2)))
    take(posters, record(1, leaf(1)), 1000)
    take(posters, record(1, leaf(1)), 1000 + P.flap_ms)
    assert set(posters.by_id[1].leaf_health) == {leaf(1).hash, leaf(2).hash}
    take(posters, record(1, leaf(1)), 1001 + P.flap_ms)
    assert set(posters.by_id[1].leaf_health) == {leaf(1).hash}
    assert posters.holders(leaf(2).hash) == []


def test_no_poster_makes_others_remember_more_and_more_leaves() -> None:
    posters = Posters()
    for turn in range(5):
        take(posters, record(1, *(leaf(1000 * turn + number) for number in range(200))), turn)
    past = posters.by_id[1].leaf_health
    assert len(past) == MAX_PAST
    assert all(leaf(4000 + number).hash in past for number in range(200))
    assert leaf(3199).hash in past, "the oldest are forgotten first"


def test_the_newest_word_on_a_leaf_counts_and_not_for_ever() -> None:
    posters = Posters()

    def sees(server: int, now: int, *reached: bool) -> None:
        take(
            posters, record(server, remote_destinations=tuple(RemoteDestination(leaf(9).hash, r) for r in reached)), now
        )

    sees(1, 0, True)
    sees(2, 0, False)
    assert posters.reach_counts(leaf(9).hash, 3, 0, P) == (1, 1)
    assert posters.reach_counts(leaf(9).hash, 1, 0, P) == (0, 1), "its owner's own word does not"
    sees(2, 1, True)
    assert posters.reach_counts(leaf(9).hash, 3, 1, P) == (2, 0)
    sees(2, 2)
    assert posters.reach_counts(leaf(9).hash, 3, 2, P) == (1, 0)
    assert posters.reach_counts(leaf(9).hash, 3, P.fresh_ms + 1, P) == (0, 0)
    posters.remove(1)
    assert posters.reach_counts(leaf(9).hash, 3, 2, P) == (0, 0)


def test_what_is_kept_is_read() -> None:
    posters = Posters()
    take(posters, record(2, leaf(9), leaf(1, up=False), remote_destinations=(RemoteDestination(leaf(5).hash, True),)))
    take(posters, record(1, leaf(9)), 7)
    copy = Posters.parse(posters.encode(), [1, 2])
    assert copy.encode() == posters.encode()
    assert list(copy.by_id) == [2, 1]
    assert copy.reach_counts(leaf(5).hash, 1, 0, P) == (1, 0)
    assert copy.holders(leaf(9).hash)[0][1].leaves == posters.holders(leaf(9).hash)[0][1].leaves
