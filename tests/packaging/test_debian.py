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
from integration.packages.debian import SCRIPTS, debian_version, leaf_unit
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


def upgraded(directory: Path, *, starts: bool) -> tuple[list[str], str]:
    """Run `postinst` beside a systemd with two servers that is made up; return the units restarted, and what was said.

    The script gets other paths than those of the machine.
    """
    called, programs = directory / "called", directory / "programs"
    programs.mkdir()
    called.touch()
    for name, text in {
        "getent": "exit 0",
        "systemctl": f"""case $1 in
list-units) echo 'gf-i2p@a.service loaded active'; echo 'gf-i2p@b.service loaded active' ;;
restart) echo "$2" >>{called}; exit {0 if starts else 1} ;;
esac""",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    script = (DEBIAN / "postinst").read_text()
    for place in ("/run/systemd/system", "/var/lib/gf-i2p"):
        assert place in script
        script = script.replace(place, str(directory))
    script = script.replace("/usr/bin/python3", "true")
    done = subprocess.run(
        ["sh", "-c", script, "postinst", "configure"],
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return called.read_text().split(), done.stderr


def test_an_upgrade_restarts_one_server_after_the_other(tmp_path: Path) -> None:
    assert upgraded(tmp_path, starts=True) == (["gf-i2p@a.service", "gf-i2p@b.service"], "")


def test_an_upgrade_that_starts_no_server_leaves_the_other_servers_running(tmp_path: Path) -> None:
    units, said = upgraded(tmp_path, starts=False)
    assert units == ["gf-i2p@a.service"]
    assert "journalctl -u gf-i2p@a.service" in said


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
