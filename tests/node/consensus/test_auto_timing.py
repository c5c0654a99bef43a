"""Whole farms with the time-outs of profile `auto`, in simulated networks: no election that nobody needs.

The seed stands in the test or its name; a run is exactly repeatable.
"""

from dataclasses import dataclass, replace

import pytest

from gf_i2p.node.consensus.timing import RANGE_INSIDE_I2P, RANGE_OUTSIDE_I2P, TimingPlan
from gf_i2p.raft import inputs
from gf_i2p.wire.messages import NOBODY
from tests.node.consensus.simulation import FAR_NET, LAN_NET, PRIVATE_NET, SLOW_NET, Farm, Network
from tests.tier import mostly_slow

OUT, IN = TimingPlan("auto", RANGE_OUTSIDE_I2P), TimingPlan("auto", RANGE_INSIDE_I2P)


@dataclass(frozen=True)
class Case:
    """A network, the seconds for which a farm there is watched, and the seconds for settling before."""

    network: Network
    plan: TimingPlan
    watched: float
    settling: float


CASES = {
    "LAN": Case(LAN_NET, OUT, 120, 20),
    "20 ms, jitter": Case(PRIVATE_NET, OUT, 120, 20),
    "20 ms, jitter, inside": Case(PRIVATE_NET, IN, 900, 60),
    "300 ms": Case(FAR_NET, OUT, 300, 60),
    "300 ms, inside": Case(FAR_NET, IN, 900, 60),
    "2 s": Case(replace(SLOW_NET, stall=0.0, every=0.0), OUT, 3600, 120),
    "2 s, stalls of 6 s, inside": Case(SLOW_NET, IN, 7200, 1200),
}
LEAST = ("LAN", "300 ms, inside")
"""The networks of `make test`: one outside I2P, one inside."""
EVERYWHERE = pytest.mark.parametrize("name", mostly_slow(CASES, *LEAST))
SEEDS = pytest.mark.parametrize("seed", mostly_slow([1, 2], 1))


def settled(name: str, seed: int, **options: object) -> Farm:
    """A farm with the first leader, after all servers have started together and settled."""
    case = CASES[name]
    farm = Farm(case.network, case.plan, seed=seed, **options)  # type: ignore[arg-type]
    assert farm.run(120, lambda: farm.leader is not None), f"seed {seed}: no first leader"
    farm.run(case.settling)
    return farm


def watch(farm: Farm, seconds: float, seed: int) -> None:
    """Let `seconds` pass, and fail when any server stands for election."""
    before = list(farm.campaigns)
    farm.run(seconds)
    assert farm.campaigns == before, f"seed {seed}: (term, server) stood for election needlessly"
    assert farm.leader is not None


@EVERYWHERE
@SEEDS
def test_a_farm_that_is_well_elects_nobody(name: str, seed: int) -> None:
    farm = settled(name, seed)
    watch(farm, CASES[name].watched, seed)
    for timeouts in farm.tempos.values():
        assert timeouts.timing.election_min >= 2 * farm.tempos[farm.leader or 0].timing.heartbeat


@EVERYWHERE
@pytest.mark.parametrize("watchful", [False, True], ids=["silently", "connections break"])
def test_when_the_leader_dies_another_leads_in_time(name: str, watchful: bool) -> None:
    farm = settled(name, 3, watchful=watchful)
    for _ in range(2):
        dead, waits = farm.leader, [timeouts.timing for timeouts in farm.tempos.values()]
        assert dead is not None
        began, known = farm.now, len(farm.campaigns)
        farm.kill(dead)
        farm.run(100, lambda known=known: len(farm.campaigns) > known)  # type: ignore[misc]
        # Messages on the way still arrive after the death, and a failed dial takes a way there and back.
        late = 5 * (CASES[name].network.delay + CASES[name].network.jitter)
        limit = max(1.5 * t.election_min if watchful else t.election_max for t in waits)
        assert farm.now - began <= limit + late, "somebody stands in time"
        assert farm.run(300, lambda: farm.leader is not None)
        farm.revive(dead)
        farm.run(CASES[name].settling)
        assert farm.leader is not None


@pytest.mark.parametrize("name", mostly_slow(["300 ms", "2 s", "2 s, stalls of 6 s, inside"], "300 ms"))
@pytest.mark.parametrize("each", [0.5, 4.0])
@pytest.mark.parametrize("share", [0.6, 1.2])
def test_traffic_that_hides_the_heartbeat_and_ends_takes_nobody_by_surprise(
    name: str, each: float, share: float
) -> None:
    farm = settled(name, 4)
    seconds = min(CASES[name].plan.limits.memory * share, 1500 * each)
    before = list(farm.campaigns)
    farm.load(each, until=farm.now + seconds)
    farm.run(seconds + 60)
    assert farm.campaigns == before


