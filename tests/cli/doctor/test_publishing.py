"""Findings of doctor about the keys and settings by which a node publishes."""

import time
from pathlib import Path

import pytest

from gf_i2p.cli.doctor.checks import CheckState
from gf_i2p.cli.doctor.publishing import keys_result
from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, MASTER_FILE
from gf_i2p.node.publish.branch_keys import branch_file, derive
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.storage.private_files import Lock, write_private
from tests.bridges.simulated_i2pcontrol import body
from tests.cli.routers import Place, RunningNode, ScriptedRouter, having, remedy
from tests.transport.harness import Identity

NOW = 1_800_000_000
DAY = 86_400


@pytest.mark.parametrize(
    ("expires", "state", "text"),
    [
        (NOW + 30 * DAY, "ok", "until 2027-02-14 08:00 UTC (30 days left)"),
        (NOW + 2 * DAY, "warn", "(2 days left)"),
        (NOW + 3600, "warn", "(1 hour left)"),
        (NOW, "fail", "expired on 2027-01-15 08:00 UTC"),
    ],
)
def test_delegated_keys_expire(expires: int, state: str, text: str) -> None:
    result = keys_result(PublishingKeys(DestinationKeys.generate().delegate(expires)), NOW, server=1)
    assert result.state == state
    assert text in result.text
    assert keys_result(PublishingKeys(DestinationKeys.generate()), NOW, server=1).state is CheckState.OK


def test_keys_of_another_server() -> None:
    keys = PublishingKeys.delegate(DestinationKeys.generate(), NOW + 90 * DAY, NOW, server=2)
    assert keys_result(keys, NOW, server=2).state is CheckState.OK
    result = keys_result(keys, NOW, server=3)
    assert result.state is CheckState.WARN
    assert "made for server 2, and this is server 3" in result.text
    assert result.remedy is not None
    assert "--server 3" in result.remedy.i2pd


@pytest.mark.parametrize("java", [False, True])
async def test_delegated_keys_and_the_router(tmp_path: Path, identity: Identity, java: bool) -> None:
    async with ScriptedRouter(identity, java=java) as router:
        place = Place(tmp_path, router)
        place.write_master(place.master.delegate(2**32 - 1))
        async with RunningNode(place.directory):
            found = await place.look()
    if java:
        assert having(CheckState.FAIL, found) == {}
    else:
        assert set(having(CheckState.FAIL, found)) == {"publishing"}
        assert "without the signed session config that i2pd needs" in found["publishing"].text
        assert "gf-i2p keys delegate" in remedy(found["publishing"])


@pytest.mark.parametrize("java", [False, True])
async def test_every_router_takes_what_keys_delegate_makes(tmp_path: Path, identity: Identity, java: bool) -> None:
    now = int(time.time())
    async with ScriptedRouter(identity, java=java) as router:
        place = Place(tmp_path, router)
        made = PublishingKeys.delegate(place.master, now + 90 * DAY + 3600, now, server=1)
        (place.directory / MASTER_FILE).write_bytes(made.encode())
        async with RunningNode(place.directory):
            found = await place.look()
    assert having(CheckState.FAIL, found) == {}
    assert found["master keys"].state is CheckState.OK
    assert "(90 days left)" in found["master keys"].text


async def test_keys_that_are_missing_or_shared(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory):
            (place.directory / MASTER_FILE).chmod(0o644)
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"master keys"}
            assert f"chmod 600 {place.directory / MASTER_FILE}" in remedy(found["master keys"])
            assert found["publishing"].text == "not looked at: this check needs master keys"
            (place.directory / MASTER_FILE).unlink()
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"master keys"}
            place.change(CONFIG_FILE, ('mode = "meta"', 'mode = "meta"\npublish = "off"'))
            found = await place.look()
            assert having(CheckState.FAIL, found) == {}
            assert found["publishing"].text.endswith('(publish = "off"); its leaf is listed')
            assert "master keys" not in found
            (place.directory / MASTER_FILE).touch(mode=0o644)
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"master keys"}, "keys for a later permission to publish"
            (place.directory / MASTER_FILE).unlink()
            place.change(CONFIG_FILE, ('mode = "meta"\npublish = "off"', 'mode = "off"'))
            found = await place.look()
    assert having(CheckState.FAIL, found) == {}
    assert found["publishing"].text.startswith("off: ")


@pytest.mark.parametrize("mode", ["off", "dry-run"])
async def test_entries_that_the_endpoint_signs_are_published_all_the_same(
    tmp_path: Path, identity: Identity, mode: str
) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        place.change(CONFIG_FILE, ('mode = "meta"', f'mode = "{mode}"'))
        async with RunningNode(place.directory):
            alone = (await place.look())["publishing"].text
            assert "bridge serve" not in alone
            place.change(CONFIG_FILE, ("# [bridge]", "[bridge]"), ("# sign_entries", "sign_entries"))
            found = await place.look()
    assert having(CheckState.FAIL, found) == {}
    assert found["publishing"].text == (
        f"{alone}; but gf-i2p bridge serve publishes the entries of programs (sign_entries in [bridge])"
    )


