"""Runs the commands of each page whose place is this machine, without routers.

Pages of the lab are for `integration/scenarios/test_pages.py`, inside a network of real routers. Pages for several
machines are for `integration/scenarios/test_machine_pages.py`. The page on containers is for
`integration/containers/test_page.py`, the page of the clean root for `integration/packages/test_install_page.py`.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.pages.page import read_page
from integration.pages.programs import only_what_a_reader_has
from integration.pages.session import Session
from tests.tier import mostly_slow

ROOT = Path(__file__).parents[2]
PLACES = ("machine", "lab", "lab with its farm", "machines", "containers", "clean root")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ON_THIS_MACHINE = [str(path.relative_to(ROOT)) for path in PAGES if read_page(path).place == "machine"]
QUICK = "README.md"
"""The fewest commands that show that the runner and a farm work."""


@pytest.fixture
def ports() -> Iterator[None]:
    """Wait for the pages of other test processes: the pages of a reader all use the same few ports."""
    with (Path(tempfile.gettempdir()) / f"gf-pages-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("ports")
@pytest.mark.parametrize("name", mostly_slow(ON_THIS_MACHINE, QUICK))
def test_a_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    page = read_page(ROOT / name)
    place, programs = tmp_path / "empty", tmp_path / "programs"
    place.mkdir()
    environment = {
        "PATH": only_what_a_reader_has(page, programs),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    with Session(place, environment) as session:
        session.run(page)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_page_with_commands_says_where_these_run(path: Path) -> None:
    place = read_page(path).place
    assert place in PLACES or place.startswith("nowhere: "), path
