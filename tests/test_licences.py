"""The licence of every package that a node or the pipeline needs is known, and lets this program be given away."""

import re
from importlib.metadata import PackageNotFoundError, metadata

import pytest

from tests.test_requirements import pins

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "MIT",
    "MIT-0",
    "PSF-2.0",
    "Zlib",
}
"""Licences that ask for their notices only: each is compatible with this program's MIT."""
WEAK = {"MPL-2.0"}
"""Copyleft for its own files only. This program uses the package as it is, and changes none of its files."""
ALLOWED = PERMISSIVE | WEAK
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Older names, by SPDX identifier."""
_LONGEST_NAME = 40
"""Characters of the longest name; a longer text is the licence itself."""


def licence(package: str) -> str:
    """Return the licence of an installed package, by SPDX identifiers; "" when the package tells none."""
    data = metadata(package)
    if "License-Expression" in data:
        return data["License-Expression"]
    told = next(iter(data.get_all("License") or []), "")
    if not 0 < len(told) <= _LONGEST_NAME:
        classes = [line.rpartition(" :: ")[2] for line in data.get_all("Classifier") or [] if "License ::" in line]
        told = " OR ".join(NAMES.get(each, each) for each in classes)
    return NAMES.get(told, told)


def is_allowed(expression: str) -> bool:
    """Whether this program may use a package of this licence: one side of OR is enough, AND needs all sides."""
    return any(
        all(part.strip(" ()") in ALLOWED for part in re.split(r"\bAND\b", side))
        for side in re.split(r"\bOR\b", expression)
    )


@pytest.mark.parametrize("file", ["run", "spark"])
def test_the_licence_of_every_package_is_known_and_allowed(file: str) -> None:
    found = {}
    for package in pins(file):
        try:
            found[package] = licence(package)
        except PackageNotFoundError:  # for another system, or not installed with what is tested
            continue
    assert len(found) > 20
    assert not {package: told for package, told in found.items() if not is_allowed(told)}


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND MIT", True),
        ("GPL-3.0-only OR (MIT AND Zlib)", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-2.0-only", False),
        ("", False),
        ("UNKNOWN", False),
    ],
)
def test_licences_that_would_bind_this_program_are_noticed(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed
