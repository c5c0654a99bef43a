import shutil
from pathlib import Path

import pytest

from integration.pages.page import read_page
from integration.pages.programs import only_what_a_reader_has

pytestmark = pytest.mark.skipif(
    None in (shutil.which("dpkg-query"), shutil.which("curl")), reason="needs Debian's list of packages, and curl"
)


def reader_has(directory: Path, place: str, text: str = "") -> set[str]:
    page, programs = directory / "page.md", directory / "programs"
    page.write_text(f"# A page\n\n<!-- run: {place} -->\n\n{text}\n\n```console\n$ true\n```\n")
    environment, linked = only_what_a_reader_has(read_page(page), programs).split(":")
    assert (Path(environment) / "gf-i2p").exists()
    assert linked == str(programs)
    return {each.name for each in programs.iterdir() if each.exists()}


def test_a_reader_has_the_programs_of_a_bare_debian(tmp_path: Path) -> None:
    found = reader_has(tmp_path, "machine")
    assert found >= {"bash", "ls", "sed", "grep", "awk", "git", "make", "python3"}
    assert not found & {"curl", "java", "ps", "i2pd"}


def test_a_reader_has_what_the_page_says_to_install(tmp_path: Path) -> None:
    assert "curl" in reader_has(tmp_path, "machine", "On Debian: `sudo apt-get install git curl`.")


def test_a_reader_in_the_lab_has_what_make_lab_installs(tmp_path: Path) -> None:
    assert {"curl", "ip", "unshare"} <= reader_has(tmp_path, "lab")
