"""The list of parts in each image of the program: valid CycloneDX, and the same as what the image has installed."""

import json
from typing import Any

import pytest
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator

from integration.containers.engine import Engine
from integration.containers.images import SPARK

LABEL = "gf-i2p.parts"
IMAGES = [
    "gf-i2p-node",
    "gf-i2p-testnet",
    pytest.param(SPARK, marks=pytest.mark.slow),
]  # only `test-all` builds Spark's
PROGRAM = "gf-i2p"
PYTHON_PARTS = """
from importlib.metadata import distributions
for each in distributions():
    print(each.metadata["Name"], each.version)
"""
DEBIAN_PARTS = "${db:Status-Status} ${Package} ${Version}\n"


def in_image(engine: Engine, image: str, *command: str) -> str:
    """Run a command in a fresh container of the image; return what the command prints."""
    program, *words = command
    return engine.run("run", "--rm", "--network", "none", "--entrypoint", program, image, *words)


def components(parts: dict[str, Any], kind: str) -> set[tuple[str, str]]:
    """Return name and version of each part of a kind: `pypi` or `deb`."""
    begin = f"pkg:{kind}/"
    return {(each["name"], each["version"]) for each in parts["components"] if each.get("purl", "").startswith(begin)}


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_lists_all_that_is_installed(engine: Engine, image: str) -> None:
    place = engine.inspect(image)["Config"]["Labels"][LABEL]
    text = in_image(engine, image, "cat", place)
    assert make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6).validate_str(text) is None
    parts = json.loads(text)

    program = parts["metadata"]["component"]
    assert program["licenses"][0]["license"]["id"] == "MIT"
    installed = in_image(engine, image, "/opt/gf-i2p/bin/python", "-c", PYTHON_PARTS).splitlines()
    python = {(name, version) for name, version in (line.split() for line in installed)}
    assert components(parts, "pypi") | {(program["name"], program["version"])} == python
    assert (PROGRAM, program["version"]) in python

    lines = in_image(engine, image, "dpkg-query", "--show", "--showformat", DEBIAN_PARTS).splitlines()
    debian = {(name, version) for state, name, version in (line.split() for line in lines) if state == "installed"}
    assert components(parts, "deb") == debian
    print(f"\n{image}: {len(python)} packages of Python, {len(debian)} of Debian, {len(text) / 1e3:.0f} kB", flush=True)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_neither_pip_nor_the_program_that_makes_the_list(engine: Engine, image: str) -> None:
    names = ["-iname", "pip", "-o", "-iname", "cyclonedx*", "-o", "-name", "lister"]
    assert in_image(engine, image, "find", "/opt", "/usr/lib/python3", *names) == ""
