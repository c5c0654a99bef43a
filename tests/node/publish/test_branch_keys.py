"""Keys of the sets below the first one: the same on every server, from the master's key or from files."""

import time
from pathlib import Path

import pytest

from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.publish.branch_keys import NoBranchKeysError, branch_file, branch_keys, derive
from tests.netdb.strategies import KEYS


def test_they_follow_from_the_masters_own_key_and_are_all_others() -> None:
    made = [derive(KEYS, number).encode() for number in range(BRANCHES)]
    elsewhere = DestinationKeys.parse(KEYS.encode())
    assert made == [derive(elsewhere, number).encode() for number in range(BRANCHES)]
    assert len({*made, KEYS.encode()}) == BRANCHES + 1
    assert derive(DestinationKeys.generate(), 0).encode() != made[0]
    first = DestinationKeys.parse(made[0]).destination
    assert first.b32 == "rr7ajjvdqos4jltg5h4u7gbwdmmg5rptrv67vzsmwzrfy3nczvga.b32.i2p", "it must never change"


@pytest.mark.parametrize("number", [-1, BRANCHES])
def test_a_tree_has_so_many_branches(number: int) -> None:
    with pytest.raises(NoBranchKeysError, match="branches 0 to 15"):
        derive(KEYS, number)


def test_who_has_delegated_keys_needs_the_files(tmp_path: Path) -> None:
    master = tmp_path / "master.dat"
    delegated = KEYS.delegate(int(time.time()) + 3600)
    with pytest.raises(NoBranchKeysError, match="delegated"):
        derive(delegated, 1)
    keys = branch_keys(delegated, master)
    with pytest.raises(NoBranchKeysError, match=r"branch-1\.dat is missing"):
        keys(1)
    file = branch_file(master, 1)
    file.write_bytes(derive(KEYS, 1).encode())
    file.chmod(0o644)
    with pytest.raises(NoBranchKeysError, match="chmod 600"):
        keys(1)
    file.chmod(0o600)
    assert keys(1).encode() == derive(KEYS, 1).encode() == branch_keys(KEYS, master)(1).encode()
    branch_file(master, 2).write_bytes(b"no keys")
    branch_file(master, 2).chmod(0o600)
    with pytest.raises(NoBranchKeysError, match=r"branch-2\.dat is no private key file"):
        keys(2)
