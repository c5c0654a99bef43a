"""Trees of Meta lease sets, through real i2pd routers to floodfills.

The tests have sets below sets, entries of two types with costs, a leaf of a leaf member, the commands of a remote
administrator, and a farm below a farm. A tap before each router's I2CP shows the entries of the sets; the consoles
show the sets that the floodfills hold. Times are printed, not asserted.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from bridges.errors import RouterError
from bridges.sam.client import Sam, SamSession
from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.netdb.encoding import from_b32_address, to_b32_address
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import DESTINATION_FILE
from gf_i2p.node.files.leaf_file import LEAF_FILE, REPORT_FILE
from gf_i2p.node.publish.branch_keys import derive
from integration.harness.commands import command
from integration.harness.lease_set_check import META, ByHand
from integration.harness.local_farm import PROGRAM, becomes, until
from integration.harness.processes import Processes, tail
from integration.scenarios.lease_set_lookup import is_found
from integration.testnet.i2cp_tap import I2cpTap
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import I2CP_PORT, PROXY_PORT, SAM_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace

pytestmark = pytest.mark.timeout(2400)

LEAF: Final = 3
COST: Final = 7
FLOODFILLS: Final = 3
"""Floodfills that must hold a set. i2pd gives a set to one floodfill, which passes the set on to at most three."""
SECONDS: Final = 240.0
LISTED_SECONDS: Final = 480.0
"""A leaf that was once not found must stay up for two minutes to be listed, and for four the next time."""
TUNNELS: Final = {"inbound.length": "1", "outbound.length": "1", "inbound.quantity": "4", "outbound.quantity": "2"}


def replace(path: Path, changes: dict[str, str]) -> None:
    """Change a file that a command has written."""
    text = path.read_text()
    for old, new in changes.items():
        assert old in text, f"{path.name} has no {old}"
        text = text.replace(old, new)
    path.write_text(text)


class Watch:
    """Prints each event with the seconds since the start and since the event before."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def seen(self, what: str) -> None:
        now = time.monotonic()
        print(f"{now - self._began:6.1f} s  (+{now - self._last:5.1f})  {what}", flush=True)
        self._last = now


@dataclass(frozen=True, slots=True)
class Tree:
    """A first set, and the branches of the same version in the first set. The router gets the branches first."""

    top: ByHand
    branches: tuple[ByHand, ...]

    @classmethod
    def last(cls, given: Sequence[ByHand], master: bytes) -> "Tree | None":
        """Find the last tree that a router was given."""
        tops = [number for number, each in enumerate(given) if each.hash == master]
        if not tops:
            return None
        top = given[tops[-1]]
        before = {each.hash: each for each in given[: tops[-1]]}
        leads_to = {entry.hash for entry in top.entries if entry.type == META}
        return cls(top, tuple(before[hash_] for hash_ in sorted(leads_to & before.keys())))

    @property
    def sets(self) -> tuple[ByHand, ...]:
        """All sets of the tree, beginning with the first set."""
        return (self.top, *self.branches)

    @property
    def leaves(self) -> list[bytes]:
        """The leaves that clients reach through the tree."""
        return sorted(entry.hash for each in self.sets for entry in each.entries if entry.type == LEAF)

    @property
    def costs(self) -> dict[bytes, int]:
        """Cost of each entry in the sets below the first set."""
        return {entry.hash: entry.cost for branch in self.branches for entry in branch.entries}

    def check(self) -> None:
        """Assert the rules that hold for every tree."""
        for branch in self.branches:
            assert branch.published == self.top.published
            (entry,) = (entry for entry in self.top.entries if entry.hash == branch.hash)
            assert entry.cost == min(below.cost for below in branch.entries)
        assert {entry.hash for entry in self.top.entries if entry.type == META} == {b.hash for b in self.branches}


