"""The catalogue of attacks: each says its rights and the intended harm, and crafted requests are what they claim."""

import inspect
import json
import subprocess
import sys

import pytest

from gf_i2p.node.access.roles import User
from gf_i2p.wire.entries import ENTRY_HEADER_BYTES
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_ENTRIES_BYTES
from gf_i2p.wire.log_values import LogPack
from gf_i2p.wire.messages import MessageType, OversizedRequest, encode_request, read_request
from integration.attack import hostile_requests as hostile
from integration.attack.attack import Attack, Outcome, Rights, Scene
from integration.attack.catalogue import ATTACKS, BY_NAME

SCENE = Scene("farm", 4.0, 7, 2, 5, 100, 95, 4)
BEGINNINGS = {
    Rights.STRANGER: ("A stranger ", "Eight destinations "),
    Rights.LOCAL: ("A local process ",),
    Rights.CLIENT: ("A client ",),
    Rights.SERVER: ("A seized server ",),
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_each_attack_says_its_rights_and_the_intended_harm(attack: Attack) -> None:
    text = inspect.getdoc(attack.run) or ""
    assert text.startswith(BEGINNINGS[attack.rights])
    assert "\nHarm: " in text
    assert attack.outcome is Outcome.KEPT or attack.rights is Rights.SERVER


def test_no_two_attacks_have_the_same_name() -> None:
    assert len(BY_NAME) == len(ATTACKS)


def test_a_scene_reaches_the_attacker_s_process_unchanged() -> None:
    assert Scene.decode(SCENE.encode()) == SCENE


@pytest.mark.parametrize(("leader", "seized", "others"), [(1, 3, (1, 2)), (2, 3, (2, 1)), (3, 2, (3, 1))])
def test_the_seized_server_never_leads(leader: int, seized: int, others: tuple[int, ...]) -> None:
    scene = Scene("farm", 4.0, 7, leader, 5, 100, 95, 4)
    assert (scene.seized, scene.others) == (seized, others)


def test_the_messages_of_servers_are_of_every_kind_and_no_client_s_right() -> None:
    requests = hostile.all_of_servers(1, 3, 5, 100, (1, 2, 3))
    assert {each.type for each in requests} == {MessageType(number) for number in (1, 3, 6, 8, 10, 12, 14, 16)}
    for each in requests:
        assert User("client-any").objection(each) is not None
        assert User("server-2").objection(each) is not None
        assert read_request(encode_request(each), 0)[0] == each


@pytest.mark.parametrize("pack", hostile.bombs())
def test_a_bomb_is_small_and_unpacks_to_more_than_is_legal(pack: bytes) -> None:
    assert len(pack) < 2 << 20
    with pytest.raises(RemoteProtocolError):
        LogPack.decode(pack)


def test_the_largest_post_fills_a_request() -> None:
    value = hostile.zeros_of_json()
    assert len(json.loads(value)["up"]) > 2_000
    size = len(encode_request(hostile.largest_post(value)))
    assert MAX_ENTRIES_BYTES - len(value) - ENTRY_HEADER_BYTES < size <= MAX_ENTRIES_BYTES + 45


def test_an_oversized_head_is_taken_for_a_leader_s_request() -> None:
    request, end = read_request(hostile.oversized_head(MessageType.APPEND_ENTRIES_REQUEST, 3, 5), 0)
    assert isinstance(request, OversizedRequest)
    assert end > 2**32 - 1


@pytest.mark.slow  # three more real nodes; `make attack` has all attacks
def test_a_real_farm_bears_an_attack_and_the_row_says_so() -> None:
    command = [sys.executable, "-m", "integration.attack", "--only", "own-endpoint", "--seconds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["attack"], row["harm"]) == ("own-endpoint", [])
    assert row["acknowledged"] > 0
