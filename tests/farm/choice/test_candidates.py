"""Possible publishers: accusations, and the configuration of the majority."""

from random import Random

import pytest

from gf_i2p.farm.choice.candidates import Accusation, Setting, objection
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import Poster
from gf_i2p.farm.record.remote_sensing import RemoteRouter
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.farm.state import FarmState
from tests.farm.fed_farm import Farm
from tests.farm.made_up_logs import SERVERS, log, take
from tests.farm.strategies import MASTER, NOW, leaf, record

A, B = b"a" * 32, b"b" * 32


def accuses(farm: Farm, server: int, other: int, *, reachable: bool = False) -> None:
    farm.post(record(server, leaf(server), date=farm.now, remote_routers=(RemoteRouter(other, reachable),)))


def started() -> Farm:
    farm = Farm()
    farm.lasts(300_000)
    assert farm.publisher == 1
    return farm


def test_a_server_that_is_not_heard_stops_publishing_at_once_until_it_posts_itself() -> None:
    farm = started()
    accuses(farm, 3, 1)
    assert farm.publisher == 2
    assert farm.state.accused == {1: Accusation(3, farm.index)}
    assert farm.state.choice.why_not[1] == "server 3 no longer hears it"
    farm.says(2)
    assert farm.state.objection(1) is not None, "others' records do not clear it"
    farm.says(1)
    assert farm.state.objection(1) is None
    assert farm.state.accused == {}


def test_who_has_accused_takes_it_back() -> None:
    farm = started()
    accuses(farm, 3, 1)
    accuses(farm, 2, 1, reachable=True)
    assert farm.state.objection(1) is not None
    accuses(farm, 3, 1, reachable=True)
    assert farm.state.objection(1) is None


@pytest.mark.parametrize("accuser", [1, FIRST_LEAF_MEMBER_ID, 77])
def test_only_another_server_accuses(accuser: int) -> None:
    farm = started()
    accuses(farm, accuser, 1)
    assert farm.publisher == 1
    assert farm.state.accused == {}


def test_the_word_of_a_server_that_was_removed_counts_no_more() -> None:
    farm = started()
    accuses(farm, 3, 1)
    farm.state.configure([1, 2])
    assert farm.state.accused == {}
    assert farm.state.objection(1) is None
    assert farm.state.posters.by_id[1].accused_ms is None


def test_accused_is_who_has_posted() -> None:
    farm = Farm()
    accuses(farm, 1, 2)
    assert farm.state.accused == {}


def test_what_most_are_configured_to() -> None:
    assert Setting.most_frequent({}) == Setting("off", None)
    assert Setting.most_frequent(
        {1: Setting("meta", A), 2: Setting("failover", B), 3: Setting("failover", B)}
    ) == Setting("failover", B)
    assert Setting.most_frequent({2: Setting("meta", A), 1: Setting("failover", B)}) == Setting("failover", B)
    off = {number: Setting("off", A) for number in range(5)}
    assert Setting.most_frequent({**off, 7: Setting("dry-run", B)}) == Setting("dry-run", A)


def test_what_a_record_says() -> None:
    assert Setting.of(record(1)) == Setting("meta", MASTER.hash)
    assert Setting.of(record(1, mode="failover")) == Setting("failover", MASTER.hash)
    assert Setting.of(record(1, mode="failover", publish="off")) == Setting("off", MASTER.hash)
    assert Setting.of(record(1, publish=None)) == Setting()


def test_fresh_to_the_millisecond() -> None:
    parameters = Parameters()
    for age, can in (
        (parameters.fresh_ms, True),
        (parameters.fresh_ms + 1, False),
        (-parameters.ahead_ms, True),
        (-parameters.ahead_ms - 1, False),
    ):
        farm = Farm()
        for server in (2, 3):
            farm.says(server)
        farm.post(record(1, date=farm.now - age))
        assert (farm.state.objection(1) is None) is can


def test_a_date_that_is_ahead_keeps_nobody_fresh_for_longer_than_it_is_heard() -> None:
    parameters = Parameters()
    poster = Poster(b"", record(1, date=NOW + 50_000), index=1, heard_ms=0)
    setting = Setting.of(poster.record)
    for passed, why in ((parameters.fresh_ms, None), (parameters.fresh_ms + 1, "nothing was heard of it for 105 s")):
        assert objection(poster, setting, setting, None, NOW + passed, passed, parameters) == why


def test_the_publisher_is_judged_by_its_date_and_not_by_what_others_catch_up() -> None:
    """After a silence of all servers the first poster sees the stopwatch make up for the silence (seed 1662)."""
    parameters = Parameters()
    poster = Poster(b"", record(1, date=NOW), index=1, heard_ms=0)
    setting = Setting.of(poster.record)
    behind = parameters.fresh_ms + 1

    def judged(now: int, *, is_publisher: bool) -> str | None:
        return objection(poster, setting, setting, None, now, behind, parameters, is_publisher=is_publisher)

    assert judged(NOW + parameters.fresh_ms, is_publisher=True) is None
    assert "nothing was heard" in (judged(NOW + parameters.fresh_ms, is_publisher=False) or "")
    assert "its newest record is" in (judged(NOW + behind, is_publisher=True) or "")


def test_who_ranks_is_whom_nothing_speaks_against() -> None:
    """The merits hold the points of each server's score, although `merits` takes a shorter way."""
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    ranked = refused = 0
    for each in range(4):
        state = FarmState("farm")
        state.configure(SERVERS)
        for index, entry in enumerate(log(seed + each, 300), 1):
            take(state, index, entry)
            able = {server for server in state.records if state.objection(server) is None}
            merits = state.merits()
            assert merits.keys() == able
            scores = {server: score.total for server in able if (score := state.score(server)) is not None}
            assert {server: merit.score for server, merit in merits.items()} == scores
            ranked, refused = ranked + len(able), refused + len(state.records) - len(able)
    assert ranked > 100
    assert refused > 100
