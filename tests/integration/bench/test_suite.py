"""The whole measurement goes on when a system fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from integration.bench.suite import Settings, Suite
from integration.bench.systems.system import BenchError, Cluster, System
from integration.harness.processes import ProcessEndedError


async def _fail() -> None:
    raise BenchError("a writer got no answer")


@asynccontextmanager
async def _broken_cluster(directory: Path, *, cprofile: bool = False) -> AsyncIterator[Cluster]:
    if not (started := directory.parent / "started").exists():
        started.touch()
        raise ProcessEndedError("a node has ended")
    async with asyncio.TaskGroup() as group:  # as the writers of a load
        group.create_task(_fail())
    yield  # type: ignore[misc]


def test_a_repeat_that_fails_in_any_way_costs_no_other_repeat(tmp_path: Path) -> None:
    system = System("broken", "broken", 1, lambda: None, lambda: "1", _broken_cluster)
    report = Suite(Settings((system,), (), tmp_path, limits=False, repeats=3)).run()
    assert report["failures"] == [
        "broken: a node has ended",
        "broken: a writer got no answer",
        "broken: a writer got no answer",
    ]


def test_a_mistake_of_the_benchmark_is_no_failure_of_a_system(tmp_path: Path) -> None:
    def mistaken(directory: Path, *, cprofile: bool = False) -> AbstractAsyncContextManager[Cluster]:
        raise TypeError("a mistake")

    system = System("mistaken", "mistaken", 1, lambda: None, lambda: "1", mistaken)
    with pytest.raises(TypeError):
        Suite(Settings((system,), (), tmp_path, limits=False, repeats=1)).run()
