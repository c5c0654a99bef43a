"""The measures of a cluster beside loads, on a cluster without processes."""

from collections.abc import Sequence

import pytest

from integration.bench import measures
from integration.bench.systems.system import BenchError, ClusterProcess, SystemClient


class Killed:
    """A cluster of three nodes with one log. A node that was killed begins again behind, and nears the end."""

    def __init__(self) -> None:
        self._all = [ClusterProcess(f"node-{number}", number) for number in (1, 2, 3)]
        self._applied: dict[str, int] = {}
        self.nodes: list[ClusterProcess] = list(self._all)
        self.end = 0
        self.killed: list[str] = []
        self.refusals = 0
        """Posts that fail after the end of the leader."""
        self.refused = 0

    async def leader(self) -> ClusterProcess:
        return self.nodes[0]

    def kill(self, node: ClusterProcess) -> None:
        self.nodes.remove(node)
        self.killed.append(node.name)

    def restart(self, node: ClusterProcess) -> ClusterProcess:
        again = ClusterProcess(node.name, node.pid + 10)
        self._applied[again.name] = 0
        self.nodes.append(again)
        return again

    async def position(self, node: ClusterProcess) -> int | None:
        if node.name not in self._applied:
            return self.end
        self._applied[node.name] += max(1, self.end // 3)
        return min(self.end, self._applied[node.name])

    async def connect(self, leader: ClusterProcess) -> SystemClient:
        assert leader == self.nodes[0]
        return self

    async def connect_beside(self, leader: ClusterProcess) -> SystemClient:
        assert leader == self.nodes[0]
        return self

    async def post(self, values: Sequence[bytes]) -> int:
        if self.killed and self.refused < self.refusals:
            self.refused += 1
            raise ConnectionError("no leader")
        self.end += len(values)
        return self.end

    async def close(self) -> None:
        pass


async def test_a_follower_that_was_away_takes_over_all_entries() -> None:
    cluster = Killed()
    seconds = await measures.catch_up(cluster)
    assert cluster.killed == ["node-2"]
    assert cluster.end == 100_000
    assert seconds > 0
    assert await cluster.position(cluster.nodes[-1]) == cluster.end


async def test_the_end_of_a_leader_lasts_until_a_post_is_accepted() -> None:
    cluster = Killed()
    cluster.refusals = 3
    seconds = await measures.fail_over(cluster)
    assert cluster.killed == ["node-1"]
    assert cluster.refused == 3
    assert cluster.end == 2  # one entry before, and one after
    assert seconds >= 3 * 0.005
    assert len(cluster.nodes) == 3


async def test_a_cluster_that_never_accepts_again_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Killed()
    cluster.refusals = 10**9
    monkeypatch.setattr(measures, "_PATIENCE", 0.05)
    with pytest.raises(BenchError, match="No entry was accepted within 0 s: no leader"):
        await measures.fail_over(cluster)
