"""A farm's master as a leaf of another farm: the configured master, and whether the farm below serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gf_i2p.farm.choice.nested_farms import MAX_DEPTH
from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.record.destinations import META_TYPE
from gf_i2p.farm.record.status_record import Leaf, ReportedConfig, StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.listener import Tenant
from gf_i2p.node.report.leaf_farm import LISTED_MS, ElsewhereFarm, HostedFarm, check_nesting, target_of
from gf_i2p.wire.endpoint import Endpoint
from tests.farm.strategies import MASTER, NOW, leaf, record
from tests.node.routers import FakeBridge

OTHER = DestinationKeys.generate().destination
THIRD = DestinationKeys.generate().destination


# The leaf's identity ------------------------------------------------------------------------------------------------


def tenant(directory: Path, name: str, leaf_farm: str | None = None) -> Tenant:
    where = directory / name / "server-1"
    if not where.exists():
        make_farm(directory / name, {1: Endpoint("127.0.0.1", 20_001)}, cluster=name, profile="lan", clients=[])
        text = (where / CONFIG_FILE).read_text()
        lines = "" if leaf_farm is None else f'leaf_farm = "{leaf_farm}"\n'
        (where / CONFIG_FILE).write_text(f"{text}[router]\n[publish]\n{lines}")
    return Tenant(where, Config.load(where))


def test_a_farm_is_named_by_its_directory_or_by_its_masters_address(tmp_path: Path) -> None:
    a = tenant(tmp_path, "a", "../../b/server-1")
    b = replace(tenant(tmp_path, "b"), master=MASTER)
    c = tenant(tmp_path, "c", MASTER.b32.upper())
    d = tenant(tmp_path, "d", OTHER.b32)
    every = [a, b, c, d]
    assert [target_of(each, every) for each in every] == [b, None, b, OTHER.b32]
    check_nesting(every)
    with pytest.raises(
        ConfigError, match=r"does not run in this process: name it, too, as in `gf-i2p run .*a/server-1 "
    ):
        target_of(a, [a])


def test_a_circle_is_refused_with_its_way(tmp_path: Path) -> None:
    a, b = tenant(tmp_path, "a", "../../b/server-1"), tenant(tmp_path, "b", "../../c/server-1")
    c, d = tenant(tmp_path, "c", "../../a/server-1"), tenant(tmp_path, "d", "../../a/server-1")
    with pytest.raises(ConfigError, match=r"a/server-1 → .*b/server-1 → .*c/server-1 → .*a/server-1 is a circle"):
        check_nesting([d, a, b, c])
    with pytest.raises(ConfigError, match=r"e/server-1 → .*e/server-1 is a circle"):
        check_nesting([tenant(tmp_path, "e", "../server-1")])
    f = replace(tenant(tmp_path, "f", OTHER.b32), master=OTHER)
    with pytest.raises(ConfigError, match=r"f/server-1 → .*f/server-1 is a circle"):
        check_nesting([f])


def test_two_servers_of_one_farm_are_one_farm(tmp_path: Path) -> None:
    one = replace(tenant(tmp_path, "one", "../../below/server-1"), master=MASTER)
    below = replace(tenant(tmp_path, "below", "../../two/server-1"), master=OTHER)
    two = replace(tenant(tmp_path, "two"), master=MASTER)
    with pytest.raises(ConfigError, match=r"is a circle"):
        check_nesting([one, below, two])
    check_nesting([one, below, replace(two, master=THIRD)])


def test_too_deep_is_refused(tmp_path: Path) -> None:
    chain = [tenant(tmp_path, f"f{at}", f"../../f{at + 1}/server-1") for at in range(MAX_DEPTH + 1)]
    chain.append(tenant(tmp_path, f"f{MAX_DEPTH + 1}"))
    check_nesting(chain[1:])
    with pytest.raises(ConfigError, match=r"more than 8 farms lie one below another"):
        check_nesting(chain)


def test_the_configuration_names_one_leaf_and_has_a_router(tmp_path: Path) -> None:
    where = tenant(tmp_path, "a", OTHER.b32).directory
    text = (where / CONFIG_FILE).read_text()
    (where / CONFIG_FILE).write_text(text.replace("[router]\n", ""))
    with pytest.raises(ConfigError, match=r"router: is missing, and publish.leaf_farm needs it"):
        Config.load(where)
    (where / CONFIG_FILE).write_text(f'{text}leaf = "{THIRD.b32}"\n')
    with pytest.raises(ConfigError, match=r"publish.leaf_farm: cannot stand beside publish.leaf"):
        Config.load(where)


# Whether the farm below serves --------------------------------------------------------------------------------------


@dataclass
class FakeFarm:
    records: Mapping[int, StatusRecord] = field(default_factory=dict)
    has_leader: bool = True
    master: bytes | None = None

    @property
    def choice(self) -> Choice:
        state = FarmState("farm")
        state.configure(self.records)
        for index, each in enumerate(self.records.values(), 1):
            state.apply(each.encode(), index)
        return state.choice


def publishing(
    *leaves: Leaf, server: int = 1, age_ms: int = 60_000, sent: bool = True, mode: str = "meta"
) -> StatusRecord:
    found = record(server, *leaves, published=NOW - age_ms)
    assert found.meta is not None
    meta = replace(found.meta, publishing=True, sent_ms=NOW - age_ms + 15_000 if sent else 0)
    return replace(found, meta=meta, config=ReportedConfig(mode))


async def told(farm: FakeFarm | None) -> tuple[Leaf | None, str | None]:
    hosted = HostedFarm("b/server-1", lambda: farm)
    return await hosted.leaf(), hosted.trouble


async def test_a_farm_that_publishes_leaves_is_a_leaf_that_is_up() -> None:
    expected = Leaf(MASTER.hash, up=True, type=META_TYPE, depth=1)
    assert await told(FakeFarm({1: publishing(leaf(5))})) == (expected, None)
    below = Leaf(OTHER.hash, up=True, type=META_TYPE, below=(THIRD.hash,), depth=2)
    found, trouble = await told(FakeFarm({1: publishing(leaf(5)), 2: record(2, below)}))
    assert found == replace(expected, below=tuple(sorted((OTHER.hash, THIRD.hash))), depth=3)
    assert trouble is None
    # If the farm below is served as an ordinary destination, the entry is an ordinary one.
    assert await told(FakeFarm({1: publishing(mode="failover")})) == (Leaf(MASTER.hash, up=True), None)


@pytest.mark.parametrize(
    ("farm", "why"),
    [
        (FakeFarm({1: publishing(leaf(5))}, has_leader=False), "it has no leader"),
        (FakeFarm({1: publishing(leaf(5, up=False))}), "none of its leaves is up"),
        (FakeFarm({1: record(1, leaf(5))}), "nothing is published yet"),
        (FakeFarm({1: publishing(leaf(5), sent=False)}), "nothing is published yet"),
        (FakeFarm({1: publishing(leaf(5), age_ms=LISTED_MS + 1)}), "published last has expired"),
        (FakeFarm({1: record(1, leaf(5), publish="off")}, master=MASTER.hash), "it has no publisher"),
        (
            FakeFarm({1: publishing(leaf(5), Leaf(OTHER.hash, up=True, type=META_TYPE, depth=MAX_DEPTH))}),
            "more than 8 farms would lie one below another",
        ),
    ],
)
async def test_a_farm_that_serves_nobody_is_a_leaf_that_is_down(farm: FakeFarm, why: str) -> None:
    found, trouble = await told(farm)
    assert found is not None
    assert (found.hash, found.up, found.type) == (MASTER.hash, False, META_TYPE)
    assert trouble is not None
    assert trouble.startswith("the farm in b/server-1: ")
    assert why in trouble


async def test_what_a_router_has_taken_serves_whoever_publishes_next() -> None:
    farm = FakeFarm({1: publishing(leaf(5)), 2: record(2, leaf(6))})
    hosted = HostedFarm("b/server-1", lambda: farm)
    ups = []
    for records in (
        {1: publishing(leaf(5)), 2: record(2, leaf(6))},
        {1: publishing(leaf(5), age_ms=0, sent=False), 2: record(2, leaf(6))},  # the next version is announced
        {1: record(1, publish="off"), 2: record(2, leaf(6))},  # another one publishes
        {2: publishing(leaf(6), server=2, age_ms=0, sent=False)},
        {2: publishing(leaf(6), server=2, age_ms=0)},
    ):
        farm.records = records
        found = await hosted.leaf()
        assert found is not None
        ups.append((found.up, hosted.trouble))
    assert ups == [(True, None)] * 5
    # An ordinary destination exists only where the publisher serves the destination.
    farm.records = {2: replace(record(2, leaf(6)), config=ReportedConfig("failover"))}
    found = await hosted.leaf()
    assert found is not None
    assert not found.up


async def test_a_farm_that_does_not_run_is_down_and_still_known() -> None:
    runs: list[FakeFarm | None] = [None, FakeFarm({1: publishing(leaf(5))}), None]
    hosted = HostedFarm("b/server-1", lambda: runs.pop(0))
    seen = [(await hosted.leaf(), hosted.trouble) for _ in range(3)]
    assert [found for found, _ in seen] == [
        None,
        Leaf(MASTER.hash, up=True, type=META_TYPE, depth=1),
        Leaf(MASTER.hash, up=False, type=META_TYPE),
    ]
    first, second, third = [trouble or "" for _, trouble in seen]
    assert ("not known yet" in first, second, "does not run here now" in third) == (True, "", True)


async def test_of_a_farm_elsewhere_we_know_what_the_router_finds() -> None:
    bridge = FakeBridge()
    elsewhere = ElsewhereFarm(to_b32_address(OTHER.hash), bridge)
    assert await elsewhere.leaf() == Leaf(OTHER.hash, up=True, type=META_TYPE)
    troubles = [elsewhere.trouble]
    bridge.leaf_up = False
    assert await elsewhere.leaf() == Leaf(OTHER.hash, up=False, type=META_TYPE)
    troubles.append(elsewhere.trouble)
    assert troubles[0] is None
    assert f"does not find {OTHER.b32}. i2pd finds no Meta lease set" in str(troubles[1])