async def held(network: RouterNetwork, sets: Sequence[ByHand]) -> bool:
    """Whether enough floodfills hold all these sets, recognised by the time of expiry."""
    for each in sets:
        ends = [int(found.expires.timestamp()) for found in (await network.holders(each.b32, META)).values()]
        if ends.count(each.expires) < FLOODFILLS:
            return False
    return True


class TreeSite:
    """Three servers, and a leaf member beside another router."""

    def __init__(
        self, network: RouterNetwork, farm: I2pFarm, taps: dict[int, I2cpTap], member: Path, watch: Watch
    ) -> None:
        self.network = network
        self.farm = farm
        self.taps = taps
        self.member = member
        self.member_leaf = b""
        self.watch = watch

    @property
    def admin(self) -> Path:
        """File of the administrator, who uses the member's router."""
        return self.farm.directory / "admin-far.toml"

    @property
    def leaves(self) -> list[bytes]:
        """The leaves of all servers and of the member."""
        files = [self.farm.node(server) / DESTINATION_FILE for server in self.farm.ids]
        return sorted(
            [DestinationKeys.parse(file.read_bytes()).destination.hash for file in files] + [self.member_leaf]
        )

    def given(self) -> tuple[int, Tree] | None:
        """Return the server that has given a router the newest first set, and the tree."""
        master = self.farm.master.destination.hash
        trees = [(server, Tree.last(tap.given, master)) for server, tap in self.taps.items()]
        found = [(server, tree) for server, tree in trees if tree is not None]
        return max(found, key=lambda each: each[1].top.published, default=None)

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]], *, seconds: float = SECONDS) -> None:
        """Wait for the condition. On failure, print the farm's state and all logs."""
        try:
            await until(what, seconds, condition, poll=0.5)
        except AssertionError:
            print(self.given(), await administration(self.farm, 1), self.farm.complaints(), sep="\n")
            print(
                "the member:", tail(self.member / "member.log", 3000), tail(self.member / REPORT_FILE, 3000), sep="\n"
            )
            raise

    async def member_is_healthy(self) -> bool:
        """Whether the member reports health. The farm lists the leaf before the member hears of the commit."""
        try:
            said = await command("leaf", "status", self.member, may_be=(Exit.OK, Exit.DEGRADED))
        except AssertionError as error:  # the member has written no report yet
            print(error)
            return False
        return bool(said["healthy"])

    async def published(self, what: str, wanted: Callable[[int, Tree], bool]) -> tuple[int, Tree]:
        """Wait until floodfills hold a wanted tree; return the publishing server's id and the tree."""
        found: list[tuple[int, Tree]] = []

        async def seen() -> bool:
            self.farm.check()
            given = self.given()
            found[:] = [] if given is None or not wanted(*given) else [given]
            return bool(found) and await held(self.network, found[0][1].sets)

        await self.until(what, seen)
        server, tree = found[0]
        self.watch.seen(f"{FLOODFILLS} floodfills hold {what}; server {server} has published it")
        tree.check()
        return server, tree


