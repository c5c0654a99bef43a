"""`docker/parts.py` lists Python's and Debian's packages of an image, on a made-up image."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docker" / "parts.py"
OS_RELEASE = 'NAME="Some Linux"\nID=debian\nVERSION_ID="12"\n'
STATUS = """\
Package: libsome1
Status: install ok installed
Architecture: amd64
Source: some (1.0)
Version: 1:1.0+deb12u1
Description: a library
 Status: of nothing

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 2.0

Package: other
Status: hold ok installed
Architecture: all
Version: 3.0
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with the program and one package."""
    made = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    (packages,) = made.glob("lib/python*/site-packages")
    for name, version, licence in (("gf-i2p", "1.2.3", "MIT"), ("h11", "0.16.0", "MIT-0")):
        folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        head = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: {licence}\n"
        (folder / "METADATA").write_text(head)
    return made


def test_a_list_has_the_packages_of_python_and_of_debian(environment: Path, tmp_path: Path) -> None:
    files = {"status": STATUS, "os-release": OS_RELEASE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    places = [str(environment), str(ROOT / "pyproject.toml"), *(str(tmp_path / name) for name in files)]
    subprocess.run([sys.executable, SCRIPT, *places, str(tmp_path / "parts")], check=True, timeout=120)
    text = (tmp_path / "parts").read_text()
    assert make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6).validate_str(text) is None
    parts = json.loads(text)
    program = parts["metadata"]["component"]
    assert (program["name"], program["version"]) == ("gf-i2p", "1.2.3")
    assert program["licenses"][0]["license"]["id"] == "MIT"
    assert [(each["name"], each["version"]) for each in parts["components"]] == [
        ("h11", "0.16.0"),
        ("debian", "12"),
        ("libsome1", "1:1.0+deb12u1"),
        ("other", "3.0"),
    ]
    assert parts["components"][0]["licenses"]


def test_a_package_of_debian_names_its_source() -> None:
    _, some, other = runpy.run_path(str(SCRIPT))["debian_parts"](STATUS, OS_RELEASE)
    assert some["purl"] == "pkg:deb/debian/libsome1@1:1.0%2Bdeb12u1?arch=amd64&distro=debian-12&upstream=some"
    assert other["purl"] == "pkg:deb/debian/other@3.0?arch=all&distro=debian-12"


def test_a_debian_without_a_version_is_listed_too() -> None:
    system, *_ = runpy.run_path(str(SCRIPT))["debian_parts"]("", "ID=debian\n")
    assert (system["name"], system["version"]) == ("debian", "unstable")
