import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from gf_i2p.transport.connection_counters import ConnectionRefusal
from gf_i2p.transport.connection_gate import Admission, Gate, source_of
from tests.transport.harness import until

pytestmark = pytest.mark.usefixtures("unhandled")


class Visitors:
    """Admits connections that end as soon as the gate tells them to."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.ended: list[str] = []

    def come(self, source: str, name: str = "") -> Admission:
        admission = self.gate.admit(source, name)

        def abort() -> None:
            self.ended.append(name)
            admission.closed()

        admission.bind(abort)
        return admission


async def test_a_connection_passes() -> None:
    gate = Gate()
    visitor = Visitors(gate).come("192.0.2.1")
    assert (gate.counters.accepted, gate.counters.unauthenticated) == (1, 1)
    visitor.authenticated()
    assert (gate.counters.authenticated, gate.counters.unauthenticated) == (1, 0)
    visitor.closed()
    assert gate.counters.refused == {}


async def test_who_does_not_authenticate_in_time_is_refused() -> None:
    gate = Gate(handshake_seconds=0.005)
    visitors = Visitors(gate)
    visitors.come("192.0.2.1", "slow")
    good = visitors.come("192.0.2.1", "good")
    good.authenticated()
    await until(lambda: visitors.ended)
    assert visitors.ended == ["slow"]
    assert gate.counters.refused == {ConnectionRefusal.DEADLINE: 1}
    assert gate.counters.unauthenticated == 0


async def test_who_has_got_all_that_it_came_for_has_its_slot_free_and_its_deadline_for_the_end() -> None:
    gate = Gate(handshake_seconds=0.005)
    visitors = Visitors(gate)
    visitors.come("192.0.2.1", "lingers").answered()
    leaves = visitors.come("192.0.2.1", "leaves")
    leaves.answered()
    assert gate.counters.unauthenticated == 0
    leaves.closed()
    await until(lambda: visitors.ended)
    assert visitors.ended == ["lingers"]
    assert gate.counters.refused == {}
    assert (gate.counters.authenticated, gate.counters.unauthenticated) == (0, 0)


async def test_another_deadline_holds_for_who_comes_from_then_on() -> None:
    gate = Gate(handshake_seconds=1000.0)
    visitors = Visitors(gate)
    visitors.come("192.0.2.1", "before")
    gate.handshake_seconds = 0.005
    visitors.come("192.0.2.1", "after")
    await until(lambda: visitors.ended)
    assert visitors.ended == ["after"]
    gate.close()


async def test_one_source_cannot_take_more_than_its_share() -> None:
    gate = Gate(max_per_source=2)
    visitors = Visitors(gate)
    first, second = visitors.come("a", "a1"), visitors.come("a", "a2")
    visitors.come("b", "b1")
    visitors.come("a", "a3")
    assert visitors.ended == ["a1"]
    assert gate.counters.refused == {ConnectionRefusal.SOURCE: 1}
    assert gate.counters.unauthenticated == 3
    # A connection that has authenticated, or has gone, takes no place.
    second.authenticated()
    visitors.come("a", "a4")
    assert visitors.ended == ["a1"]
    visitors.come("a", "a5").closed()
    visitors.come("a", "a6")
    assert visitors.ended == ["a1", "a3"]
    first.closed()
    assert gate.counters.refused == {ConnectionRefusal.SOURCE: 2, ConnectionRefusal.LEFT: 1}
    gate.close()


async def test_a_source_with_its_full_share_pushes_out_no_other() -> None:
    gate = Gate(max_unauthenticated=3, max_per_source=2)
    visitors = Visitors(gate)
    for source, name in [("b", "b1"), ("a", "a1"), ("a", "a2"), ("a", "a3")]:
        visitors.come(source, name)
    assert visitors.ended == ["a1"]
    assert gate.counters.refused == {ConnectionRefusal.SOURCE: 1}
    gate.close()


async def test_when_it_is_full_the_oldest_of_the_most_crowded_source_makes_room() -> None:
    gate = Gate(max_unauthenticated=4, max_per_source=10)
    visitors = Visitors(gate)
    for source, name in [("a", "a1"), ("b", "b1"), ("b", "b2"), ("b", "b3")]:
        visitors.come(source, name)
    visitors.come("c", "c1")
    assert visitors.ended == ["b1"]
    assert gate.counters.unauthenticated == 4
    visitors.come("d", "d1")
    assert visitors.ended == ["b1", "b2"]
    assert gate.counters.refused == {ConnectionRefusal.CROWDED: 2}
    gate.close()
    assert gate.counters.unauthenticated == 0
    assert gate.counters.refused == {ConnectionRefusal.CROWDED: 2}


async def test_a_flood_from_one_source_does_not_push_out_another() -> None:
    gate = Gate(max_unauthenticated=4, max_per_source=10)
    visitors = Visitors(gate)
    visitors.come("honest", "honest")
    for number in range(100):
        visitors.come("flood", f"flood {number}")
    assert "honest" not in visitors.ended
    assert len(visitors.ended) == 97
    gate.close()


async def test_the_first_reason_counts() -> None:
    gate = Gate()
    visitor = Visitors(gate).come("a")
    visitor.refuse(ConnectionRefusal.CREDENTIALS, "wrong")
    visitor.refuse(ConnectionRefusal.TLS, "also")
    visitor.closed()
    assert gate.counters.refused == {ConnectionRefusal.CREDENTIALS: 1}


async def test_who_leaves_before_authenticating_is_counted_unless_it_was_asked_to_come_again() -> None:
    gate = Gate()
    visitors = Visitors(gate)
    leaver, challenged = visitors.come("a"), visitors.come("a")
    leaver.closed()
    challenged.challenged()
    challenged.closed()
    assert gate.counters.refused == {ConnectionRefusal.LEFT: 1}
    assert gate.counters.challenged == 1
    assert gate.counters.unauthenticated == 0


# --- Connections that name their peer later ---------------------------------------------------------------


async def test_who_is_named_later_counts_for_its_name_from_then_on() -> None:
    gate = Gate(max_per_source=2)
    visitors = Visitors(gate)
    for name in ("a1", "a2", "b1"):
        visitors.come("unnamed", name).identify(name[0], name)
    visitors.come("unnamed", "unnamed 1")
    visitors.come("unnamed", "unnamed 2")
    assert visitors.ended == []
    assert gate.counters.unauthenticated == 5
    visitors.come("unnamed", "a3").identify("a", "a3")
    # The arrival made room among connections without a name, and the name made room among connections with that name.
    assert visitors.ended == ["unnamed 1", "a1"]
    assert gate.counters.refused == {ConnectionRefusal.SOURCE: 2}
    assert gate.counters.unauthenticated == 4
    gate.close()
    assert gate.counters.unauthenticated == 0
    assert gate._unauthenticated == {}


async def test_who_is_named_is_the_newest_of_its_name() -> None:
    gate = Gate(max_per_source=2)
    visitors = Visitors(gate)
    first = visitors.come("unnamed", "first")
    visitors.come("unnamed", "second").identify("a", "second")
    first.identify("a", "first")
    visitors.come("a", "third")
    assert visitors.ended == ["second"]
    gate.close()


async def test_one_place_for_each_name_is_enough() -> None:
    gate = Gate(max_per_source=1)
    visitors = Visitors(gate)
    for name in ("a1", "b1", "a2", "a3"):
        visitors.come("unnamed", name).identify(name[0], name)
    assert visitors.ended == ["a1", "a2"]
    assert {source: len(strangers) for source, strangers in gate._unauthenticated.items()} == {"b": 1, "a": 1}
    gate.close()


async def test_a_name_for_the_same_source_changes_nothing_but_the_turn() -> None:
    gate = Gate(max_per_source=2)
    visitors = Visitors(gate)
    first = visitors.come("a", "first")
    visitors.come("a", "second")
    first.identify("a", "first by name")
    assert visitors.ended == []
    assert (first.source, first.remote) == ("a", "first by name")
    visitors.come("a", "third")
    assert visitors.ended == ["second"]
    gate.close()


async def test_the_log_has_the_name() -> None:
    gate = Gate()
    with capture_logs() as lines:
        visitor = Visitors(gate).come("unnamed", "127.0.0.1:7")
        visitor.identify("a.b32.i2p", "a.b32.i2p")
        visitor.refuse(ConnectionRefusal.NOT_FOUND, "a wrong path")
    assert [line["remote"] for line in lines] == ["a.b32.i2p"]
    gate.close()


async def test_a_name_does_not_stop_the_clock() -> None:
    gate = Gate(handshake_seconds=0.005)
    visitors = Visitors(gate)
    visitors.come("unnamed", "slow").identify("a", "slow")
    await until(lambda: visitors.ended)
    assert gate.counters.refused == {ConnectionRefusal.DEADLINE: 1}
    assert gate._unauthenticated == {}


@pytest.mark.parametrize("end", [Admission.authenticated, Admission.closed, Admission.dismiss])
async def test_who_is_no_stranger_any_more_is_counted_for_no_name(end: Callable[[Admission], None]) -> None:
    gate = Gate(max_per_source=1)
    visitors = Visitors(gate)
    other = visitors.come("a", "other")
    visitor = visitors.come("unnamed", "visitor")
    end(visitor)
    visitor.identify("a", "visitor")
    assert visitor.remote == "visitor"
    assert "other" not in visitors.ended
    other.closed()
    assert gate._unauthenticated == {}
    assert gate.counters.unauthenticated == 0


async def test_no_deadline_is_left_behind() -> None:
    gate = Gate(handshake_seconds=0.002)
    visitors = Visitors(gate)
    for action in (Admission.authenticated, Admission.closed, Admission.dismiss):
        visitor = visitors.come("a", action.__name__)
        action(visitor)
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, later.set)
    await later.wait()
    assert visitors.ended == ["dismiss"]
    assert gate.counters.refused == {ConnectionRefusal.LEFT: 1}


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("abc.b32.i2p", "abc.b32.i2p"),
    ],
)
def test_a_source_is_what_a_stranger_cannot_multiply(address: str, source: str) -> None:
    assert source_of(address) == source