@pytest_asyncio.fixture
async def site(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[TreeSite]:
    """A farm with running servers and a running member, whose leaf is up."""
    apart, *routers = [router for router in network.routers if not router.floodfill][-4:]
    watch = Watch()
    async with AsyncExitStack() as stack:
        taps = {n: await stack.enter_async_context(I2cpTap(router)) for n, router in enumerate(routers, 1)}
        farm = stack.enter_context(I2pFarm(tmp_path / "farm", routers, password=network.password, admins=["far"]))
        farm.place(themselves=True, i2cp={server: tap.address for server, tap in taps.items()})
        farm.start_all()
        keys = DestinationKeys.generate()
        opening = asyncio.create_task(opened(apart, keys))
        stack.callback(opening.cancel)
        member = await invite(farm, tmp_path / "invited", apart, keys)
        leaf = await opening
        stack.callback(leaf.close)
        # If the member's first record reports the leaf as down, the farm lists the leaf late.
        await until("its router finds the member's leaf", SECONDS, lambda: is_found(apart, keys), poll=0.5)
        watch.seen("the member's leaf is up")
        replace(farm.directory / "admin-far.toml", {"127.0.0.1": apart.address})
        processes = stack.enter_context(Processes())
        processes.spawn("member", [sys.executable, *PROGRAM, "leaf", "run", str(member)], member / "member.log")
        await farm.leader(SECONDS)
        watch.seen("the servers have a leader")
        made = TreeSite(network, farm, taps, member, watch)
        made.member_leaf = keys.destination.hash
        yield made
        processes.check()


async def opened(router: RouterPlace, leaf: DestinationKeys) -> SamSession:
    """Make a leaf's session. A busy router may need several requests."""
    made: list[SamSession] = []

    async def tried() -> bool:
        try:
            made.append(await Sam(router.address, SAM_PORT).session(leaf, TUNNELS))
        except RouterError as error:
            print(error)
        return bool(made)

    await until("the member's leaf has a session", LISTED_SECONDS, tried, poll=1.0)
    return made[0]


async def invite(farm: I2pFarm, into: Path, router: RouterPlace, leaf: DestinationKeys) -> Path:
    """Invite a new member to a running farm; return the member's directory."""
    first, *others = farm.ids
    for server in farm.ids:  # the command reloads the configuration, so the server must answer

        async def runs(server: int = server) -> bool:
            farm.check()
            return await farm.status(server) is not None

        await until(f"server {server} answers", SECONDS, runs)
    invited = await command("members", "invite-leaf", farm.node(first), "--into", into)
    assert invited["reloaded"]
    for server in others:
        assert (await command("members", "accept", farm.node(server), invited["accept"]))["reloaded"]
    directory = Path(invited["member"])
    replace(
        directory / LEAF_FILE,
        {
            f"127.0.0.1:{PROXY_PORT}": f"{router.address}:{PROXY_PORT}",
            f"127.0.0.1:{SAM_PORT}": f"{router.address}:{SAM_PORT}",
            f"127.0.0.1:{I2CP_PORT}": f"{router.address}:{I2CP_PORT}",
            '# leaf = "....b32.i2p"': f'leaf = "{leaf.destination.b32}"',
        },
    )
    return directory


@pytest.mark.slow  # minutes until a tree is whole
async def test_a_tree_with_a_members_leaf_obeys_an_administrator_from_afar(site: TreeSite) -> None:
    farm, watch, leaf = site.farm, site.watch, to_b32_address(site.member_leaf)
    said = await command("farm", "set", site.admin, "tree=tree", "maxEntries=2")
    watch.seen(f"an administrator has asked for a tree from afar, at index {said['index']}")
    said = await command("leaves", "cost", site.admin, leaf, str(COST))
    watch.seen(f"and has set a cost, at index {said['index']}")

    async def all_listed() -> bool:
        farm.check()
        return await listed(farm, 1) == site.leaves

    await site.until("all leaves are listed, the member's too", all_listed, seconds=LISTED_SECONDS)
    watch.seen("the leaves of three servers and of the member are listed")
    await site.until("the member knows that it is listed", site.member_is_healthy)

    def of_all_leaves(_: int, tree: Tree) -> bool:
        """Skip an earlier tree, from before the new cost."""
        return len(tree.branches) == 2 and tree.leaves == site.leaves and tree.costs.get(site.member_leaf) == COST

    publisher, tree = await site.published("a tree of all leaves", of_all_leaves)
    masters = [derive(farm.master, number).destination.hash for number in range(2)]
    assert [(entry.hash, entry.type) for entry in tree.top.entries] == [(hash_, META) for hash_ in masters]
    assert [len(branch.entries) for branch in tree.branches] == [2, 2]
    assert tree.costs[site.member_leaf] == COST
    kept = {farm.master.destination.hash, *masters}
    await becomes("all of it is kept", lambda: site.taps[publisher].kept == kept, SECONDS)

    ordered = await command("publisher", "publish-now", site.admin)
    watch.seen(f"the administrator has ordered a new set, and it was announced, at index {ordered['index']}")
    await site.published("the ordered tree", lambda _, tree: tree.top.published * 1000 >= ordered["last_published"])

    await command("leaves", "exclude", site.admin, leaf, "--reason", "repairs")
    watch.seen("the administrator has excluded the member's leaf")
    without = [leaf for leaf in site.leaves if leaf != site.member_leaf]
    again, less = await site.published("a tree without it", lambda _, tree: tree.leaves == without)
    assert again == publisher
    assert less.top.published > tree.top.published

    farm.kill(publisher)
    watch.seen("the publisher is killed")
    other, newer = await site.published("another server's tree", lambda server, _: server != publisher)
    assert newer.top.published > max(each.published for each in site.taps[publisher].given)
    assert {branch.hash for branch in newer.branches} <= set(masters)
    assert site.member_leaf not in newer.leaves

    await command("farm", "unset", farm.node(other), "tree", "maxEntries")
    last, plain = await site.published("one set, and none below it", lambda _, tree: not tree.branches)
    assert site.member_leaf not in plain.leaves
    kept = {farm.master.destination.hash}
    await becomes("what was below it is kept no more", lambda: site.taps[last].kept == kept, SECONDS)


async def listed(farm: I2pFarm, server: int) -> list[bytes]:
    """Return the leaves that a server's farm lists; none while the server does not answer."""
    answer = await administration(farm, server)
    return sorted(from_b32_address(leaf["address"]) for leaf in answer.get("leaves", ()) if leaf["listed"])


async def administration(farm: I2pFarm, server: int) -> dict[str, Any]:
    """Return a server's leaves and parameters; an empty answer while the server does not answer."""
    try:
        answer: dict[str, Any] = await local_client.request(farm.node(server), "GET", "/v1/administration", seconds=10)
    except CommandError:
        return {}
    return answer


@pytest.mark.slow  # minutes until a tree is whole
async def test_a_farm_below_a_farm_in_one_process(network: RouterNetwork, tmp_path: Path) -> None:
    router, watch = network.routers[-1], Watch()
    async with AsyncExitStack() as stack:
        tap = await stack.enter_async_context(I2cpTap(router))
        below = stack.enter_context(I2pFarm(tmp_path / "below", [router], password=network.password))
        below.place(themselves=True, i2cp={1: tap.address})
        above = stack.enter_context(
            I2pFarm(tmp_path / "above", [router], password=network.password, cluster="above", beside=below)
        )
        above.place(i2cp={1: tap.address})
        processes, log = stack.enter_context(Processes()), tmp_path / "node.log"
        words = [sys.executable, *PROGRAM, "run", str(above.node(1)), str(below.node(1))]
        processes.spawn("two farms", words, log)
        masters = [farm.master.destination.hash for farm in (above, below)]

        async def published() -> bool:
            processes.check()
            trees = [Tree.last(tap.given, master) for master in masters]
            return None not in trees and await held(network, [tree.top for tree in trees if tree is not None])

        try:
            await until("both masters' sets", LISTED_SECONDS, published, poll=0.5)
        except AssertionError:
            print(tail(log, 6000))
            raise
        watch.seen(f"{FLOODFILLS} floodfills hold the sets of both farms")
        upper, lower = (Tree.last(tap.given, master) for master in masters)
        assert upper is not None
        assert lower is not None
        leaf = DestinationKeys.parse((below.node(1) / DESTINATION_FILE).read_bytes()).destination.hash
        assert [(entry.hash, entry.type) for entry in lower.top.entries] == [(leaf, LEAF)]
        assert [(entry.hash, entry.type) for entry in upper.top.entries] == [(masters[1], META)]
        # No entry leads to a missing set: the lower set was given before the upper set.
        assert next(each.hash for each in tap.given) == masters[1]
