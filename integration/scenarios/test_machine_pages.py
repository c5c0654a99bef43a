"""Follows the pages with the place `machines`, word for word, on three machines and at the reader's own desk.

To run one page, with the seconds of each command:

    GF_I2P_TIER=all python -m integration.scenarios -rP \\
      "integration/scenarios/test_machine_pages.py::test_a_page_on_machines[tutorials/three-routers.md]"
"""

import asyncio
import time
from pathlib import Path
from typing import Final

import pytest

from integration.pages.page import read_page
from integration.scenarios.machine_pages import NAMES, PLACE, followed
from integration.testnet.machines import Machines
from integration.testnet.router_network import RouterNetwork

DOCS: Final = Path(__file__).parents[2] / "docs"
ON_MACHINES: Final = sorted(
    str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if read_page(path).place == PLACE
)


@pytest.mark.slow  # minutes a page: tunnels, and lease sets that end
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ON_MACHINES)
async def test_a_page_on_machines(network: RouterNetwork, tmp_path: Path, name: str) -> None:
    began = time.monotonic()
    async with Machines(network, tmp_path / "machines", list(NAMES.values())) as machines:
        print(f"all routers have tunnels after {time.monotonic() - began:.0f} s")
        by_place = {place: machines.by_name[name] for place, name in NAMES.items()}
        async with followed(read_page(DOCS / name), by_place, {"PYTHONPATH": str(DOCS.parent)}) as page:
            began = time.monotonic()
            await asyncio.to_thread(page.run)
            print(f"{name}: {time.monotonic() - began:.0f} s")