async def test_leaves_that_cannot_be(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        leaf = place.leaf.destination.b32
        router.i2cp.netdb[place.master.destination.hash] = place.master.destination
        async with RunningNode(place.directory):
            for other, text in ((place.master.destination.b32, "the master itself"), (place.own, "this node itself")):
                place.change(CONFIG_FILE, (f'leaf = "{leaf}"', f'leaf = "{other}"'))
                found = await place.look()
                assert set(having(CheckState.FAIL, found)) == {"publishing"}
                assert text in found["publishing"].text
                leaf = other
            place.change(CONFIG_FILE, (f'leaf = "{leaf}"', "# none"))
            found = await place.look()
    assert "leaf" not in found
    assert set(having(CheckState.WARN, found)) == {"publishing"}
    assert "names no leaf" in found["publishing"].text


async def test_each_of_several_leaves_is_looked_for(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        other = DestinationKeys.generate().destination
        place.change(CONFIG_FILE, ("# [[publish.leaves]]", f'[[publish.leaves]]\nleaf = "{other.b32}"\n#'))
        async with RunningNode(place.directory):
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"leaf 2"}
            assert f"{other.b32} has no current lease set" in found["leaf 2"].text
            assert place.leaf.destination.b32 in found["leaf 1"].text
            router.i2cp.netdb[other.hash] = other
            assert having(CheckState.FAIL, await place.look()) == {}
            place.change(CONFIG_FILE, (other.b32, place.own))
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) >= {"publishing"}
            assert "this node itself" in found["publishing"].text


@pytest.mark.parametrize("tree", ["best", "tree", None])
async def test_delegated_keys_and_the_sets_below_the_first_one(
    tmp_path: Path, identity: Identity, tree: str | None
) -> None:
    now = int(time.time())
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        async with RunningNode(place.directory, tree=tree):
            found = await place.look()
            assert found["branch keys"].text == "the branch keys follow from the master's own key"
            made = PublishingKeys.delegate(place.master, now + 90 * DAY, now, server=1)
            (place.directory / MASTER_FILE).write_bytes(made.encode())
            found = await place.look()
            if tree is None:
                assert found["branch keys"].state is CheckState.SKIP
            elif tree == "best":
                assert having(CheckState.FAIL, found) == {}
                assert "not needed" in found["branch keys"].text
            else:
                assert set(having(CheckState.FAIL, found)) == {"branch keys"}
                assert "branch-0.dat is missing" in found["branch keys"].text
                for words in ("keys delegate … --branches", "farm set tree=best"):
                    assert words in remedy(found["branch keys"])
                for number in range(BRANCHES):
                    write_private(
                        branch_file(place.directory / MASTER_FILE, number), derive(place.master, number).encode()
                    )
                found = await place.look()
                assert found["branch keys"].text == "branch-0.dat to branch-15.dat are there (tree = tree)"
                branch_file(place.directory / MASTER_FILE, 9).chmod(0o644)
                assert set(having(CheckState.FAIL, await place.look())) == {"branch keys"}


async def test_a_farm_below_runs_in_the_same_process(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        leaf = f'leaf = "{place.leaf.destination.b32}"'
        place.change(CONFIG_FILE, (leaf, 'leaf_farm = "../other/server-1"'))
        below = tmp_path / "other" / "server-1"
        found = await place.look()
        assert set(having(CheckState.FAIL, found)) == {"leaf farm"}
        assert f"{below} is not a node's directory" in found["leaf farm"].text
        make_farm(tmp_path / "other", dict.fromkeys((1, 2, 3)), cluster="other", profile="i2p", clients=[])
        found = await place.look()
        assert found["leaf farm"].text.endswith(f"(gf-i2p run {place.directory} {below})")
        async with RunningNode(place.directory):
            found = await place.look()
            assert set(having(CheckState.FAIL, found)) == {"leaf farm"}
            assert "does not run in this node's process" in found["leaf farm"].text
            lock = Lock(below / DATABASE_FILE)
            try:
                found = await place.look()
            finally:
                lock.close()
            assert having(CheckState.FAIL, found) == {}
            assert found["leaf farm"].text.endswith("which runs in the same process")
            place.change(CONFIG_FILE, ("../other/server-1", place.leaf.destination.b32))
            found = await place.look()
            assert found["leaf farm"].state is CheckState.OK


async def test_a_leaf_by_the_name_of_its_tunnel(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = Place(tmp_path, router)
        place.change(
            CONFIG_FILE,
            (f'leaf = "{place.leaf.destination.b32}"', 'leaf = "check"'),
            ("\ni2pcontrol_fingerprint", "\ni2pcontrol_few_tunnels = true\ni2pcontrol_fingerprint"),
        )
        services = router.control.recording.result("ClientServicesInfo", "I2PTunnel")
        address = services["I2PTunnel"]["server"]["check"]["address"]
        async with RunningNode(place.directory):
            found = await place.look()
            text = f"{address} has no current lease set: nobody reaches this leaf"
            assert having(CheckState.FAIL, found) == {"leaf": text}
            place.change(CONFIG_FILE, ("\ni2pcontrol = ", "\n# i2pcontrol = "))
            place.change(CONFIG_FILE, ("\ni2pcontrol_fingerprint", "\n# i2pcontrol_fingerprint"))
            found = await place.look()
    assert body(router.control.requests[-1])["method"] == "ClientServicesInfo"
    assert set(having(CheckState.FAIL, found)) == {"configuration"}
    assert "'check' is no b32 address" in found["configuration"].text
