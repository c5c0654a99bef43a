"""The page that shows how to install the Debian package, followed word by word in a clean Debian.

A page with `<!-- run: clean root -->` starts in the home of a user who may do all by sudo. The package lies there.

To run the page, with its seconds:

    make packages PYTEST_ARGS="-k test_install_page -s"
"""

import time
from pathlib import Path

import pytest

from integration.packages.clean_root import HOMES, CleanRoot
from integration.packages.programs import ROOT
from integration.pages.page import read_page
from integration.pages.session import Session

DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if read_page(path).place == "clean root")
USER = "owner"
NAME_ON_THE_PAGES = "gf-i2p_1.0.0_amd64.deb"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_a_clean_root(package: Path, root: CleanRoot, name: str) -> None:
    home = f"{HOMES}/{USER}"
    place = root.add_administrator(USER)
    root.bring(package, home, NAME_ON_THE_PAGES)
    began = time.monotonic()
    with Session(Path(home), place=place) as session:
        session.run(read_page(DOCS / name))
    print(f"{name}: {time.monotonic() - began:.0f} s")
