"""One server's password, and claims of far terms: the farm, its newcomers and its recovery have a way on."""

from pathlib import Path

import pytest

from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.node.membership import joining
from gf_i2p.node.recovery.farm_of_one import recover
from gf_i2p.node.recovery.restore import restore
from gf_i2p.node.recovery.snapshot_copy import of_stopped
from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.database import Storage
from gf_i2p.wire.messages import MessageType, Request, Response
from tests.node.farm import NodeFarm
from tests.node.membership.test_server_changes import joins, sees


@pytest.fixture(autouse=True)
def eager_joiners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "AGAIN_SECONDS", 0.2)


async def test_after_far_claims_of_one_server_newcomers_join_and_recovery_works(tmp_path: Path) -> None:
    async with NodeFarm(tmp_path) as farm:
        await (await farm.leader()).driver.post([b"acknowledged"], seconds=20)
        await farm.stop(3)
        answers: list[Response | None] = []
        for server in (1, 2):
            term = farm.nodes[server].driver.core.term + 2**32
            claim = Request(MessageType.APPEND_ENTRIES_REQUEST, 3, server, term, 0, 0, 0)
            farm.nodes[server].driver.incoming(claim, answers.append)
        assert answers == [None, None]
        await farm.nodes[1].driver.post([b"afterwards"], seconds=20)
        await sees(await joins(farm, 4), 1, 2, 3, 4)
        for server in (1, 2, 4):
            await farm.stop(server)
        saved = of_stopped(farm.path(1))
        assert recover(farm.path(1)).term < 2**30
        assert restore(saved, farm.path(2)).term < 2**30


@pytest.mark.parametrize("term", [2**32, 2**61])
async def test_a_farm_in_a_far_term_takes_newcomers_in(tmp_path: Path, term: int) -> None:
    """As an attack on an older version has left the farm, which had no bound on the rate."""
    async with NodeFarm(tmp_path, servers=1) as farm:
        await (await farm.leader()).driver.post([b"acknowledged"], seconds=10)
        await farm.stop(1)
        database = farm.path(1) / DATABASE_FILE
        storage = Storage.open(database, cluster="farm", server_id=1)
        group = storage.group()
        group.add(Write(HardState(term, 1), 0, ()))
        storage.store(group)
        storage.close()
        recover(farm.path(1))
        await farm.start(1)
        await farm.leader()
        await sees(await joins(farm, 2), 1, 2)
