"""Findings of doctor about mode `failover`: the local service, and the session that serves the local service."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gf_i2p.cli.doctor.checks import CheckState
from gf_i2p.node.files.file_names import CONFIG_FILE, MASTER_FILE
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from integration.harness.processes import free_ports
from tests.cli.routers import Place, RunningNode, ScriptedRouter, having, remedy
from tests.transport.harness import Identity

DAY = 86_400


class FailoverPlace(Place):
    """A directory in mode `failover`."""

    def __init__(self, directory: Path, router: ScriptedRouter) -> None:
        super().__init__(directory, router)
        (self.port,) = free_ports(1)
        self.change(
            CONFIG_FILE,
            ('mode = "meta"', 'mode = "failover"'),
            ("# [publish.service]", "[publish.service]"),
            ('# target = "127.0.0.1:8080"', f'target = "127.0.0.1:{self.port}"'),
            (f'leaf = "{self.leaf.destination.b32}"', "# no leaf"),
        )

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", self.port):
            yield

    def delegates(self, **service: str) -> None:
        now = int(time.time())
        made = PublishingKeys.delegate(self.master, now + 90 * DAY, now, server=1, service=service)
        (self.directory / MASTER_FILE).write_bytes(made.encode())


async def test_the_local_service_must_answer(tmp_path: Path, identity: Identity) -> None:
    async with ScriptedRouter(identity) as router:
        place = FailoverPlace(tmp_path, router)
        async with RunningNode(place.directory):
            async with place.served():
                found = await place.look()
            assert having(CheckState.FAIL, found) == having(CheckState.WARN, found) == {}, "no leaf is asked for"
            assert found["service"].text == f"127.0.0.1:{place.port} answers"
            b32 = place.master.destination.b32
            assert found["publishing"].text == f"serves {b32} when chosen, by 127.0.0.1:{place.port}"
            assert "branch keys" not in found
            found = await place.look()
    assert set(having(CheckState.FAIL, found)) == {"service"}
    assert "[publish.service] target" in remedy(found["service"])


@pytest.mark.parametrize("java", [False, True])
async def test_an_i2pd_goes_by_the_options_that_the_master_has_signed(
    tmp_path: Path, identity: Identity, java: bool
) -> None:
    async with ScriptedRouter(identity, java=java) as router:
        place = FailoverPlace(tmp_path, router)
        async with RunningNode(place.directory), place.served():
            session = '[publish.service.session]\n"inbound.length" = "2"\n"inbound.quantity" = "4"\n'
            path = place.directory / CONFIG_FILE
            path.write_text(path.read_text().replace("\n[[servers]]", f"\n{session}\n[[servers]]", 1))
            found = await place.look()
            assert found["service session"].text == "2 options from [publish.service.session]", (
                "the master's own key signs any"
            )
            place.delegates()
            found = await place.look()
            if java:
                assert found["service session"].text == "2 options from [publish.service.session]"
                return
            assert set(having(CheckState.WARN, found)) == {"service session"}
            assert (
                "[publish.service.session] says inbound.length = 2, but an i2pd follows"
                in found["service session"].text
            )
            assert "gf-i2p keys delegate … --option inbound.length=2, where" in remedy(found["service session"])
            place.delegates(**{"inbound.length": "2"})
            found = await place.look()
    assert having(CheckState.WARN, found) == {}
    assert found["service session"].text == "the options that the master has signed"
