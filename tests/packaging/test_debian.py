"""The parts of the Debian package that need no machine to install them on."""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gf_i2p.node.farm_tasks import CLOSE_SECONDS, FINISH_SECONDS, RESIGN_SECONDS
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.files.templates import GITIGNORE, GITIGNORE_OF_SERVER
from gf_i2p.node.node import STOP_SECONDS
from integration.packages.debian import HOME, RESTART, SCRIPTS, debian_version, leaf_unit
from integration.packages.distribution import clear, constraints
from integration.packages.programs import PackageError

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


def test_the_unit_of_a_leaf_member_has_the_same_limits() -> None:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.read_string(leaf_unit(UNIT.read_text()))
    assert read["Unit"]["AssertPathExists"] == "/var/lib/gf-i2p/%i/leaf.toml"
    assert read["Service"]["ExecStart"] == "/usr/bin/gf-i2p leaf run /var/lib/gf-i2p/%i"
    servers, members = dict(unit()["Service"]), dict(read["Service"])
    signs = {"notifyaccess", "execreload", "watchdogsec", "timeoutstartsec", "timeoutstopsec"}
    assert servers.keys() - members.keys() == signs, "a member sends systemd no signs"
    assert {name for name in members if members[name] != servers[name]} == {"type", "execstart"}


def test_a_changed_unit_of_servers_changes_the_leaf_members() -> None:
    with pytest.raises(PackageError, match="0 lines like"):
        leaf_unit(UNIT.read_text().replace("Type=notify", "Type=simple"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_can_be_read(script: str) -> None:
    text = (DEBIAN / script).read_text()
    assert text.startswith("#!/bin/sh\nset -e\n"), "a step that fails must fail the installation"
    subprocess.run(["sh", "-n", str(DEBIAN / script)], check=True)


def run_script(directory: Path, script: str, action: str, **programs: str) -> tuple[list[str], str]:
    """Run a maintainer script beside programs that are made up; return the calls of these, and what was said.

    The script has hardly an environment, as under dpkg, and other paths than those of the machine.
    """
    called, folder = directory / "called", directory / "programs"
    folder.mkdir()
    called.touch()
    for name, text in programs.items():
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{called}\n{text}\n')
        (folder / name).chmod(0o755)
    text = (DEBIAN / script).read_text()
    for place, there in {
        "/run/systemd/system": directory,
        "/var/lib/gf-i2p": directory / "state",
        "/etc/systemd/system": directory / "units",
        "/usr/bin/python3": folder / "python3",
    }.items():
        text = text.replace(place, str(there))
    done = subprocess.run(
        ["sh", "-c", text, script, action],
        env={"PATH": f"{folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return called.read_text().splitlines(), done.stderr


def test_an_upgrade_restarts_the_servers_when_all_else_is_done(tmp_path: Path) -> None:
    calls, said = run_script(tmp_path, "postinst", "configure", getent="", install="", systemctl="", python3="")
    assert calls[-2:] == ["systemctl daemon-reload", f"python3 -I /{HOME / RESTART}"]
    assert said == ""


def test_an_upgrade_is_done_when_its_restarts_fail(tmp_path: Path) -> None:
    said = run_script(tmp_path, "postinst", "configure", getent="", install="", systemctl="", python3="exit 1")[1]
    assert "gf-i2p: not all servers were restarted" in said


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, False),
        ({".gitignore": GITIGNORE}, False),
        ({".gitignore": GITIGNORE_OF_SERVER}, False),
        ({".gitignore": "# of the operator\n"}, True),
        ({".gitignore": GITIGNORE, "server-1": "keys"}, True),
        ({"server-1": "keys"}, True),
    ],
)
def test_a_purge_removes_a_directory_with_nothing_of_the_operator(
    tmp_path: Path, files: dict[str, str], left: bool
) -> None:
    (tmp_path / "state").mkdir()
    for name, text in files.items():
        (tmp_path / "state" / name).write_text(text)
    calls, said = run_script(tmp_path, "postrm", "purge", getent="", userdel="", systemctl="")
    assert (tmp_path / "state").exists() is left
    assert ("userdel gf-i2p" not in calls) is left
    assert ("the user gf-i2p stay" in said) is left
    assert {path.name for path in tmp_path.glob("state/*")} == (set(files) if left else set())


def test_a_purge_does_not_wait_for_a_pipe_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    os.mkfifo(tmp_path / "state/.gitignore")
    said = run_script(tmp_path, "postrm", "purge", getent="", userdel="", systemctl="")[1]
    assert "the user gf-i2p stay" in said


@pytest.mark.parametrize(("script", "action"), [("postinst", "configure"), ("postrm", "remove")])
def test_a_systemd_that_does_not_answer_stops_no_package(tmp_path: Path, script: str, action: str) -> None:
    calls = run_script(tmp_path, script, action, getent="", install="", systemctl="exit 1", python3="")[0]
    assert "systemctl daemon-reload" in calls


@pytest.mark.parametrize(
    ("before", "debian", "release"),
    [
        ("1.0.0", "1.0.0", "1.0.1"),
        ("1.0.0rc1", "1.0.0~rc1", "1.0.0"),
        ("1.0.0b2", "1.0.0~b2", "1.0.0rc1"),
        ("0.1.1.dev37", "0.1.1~dev37", "0.1.1"),
        ("1.0.1.dev0+changed", "1.0.1~dev0+changed", "1.0.1"),
        ("1.0.0+changed", "1.0.0+changed", "1.0.1"),
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


def test_older_files_are_removed_and_no_others(tmp_path: Path) -> None:
    for name in (
        "gf_i2p-0.9.tar.gz",
        "gf_i2p-0.9-py3-none-any.whl",
        "gf-i2p_0.9_amd64.deb",
        "SHA256SUMS",
        "thesis.txt",
    ):
        (tmp_path / name).touch()
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    clear(tmp_path / "new")
    assert (tmp_path / "new").is_dir()
