"""The budgets of the users: bytes per second, bytes at once, and bytes without an answer."""

from gf_i2p.node.access.budgets import Budgets, Limits
from gf_i2p.node.access.roles import User
from gf_i2p.node.files.config import LimitsTable
from gf_i2p.wire.limits import MAX_ENTRIES_BYTES

CLIENT, OTHER, SERVER = User("client-web"), User("client-other"), User("server-2")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def budgets(clock: Clock, **changed: int) -> Budgets:
    limits = {"client_rate": 100, "server_rate": 1000, "burst": 1000, "in_flight": 10_000} | changed
    return Budgets(Limits(**limits), clock=clock)


def test_a_user_saves_up_a_burst_and_then_waits_for_each_byte() -> None:
    clock = Clock()
    budget = budgets(clock)
    assert [budget.objection(CLIENT, 500) is None for _ in range(3)] == [True, True, False]
    assert budget.objection(OTHER, 500) is None
    clock.now += 1
    assert budget.objection(CLIENT, 600) is None, "the bucket is not empty: the rest is paid later"
    clock.now += 5
    assert "client-web posts more than" in str(budget.objection(CLIENT, 1))
    clock.now += 0.1
    assert budget.objection(CLIENT, 1) is None
    clock.now += 1e6
    assert [budget.objection(CLIENT, 500) is None for _ in range(3)] == [True, True, False]


def test_servers_have_a_budget_of_their_own() -> None:
    clock = Clock()
    budget = budgets(clock)
    assert budget.objection(SERVER, 1000) is None
    assert "server_kib_per_second" in str(budget.objection(SERVER, 1))
    clock.now += 1
    assert budget.objection(SERVER, 1000) is None


def test_posts_without_an_answer_have_a_limit() -> None:
    budget = budgets(Clock(), in_flight=100)
    assert budget.objection(CLIENT, 500) is None, "one post may be larger than the limit"
    assert "posts without an answer" in str(budget.objection(CLIENT, 1))
    assert budget.shown()["in_flight"] == {"client-web": 500}
    budget.answered(CLIENT, 500)
    assert budget.objection(CLIENT, 50) is None
    assert budget.objection(CLIENT, 50) is None
    assert budget.objection(CLIENT, 1) is not None


def test_a_rate_of_0_means_no_limit() -> None:
    budget = budgets(Clock(), client_rate=0, in_flight=1)
    assert [budget.objection(CLIENT, 1 << 30) for _ in range(3)] == [None] * 3


def test_the_defaults_let_the_largest_post_through_and_a_second_one_beside_it() -> None:
    clock = Clock()
    budget = Budgets(LimitsTable().in_bytes, clock=clock)
    assert budget.objection(CLIENT, MAX_ENTRIES_BYTES) is None
    assert budget.objection(CLIENT, MAX_ENTRIES_BYTES) is None
