"""The parts of the Debian package that need no machine to install them on."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gf_i2p.node.farm_tasks import CLOSE_SECONDS, FINISH_SECONDS, RESIGN_SECONDS
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.node import STOP_SECONDS
from integration.packages.debian import SCRIPTS, debian_version
from integration.packages.distribution import constraints

ROOT = Path(__file__).parents[2]
DEBIAN = ROOT / "packaging/debian"
UNIT = DEBIAN / "gf-i2p@.service"
MOST_EXPOSED = 2.0
"""Highest exposure of the unit that we accept, by `systemd-analyze security`: 0 is none, 10 is all."""


def unit() -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.read(UNIT)
    return read


def test_the_unit_is_exposed_to_little() -> None:
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    command = [program, "security", "--offline=true", "--no-pager", str(UNIT)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if "unknown option" in said.stderr or "unrecognized option" in said.stderr:
        pytest.skip("this systemd judges no files")
    (level,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", said.stdout)
    assert float(level) < MOST_EXPOSED


def test_the_unit_knows_the_program() -> None:
    read = unit()
    assert read["Unit"]["AssertPathExists"] == f"/var/lib/gf-i2p/%i/{CONFIG_FILE}"
    assert read["Service"]["Type"] == "notify"
    assert float(read["Service"]["WatchdogSec"]) > 0
    takes = RESIGN_SECONDS + FINISH_SECONDS + CLOSE_SECONDS + 2 * STOP_SECONDS
    assert float(read["Service"]["TimeoutStopSec"]) > takes


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_can_be_read(script: str) -> None:
    text = (DEBIAN / script).read_text()
    assert text.startswith("#!/bin/sh\nset -e\n"), "a step that fails must fail the installation"
    subprocess.run(["sh", "-n", str(DEBIAN / script)], check=True)


@pytest.mark.parametrize(
    ("before", "debian", "release"),
    [
        ("1.0.0", "1.0.0", "1.0.1"),
        ("1.0.0rc1", "1.0.0~rc1", "1.0.0"),
        ("1.0.0b2", "1.0.0~b2", "1.0.0rc1"),
        ("0.1.1.dev37", "0.1.1~dev37", "0.1.1"),
    ],
)
def test_what_comes_before_a_release_sorts_before_it(before: str, debian: str, release: str) -> None:
    assert debian_version(before) == debian
    if (dpkg := shutil.which("dpkg")) is not None:
        subprocess.run([dpkg, "--compare-versions", debian, "lt", debian_version(release)], check=True)


def test_constraints_have_each_locked_version() -> None:
    lock = (ROOT / "requirements/run.txt").read_text()
    lines = constraints(lock).splitlines()
    assert len(lines) == len(re.findall(r"^\S+==", lock, re.MULTILINE)) > 20
    assert [line for line in lines if Requirement(line).extras] == [], "pip refuses extras in constraints"
    assert any(line.startswith("cffi==") and " ; platform_python_implementation" in line for line in lines)
