"""The network that every scenario runs in; and the word to `__main__.py` about what became of each."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.scenarios.__main__ import OUTCOMES_VARIABLE
from integration.testnet.client import Network

pytest_plugins = ["tests.conftest"]


@pytest_asyncio.fixture
async def network() -> AsyncIterator[Network]:
    """The private I2P network around us."""
    found = Network.here()
    if found is None:
        pytest.skip("no private I2P network around us: start these with `make scenarios`")
    async with found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if (told := os.environ.get(OUTCOMES_VARIABLE)) is None:
        return
    stats = terminalreporter.stats
    failed = list(dict.fromkeys(each.nodeid for each in stats.get("failed", []) + stats.get("error", [])))
    passed = [each.nodeid for each in stats.get("passed", []) if each.nodeid not in failed]
    Path(told).write_text(json.dumps({"passed": passed, "failed": failed}))
