"""An administrator in a network namespace of their own, who sees and changes a farm through I2P only.

The namespace has a router and `admin-far.toml`, as `gf-i2p init` has written that file. No way leads from there to the
farm's servers but the routers' network. The output has the seconds of each command.
"""

import asyncio
import json
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.file_names import DESTINATION_FILE
from integration.harness.commands import command
from integration.harness.lease_set_check import ByHand
from integration.harness.local_farm import PROGRAM, until
from integration.harness.processes import listens
from integration.testnet.bridge import ADDRESS as BRIDGE_ADDRESS
from integration.testnet.far_place import FarPlace
from integration.testnet.i2cp_tap import I2cpTap
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import PROXY_PORT
from integration.testnet.router_network import RouterNetwork

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # minutes until all servers have reported

SECONDS: Final = 240.0
LISTED_SECONDS: Final = 480.0
FIRST_PORT: Final = 4190
_CSRF: Final = re.compile(r'name="csrf" value="([^"]+)"')


def _processor_seconds() -> float:
    """Return the processor time of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True, slots=True)
class FarSite:
    """A farm of three servers, and the administrator's place."""

    farm: I2pFarm
    taps: dict[int, I2cpTap]
    far: FarPlace
    admin: Path
    """The administrator's file."""

    async def said(self, *words: str, after: Sequence[str] = ()) -> dict[str, Any]:
        """Run a command at the administrator's place; print its time, and return the JSON.

        `words`: the command. `after`: the arguments behind the file.
        """
        began, used = time.monotonic(), _processor_seconds()
        answer = await command(*words, self.admin, *after, may_be=(Exit.OK, Exit.DEGRADED), where=self.far.where)
        line = " ".join(["gf-i2p", *words, self.admin.name, *after])
        print(f"{time.monotonic() - began:6.2f} s  {line}  ({_processor_seconds() - used:.2f} s of a processor)")
        return answer

    async def administrations(self) -> dict[int, dict[str, Any]]:
        """Return each server's own view of the administrators' changes, asked on the server's machine."""
        answers = {}
        for server in self.farm.ids:
            node = self.farm.node(server)
            answers[server] = await local_client.request(node, "GET", "/v1/administration", seconds=30)
        return answers

    async def all_servers(self, what: str, holds: Callable[[dict[str, Any]], bool], seconds: float = SECONDS) -> None:
        """Wait until all servers' own views are so; print how long it took after the command."""

        async def seen() -> bool:
            self.farm.check()
            try:
                return all(map(holds, (await self.administrations()).values()))
            except CommandError:
                return False

        await self._until(what, seen, seconds)

    async def given(self, what: str, wanted: Callable[[int, ByHand], bool], seconds: float = SECONDS) -> ByHand:
        """Wait until the newest set that a router was given is a wanted one; return that set."""
        found: list[ByHand] = []

        async def seen() -> bool:
            self.farm.check()
            sets = [(server, tap.given[-1]) for server, tap in self.taps.items() if tap.given]
            server, newest = max(sets, key=lambda each: each[1].published, default=(0, None))
            if newest is not None and wanted(server, newest):
                found.append(newest)
            return bool(found)

        await self._until(what, seen, seconds)
        return found[0]

    async def _until(self, what: str, seen: Callable[[], Awaitable[bool]], seconds: float) -> None:
        began = time.monotonic()
        try:
            await until(what, seconds, seen, poll=0.2)
        except AssertionError:
            print(await self.administrations(), self.farm.complaints(), sep="\n")
            raise
        print(f"          {what}: seen {time.monotonic() - began:.1f} s later")

    def leaf(self, server: int) -> bytes:
        """Return the hash of a server's leaf, which is the server's own address."""
        return DestinationKeys.parse((self.farm.node(server) / DESTINATION_FILE).read_bytes()).destination.hash

    @property
    def leaves(self) -> set[bytes]:
        """The hashes of all leaves."""
        return {self.leaf(server) for server in self.farm.ids}


