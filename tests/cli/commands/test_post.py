"""`gf-i2p post` on a node that cannot commit."""

from pathlib import Path

from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, gf, gf_json


async def test_a_post_that_waits_says_what_the_farm_lacks(tmp_path: Path) -> None:
    with LocalFarm(tmp_path) as farm:
        farm.start(1)

        async def answers() -> bool:
            return await farm.status(1) is not None

        await until("the node answers", PATIENCE, answers)
        code, _, error = await gf("post", farm.node(1), "x", "--timeout", "3")
        assert code == 3
        assert "not committed yet, waiting 3 s at most. No quorum: 1 of 3 servers are reached" in error
        assert "Missing: 2, 3." in error
        code, answer = await gf_json("post", farm.node(1), "x", "--timeout", "3")
        assert (code, answer["outcome"]) == (3, "no")