@EVERYWHERE
def test_followers_that_die_and_come_back_depose_nobody(name: str) -> None:
    farm = settled(name, 5)
    for pause in (0.5, 5.0, 60.0):
        leader = farm.leader
        dead = farm.rng.choice([server for server in farm.servers if server != leader])
        farm.kill(dead)
        farm.run(pause)
        farm.revive(dead)
        farm.run(30)
        assert farm.leader == leader, f"after {pause} s"
        assert farm.core(dead).leader == leader


@pytest.mark.parametrize("name", mostly_slow(["LAN", "20 ms, jitter, inside"], "LAN"))
@SEEDS
def test_a_network_that_becomes_slow_is_got_used_to(name: str, seed: int) -> None:
    farm = settled(name, seed)
    farm.net = replace(SLOW_NET, stall=0.0, every=0.0)
    farm.run(180)
    watch(farm, 600, seed)


@SEEDS
def test_a_slow_farm_whose_handshakes_tell_nothing_finds_its_leader_by_its_votes(seed: int) -> None:
    quick = replace(RANGE_OUTSIDE_I2P, unconnected=RANGE_OUTSIDE_I2P.first)
    farm = Farm(CASES["2 s"].network, TimingPlan("auto", quick), seed=seed, handshakes=False)
    assert farm.run(120, lambda: farm.leader is not None), "waits of 0.5 to 1 s are shorter than any vote"
    watch(farm, 600, seed)


@SEEDS
def test_a_stall_of_one_follower_deposes_no_leader_and_is_remembered(seed: int) -> None:
    farm = settled("300 ms, inside", seed)
    follower = next(server for server in farm.servers if server != farm.leader)
    for number in range(4):
        before = len(farm.campaigns)
        farm.stalled_until[follower] = farm.now + 8.0
        farm.run(120)
        assert farm.leader is not None
        assert len(farm.campaigns) == before, f"seed {seed}: stall {number}"
        assert farm.tempos[follower].timing.election_min >= 8.0


@SEEDS
def test_five_servers_one_of_them_far_away(seed: int) -> None:
    far = {5: replace(SLOW_NET, stall=0.0, every=0.0)}
    farm = settled("20 ms, jitter, inside", seed, servers=5, apart=far)
    watch(farm, 600, seed)
    leader = farm.leader or 0
    assert farm.tempos[leader].timing.heartbeat == (0.5 if leader != 5 else pytest.approx(2.5, abs=1.0))


# A server that returns ------------------------------------------------------------------------------------------------


@SEEDS
def test_a_server_that_restarts_deposes_nobody_while_the_leader_still_looks_for_it(seed: int) -> None:
    """Measured inside I2P: the restarted node dials in 2 s, and the leader's redial takes 19 s."""
    farm, leader, follower, term = led(seed)
    farm.kill(follower)
    farm.run(1.0)
    farm.restart(follower)
    for other in farm.servers.keys() - {follower}:
        farm.dial(follower, other)
        farm.at(farm.now + 25.0, lambda other=other: farm.dial(other, follower))  # type: ignore[misc]
    farm.run(60.0)
    assert (farm.leader, farm.core(leader).term) == (leader, term)


@SEEDS
def test_a_server_whose_router_restarts_raises_no_term(seed: int) -> None:
    farm, leader, follower, term = led(seed)
    for one, other in [link for link in farm.up_since if follower in link]:
        del farm.up_since[one, other]
        for tag in [tag for tag, flight in farm.tempos[one]._flights.items() if flight.peer == other]:
            farm.tell(one, inputs.Failed(other, tag))
    for other in farm.servers.keys() - {follower}:
        farm.at(farm.now + 60.0, lambda other=other: farm.dial(follower, other))  # type: ignore[misc]
        farm.at(farm.now + 90.0, lambda other=other: farm.dial(other, follower))  # type: ignore[misc]
    farm.run(89.0)
    assert farm.core(follower).leader == NOBODY
    farm.run(31.0)
    assert {server.core.term for server in farm.servers.values()} == {term}
    assert farm.leader == leader


def led(seed: int) -> tuple[Farm, int, int, int]:
    """Give a farm inside I2P, its leader, one follower and the term."""
    farm = settled("300 ms, inside", seed)
    leader = farm.leader
    assert leader is not None
    follower = next(server for server in farm.servers if server != leader)
    return farm, leader, follower, farm.core(leader).term
