"""The output of a long run that cannot go on."""

import argparse
import asyncio
import json
from typing import Any

import pytest

from integration.harness.local_farm import NotSeenError
from integration.harness.long_run import Figures, conclude


def conclude_after(error: Exception, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    async def task() -> None:
        raise error

    async def work() -> Figures:
        async with asyncio.TaskGroup() as group:
            group.create_task(task())
        return {}

    code = conclude(argparse.Namespace(json=True), "test", work, limit=60)
    return code, json.loads(capsys.readouterr().out)


def test_an_obstacle_in_a_group_of_tasks_is_told_as_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    nested = ExceptionGroup("inner", [NotSeenError("no leader within 10 s")])
    assert conclude_after(nested, capsys) == (1, {"ok": False, "error": "no leader within 10 s"})


def test_a_defect_beside_an_obstacle_stays_a_defect(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ExceptionGroup):
        conclude_after(ExceptionGroup("both", [NotSeenError("no leader"), KeyError("defect")]), capsys)
