"""Runs the documentation pages with the place `lab`, as a reader of each page does in the shell of `make lab`.

A page with `<!-- run: lab -->` starts in an empty directory, inside the private network of eight i2pd routers. Routers
0 to 3 are floodfills, and nobody's node is beside the other routers. The page may use the words of the lab's shell:
`routers` prints the table of routers, and `beside DIR N` puts a server beside router N. One shell runs the whole page,
so that jobs (`… &`, `kill %1`), variables and `cd` work. A hidden comment may bring a farm up for the page; the proxy
of router N is 127.0.1.(10 + N):4444.

A page with `<!-- run: lab with its farm -->` also has the farm of `make lab`, in mode `meta` with a set that was sent.
Its directories are `server-1` to `server-3`, beside the routers 5 to 7.

To run one page, with the page's seconds:

    make scenarios SCENARIO_ARGS="-s integration/scenarios/test_pages.py::test_a_page_in_the_lab[tutorials/lab.md]"
"""

import contextlib
import time
from pathlib import Path
from typing import Final

import pytest

from integration.harness.local_farm import until
from integration.pages.page import read_page
from integration.pages.programs import only_what_a_reader_has
from integration.pages.session import Session
from integration.runs.lab_shell import lab_environment
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router_network import RouterNetwork

DOCS: Final = Path(__file__).parents[2] / "docs"
SERVERS: Final = 3
PATIENCE: Final = 720.0
"""Seconds for a command to print what the page shows: new tunnels may be needed, and old lease sets must end. Both last
ten minutes."""
IN_THE_LAB: Final = sorted(
    str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if read_page(path).place.startswith("lab")
)


@pytest.mark.slow  # minutes a page: tunnels, and lease sets that end
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", IN_THE_LAB)
async def test_a_page_in_the_lab(network: RouterNetwork, tmp_path: Path, name: str) -> None:
    page = read_page(DOCS / name)
    place, files, programs = tmp_path / "lab", tmp_path / "files", tmp_path / "programs"
    files.mkdir()
    environment = {
        **lab_environment(files, network.routers),
        "PATH": only_what_a_reader_has(page, programs),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(DOCS.parent),
    }
    async with contextlib.AsyncExitStack() as stack:
        if page.place == "lab with its farm":
            farm = I2pFarm(place, network.routers[-SERVERS:], password=network.password)
            farm.place(themselves=True)
            stack.enter_context(farm)
            farm.start_all()

            async def published() -> bool:
                farm.check()
                told = [await farm.status(server) for server in farm.ids]
                return any(each is not None and each["farm"]["publishing"] is not None for each in told)

            await until("the lab's farm publishes", PATIENCE, published, poll=0.5)
        else:
            place.mkdir()
        began = time.monotonic()
        with Session(place, environment, patience=PATIENCE) as session:
            session.run(page)
            print(f"{name}: {time.monotonic() - began:.0f} s")
