"""A node's account of administration: the entries, and their effects."""

from typing import Any

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.parameters import NAMES
from gf_i2p.farm.pieces import whole
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.status.admin_status import describing
from tests.farm.strategies import NOW, leaf, record

MEMBER = FIRST_LEAF_MEMBER_ID


def told(*entries: bytes) -> dict[str, Any]:
    state = FarmState("farm")
    state.configure([1, 2])
    for index, entry in enumerate(entries, 2):
        state.apply(entry, index)
    return whole(describing(state))


def says(action: str, by: str = "admin-a", **values: Any) -> bytes:
    return AdminEntry("farm", NOW, by, action, **values).encode()


def at(number: int, answer: dict[str, Any]) -> dict[str, Any]:
    address = to_b32_address(leaf(number).hash)
    found: dict[str, Any] = next(each for each in answer["leaves"] if each["address"] == address)
    return found


SERVERS = (record(1, leaf(1)).encode(), record(2, leaf(2)).encode())


def test_a_farm_of_which_nothing_is_known() -> None:
    answer = told()
    assert (answer["publisher"], answer["moved_to"], answer["leaves"], answer["members"]) == (None, None, [], [])
    assert [server["id"] for server in answer["servers"]] == [1, 2]
    assert all(server["why_not"] and server["score"] is None for server in answer["servers"])
    assert answer["parameters"].keys() == NAMES.keys()


def test_leaves_are_told_with_their_owners_and_why_one_is_not_listed() -> None:
    answer = told(
        *SERVERS, says("exclude", hash=leaf(2).hash, reason="repairs"), says("cost", hash=leaf(1).hash, cost=7)
    )
    assert (at(1, answer)["listed"], at(1, answer)["cost"], at(1, answer)["set_cost"]) == (True, 7, 7)
    assert (at(1, answer)["owners"], at(1, answer)["up"]) == ([1], True)
    out = at(2, answer)
    assert (out["listed"], out["cost"]) == (False, None)
    assert out["excluded"]["by"] == "admin-a"
    assert "admin-a has excluded it: repairs" in out["why_not"]
    assert answer["leaves"][0]["listed"], "those that are listed come first"


def test_a_leaf_that_nobody_names_is_told_when_it_was_spoken_of() -> None:
    answer = told(*SERVERS, says("exclude", hash=leaf(9).hash))
    assert (at(9, answer)["owners"], at(9, answer)["up"], at(9, answer)["why_not"]) == ([], None, "nobody names it now")


def test_who_publishes_and_why_the_others_do_not() -> None:
    answer = told(*SERVERS)
    assert answer["publisher"] == 1
    servers = {server["id"]: server for server in answer["servers"]}
    assert servers[1]["why_not"] is None
    assert servers[2]["why_not"] is not None
    answer = told(*SERVERS, says("drain", server=1), says("move", by="server-2", server=2))
    assert answer["moved_to"] == 2
    assert {server["id"]: server["drained"] is not None for server in answer["servers"]} == {1: True, 2: False}


def test_members_are_told_with_the_age_of_what_they_said() -> None:
    member = record(MEMBER, leaf(3), leaf(4, up=False), publish=None).encode()
    later = record(1, leaf(1), date=NOW + 30_000).encode(), record(2, leaf(2), date=NOW + 30_000).encode()
    [found] = told(*SERVERS, member, *later)["members"]
    assert (found["id"], found["router_up"]) == (MEMBER, True)
    assert 0 < found["age"] <= 30
    assert [each["up"] for each in found["leaves"]] == [True, False]
    assert told(member)["members"][0]["age"] is None, "no server says what time it is"


def test_parameters_are_told_with_who_changed_them_last() -> None:
    answer = told(
        says("set", parameters={"margin": 70, "tree": "tree"}),
        says("set", by="server-1", parameters={"margin": 80}),
        says("drain", server=1),
    )["parameters"]
    assert (answer["margin"]["value"], answer["margin"]["default"], answer["margin"]["range"]) == (80, 50, [0, 1000])
    assert (answer["margin"]["changed"]["by"], answer["margin"]["changed"]["index"]) == ("server-1", 3)
    assert (answer["tree"]["value"], answer["tree"]["range"]) == ("tree", ["best", "tree"])
    assert answer["tree"]["changed"]["by"] == "admin-a"
    assert answer["holdMs"]["changed"] is None


def test_the_log_tells_who_changed_what_in_order() -> None:
    answer = told(says("drain", server=1), says("undrain", by="server-1", server=1, reason="done"))
    assert [(made["index"], made["by"], made["what"]) for made in answer["log"]] == [
        (2, "admin-a", "drain 1"),
        (3, "server-1", "undrain 1"),
    ]
    assert answer["log"][1]["reason"] == "done"