@pytest_asyncio.fixture
async def site(network: RouterNetwork, tmp_path: Path) -> AsyncIterator[FarSite]:
    """The farm with a leader, and a far router with tunnels that has never heard of the farm."""
    routers = [router for router in network.routers if not router.floodfill][-3:]
    async with AsyncExitStack() as stack:
        taps = {n: await stack.enter_async_context(I2cpTap(router)) for n, router in enumerate(routers, 1)}
        farm = stack.enter_context(
            I2pFarm(tmp_path / "farm", routers, password=network.password, admins=["far"], first_port=FIRST_PORT)
        )
        farm.place(themselves=True, i2cp={server: tap.address for server, tap in taps.items()})
        farm.start_all()
        began = time.monotonic()
        far = await stack.enter_async_context(FarPlace(network, tmp_path / "far"))
        print(f"the far router has tunnels {time.monotonic() - began:.1f} s after its start")
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        admin = Path(shutil.copy2(farm.directory / "admin-far.toml", home))
        proxy = ClientFile.load(admin).proxy
        assert proxy is not None
        assert (proxy.host, proxy.port) == ("127.0.0.1", PROXY_PORT), "the file is as init has written it"
        await farm.leader(SECONDS)
        yield FarSite(farm, taps, far, admin)


async def test_an_administrator_in_another_namespace_sees_and_changes_all_through_i2p(
    network: RouterNetwork, site: FarSite
) -> None:
    print(
        f"processes that want a processor, in the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    )
    await no_direct_way(network, site)
    await sees(site)
    everyone = site.leaves
    first = await site.given("a set of all leaves", lambda _, each: set(each.leaves) == everyone, LISTED_SECONDS)
    assert (await site.said("explain"))["farm"]["publisher"] in site.farm.ids
    await excludes_and_includes(site, first)
    await publishes(site)
    await has_the_leader_step_down(site)
    await is_told_the_events(site)
    await changes_on_the_page(site)
    await is_answered_by_another_server(site)


async def no_direct_way(network: RouterNetwork, site: FarSite) -> None:
    """Every direct TCP connection to a node's listener fails from the administrator's place."""
    assert [route.split()[0] for route in site.far.routes] == ["198.18.0.0/16"], site.far.routes
    hosts = ["127.0.0.1", BRIDGE_ADDRESS, *(router.address for router in site.farm.routers.values())]
    hosts += [f"198.18.{10 + router.number}.1" for router in site.farm.routers.values()]
    for server in site.farm.ids:
        port = FIRST_PORT + server
        assert await listens("127.0.0.1", port), "the node listens, and this namespace reaches it"
        for host in hosts:
            trouble = await site.far.trouble(host, port)
            assert trouble is not None, f"{host}:{port} is reached without I2P"
    for router in network.routers:
        assert await site.far.trouble(router.address, PROXY_PORT) is not None, f"{router.address} is reached"
    print(f"no direct way from the far namespace to a listener: {len(hosts)} addresses tried for each server")


async def sees(site: FarSite) -> None:
    """`status` and `members list` say what the servers say on their own machines."""
    leader = await site.farm.leader(SECONDS)
    status = await site.said("status")
    assert status["leader"] == leader
    assert sorted(each["id"] for each in status["servers"]) == list(site.farm.ids)
    await site.said("status")
    assert (await site.said("members", "list"))["leader"] == leader


async def excludes_and_includes(site: FarSite, before: ByHand) -> None:
    """An excluded leaf leaves the set that the routers are given, and an included one comes back."""
    hash_ = site.leaf(2)
    address = to_b32_address(hash_)
    everyone = site.leaves

    def leaf_of(answer: dict[str, Any]) -> dict[str, Any]:
        return next((each for each in answer["leaves"] if each["address"] == address), {})

    said = await site.said("leaves", "exclude", after=[address, "--reason", "repairs"])
    assert said["leaf"]["excluded"]["by"] == "admin-far"
    await site.all_servers("all servers leave the leaf out", lambda answer: leaf_of(answer)["listed"] is False)
    less = await site.given("a set without the leaf", lambda _, each: set(each.leaves) == everyone - {hash_})
    assert less.published > before.published
    await site.said("leaves", "include", after=[address])
    await site.all_servers("all servers list the leaf", lambda answer: leaf_of(answer)["listed"] is True)
    await site.given("a set with the leaf", lambda _, each: set(each.leaves) == everyone)


async def publishes(site: FarSite) -> None:
    """`publish-now`, `move` and `release` change what the servers give their routers."""
    publisher = (await site.said("publisher", "show"))["publisher"]
    ordered = await site.said("publisher", "publish-now", after=["--reason", "a test"])
    assert ordered["publisher"] == publisher
    await site.given(
        "the ordered set",
        lambda server, each: server == publisher and each.published * 1000 >= ordered["last_published"],
    )
    other = next(server for server in site.farm.ids if server != publisher)
    moved = await site.said("publisher", "move", after=[str(other)])
    assert (moved["publisher"], moved["moved_to"]) == (other, other)
    await site.all_servers(
        f"server {other} publishes, say all servers",
        lambda answer: (answer["publisher"], answer["moved_to"]) == (other, other),
    )
    await site.given(f"a set of server {other}", lambda server, _: server == other)
    assert (await site.said("publisher", "release"))["moved_to"] is None
    await site.all_servers("the farm chooses, say all servers", lambda answer: answer["moved_to"] is None)


async def has_the_leader_step_down(site: FarSite) -> None:
    before = await site.farm.leader(SECONDS)
    after = (await site.said("members", "stepdown"))["leader"]
    assert after != before, "another server leads, or none yet"
    began = time.monotonic()
    leader = await site.farm.leader(SECONDS)
    assert leader != before
    print(f"          server {leader} leads, say all servers: seen {time.monotonic() - began:.1f} s later")


async def is_told_the_events(site: FarSite) -> None:
    """The answering server tells of the changes. Events of the leader are the answering server's own."""
    texts = [each["text"] for each in (await site.said("events"))["events"]]
    for word in ("(repairs)", "(a test)", "release"):
        assert any(text.startswith("admin-far: ") and word in text for text in texts), (word, texts)
    log = (await site.said("farm", "log"))["log"]
    assert {each["by"] for each in log} == {"admin-far"}


async def changes_on_the_page(site: FarSite) -> None:
    """The page of `gf-i2p console` works over loopback at the administrator's place."""
    began = time.monotonic()
    subject = str(site.farm.ids[0])
    async with (
        console(site) as link,
        site.far.web(cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=aiohttp.ClientTimeout(total=SECONDS)) as web,
    ):
        print(f"{time.monotonic() - began:6.2f} s  gf-i2p console {site.admin.name}: until it prints the link")
        assert not await listens("127.0.0.1", int(link.split(":")[2].split("/")[0])), (
            "the page is in that namespace only"
        )
        asked = partial(page, web)
        room, text = await asked("the link, which leads to the page", link)
        assert all(f'href="server?id={server}"' in text for server in site.farm.ids), text
        _, text = await asked("the page of a server", f"{room}server?id={subject}")
        _, text = await asked("the question before a change", f"{room}confirm?action=drain&subject={subject}")
        found = _CSRF.search(text)
        assert found is not None, text
        fields = {"action": "drain", "subject": subject, "reason": "by the page"}
        async with web.post(f"{room}change", data={**fields, "csrf": "guessed"}) as refused:
            assert refused.status == 403
        assert not any(any(s["drained"] for s in each["servers"]) for each in (await site.administrations()).values())
        began = time.monotonic()
        async with web.post(f"{room}change", data={**fields, "csrf": found[1]}, allow_redirects=False) as changed:
            assert changed.status == 303, await changed.text()
        print(f"{time.monotonic() - began:6.2f} s  page: the change, confirmed")
        await site.all_servers(
            f"server {subject} is drained, say all servers",
            lambda answer: (
                next(each for each in answer["servers"] if str(each["id"]) == subject)["drained"] is not None
            ),
        )
        _, text = await asked("the page after the change", room)
        assert "by the page" in text


async def is_answered_by_another_server(site: FarSite) -> None:
    """The first server of the file is dead, so another server answers and takes changes."""
    first = ClientFile.load(site.admin).servers[0].id
    site.farm.kill(first)
    print(f"          server {first}, the first of the file, is killed")
    assert (await site.said("status"))["id"] != first
    await site.farm.leader(SECONDS)
    assert (await site.said("status"))["id"] != first
    assert (await site.said("publisher", "undrain", after=[str(first)]))["index"] > 0
    assert (await site.said("members", "stepdown"))["leader"] != first


async def page(web: aiohttp.ClientSession, what: str, url: str) -> tuple[str, str]:
    """Load a page; print its time, and return where it is and its text."""
    began = time.monotonic()
    async with web.get(url) as response:
        text = await response.text()
        assert response.status == 200, text
        print(f"{time.monotonic() - began:6.2f} s  page: {what}")
        return str(response.url.with_query(None)), text


@asynccontextmanager
async def console(site: FarSite) -> AsyncIterator[str]:
    """Run `gf-i2p console` at the administrator's place; yield the link."""
    words = [*site.far.where, sys.executable, *PROGRAM, "console", str(site.admin), "--json"]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            line = await process.stdout.readline()
        yield json.loads(line)["link"]
    finally:
        process.terminate()
        await process.wait()
