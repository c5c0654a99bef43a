"""The Debian package in a clean root with systemd: installed, started, killed, upgraded, removed, purged."""

import json
import subprocess
from pathlib import Path

import pytest

from integration.harness.waiting import wait_for
from integration.packages.clean_root import CleanRoot
from integration.packages.farm_watch import watched

UNITS = [f"gf-i2p@server-{number}.service" for number in (1, 2, 3)]
STATE = "/var/lib/gf-i2p"
SLOW = """\
[Service]
ExecStartPost=+/bin/sh -c 'kill -STOP $MAINPID; (sleep 8; kill -CONT $MAINPID) >/dev/null 2>&1 &'
"""
"""A unit that is active, and whose server takes part in the farm only 8 s later, as after a long time away."""

pytestmark = [pytest.mark.timeout(1800)]


def next_version(file: Path, folder: Path) -> Path:
    """Pack the same files as a later version."""
    unpacked, later = folder / "unpacked", folder / "gf-i2p_99_all.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", str(file), str(unpacked)], check=True)
    control = unpacked / "DEBIAN/control"
    lines = ["Version: 99" if line.startswith("Version:") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(unpacked), str(later)], check=True)
    return later


def shown(root: CleanRoot, unit: str, name: str) -> str:
    return root.run("systemctl", "show", unit, f"--property={name}", "--value").strip()


def has_leader(root: CleanRoot, server: int) -> bool:
    said = root.run("gf-i2p", "status", f"{STATE}/server-{server}", check=False)
    return "\nleader " in said and "\nleader   none" not in said


def test_life_of_a_package(package: Path, root: CleanRoot, tmp_path: Path) -> None:
    before = root.files()
    first = root.bring(package)
    root.run("dpkg", "--install", first)
    assert root.run("gf-i2p", "--version").split()[1] in package.name.replace("~", ".")
    for place in ("/usr/share/man/man1/gf-i2p.1.gz", "/usr/share/bash-completion/completions/gf-i2p"):
        assert place in root.files()

    servers = [f"--server={number}=tcp://127.0.0.1:{9000 + number}" for number in (1, 2, 3)]
    root.run("gf-i2p", "init", STATE, "--profile=lan", *servers, user="gf-i2p")
    root.run("systemctl", "enable", "--now", *UNITS)
    assert [shown(root, unit, "ActiveState") for unit in UNITS] == ["active"] * 3, "ready by their own word"
    wait_for("a leader", 60, lambda: has_leader(root, 1))
    root.run("gf-i2p", "post", f"{STATE}/server-1", "before")

    root.run("systemctl", "reload", UNITS[0])
    assert "reloaded" in root.run("journalctl", "--unit", UNITS[0])

    root.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNITS[1])
    wait_for("systemd starts it again", 60, lambda: shown(root, UNITS[1], "NRestarts") == "1")
    wait_for("it is ready again", 60, lambda: shown(root, UNITS[1], "ActiveState") == "active")

    settings = root.directory / STATE[1:] / "server-3/gf-i2p.toml"
    right = settings.read_text()
    settings.write_text(f"{right}[nodes]\n")
    root.run("systemctl", "restart", UNITS[2], check=False)
    wait_for(
        "systemd gives up",
        60,
        lambda: shown(root, UNITS[2], "ActiveState") == "failed",
        else_say=lambda: root.run("journalctl", "--unit", UNITS[2], "--lines=20"),
    )
    assert shown(root, UNITS[2], "NRestarts") == "0", "only the operator mends a mistake in the files"
    assert "nodes" in root.run("journalctl", "--unit", UNITS[2])
    settings.write_text(right)

    (root.directory / "etc/systemd/system" / f"{UNITS[2]}.d").mkdir()
    (root.directory / "etc/systemd/system" / f"{UNITS[2]}.d/watchdog.conf").write_text("[Service]\nWatchdogSec=3\n")
    root.run("systemctl", "daemon-reload")
    root.run("systemctl", "restart", UNITS[2])
    root.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", UNITS[2])
    wait_for("the watchdog ends a stuck one", 120, lambda: shown(root, UNITS[2], "NRestarts") == "1")
    assert f"{UNITS[2]}: Watchdog timeout" in root.run("journalctl", "--boot")
    wait_for("it is ready again", 60, lambda: shown(root, UNITS[2], "ActiveState") == "active")

    root.run("rm", "-r", f"/etc/systemd/system/{UNITS[2]}.d")  # its watchdog would end a slow server
    slow = root.directory / "etc/systemd/system/gf-i2p@.service.d"
    slow.mkdir()
    (slow / "slow.conf").write_text(SLOW)
    root.run("systemctl", "daemon-reload")
    mains = [shown(root, unit, "MainPID") for unit in UNITS]
    later = root.bring(next_version(package, tmp_path))
    posted = json.loads(root.run("gf-i2p", "post", f"{STATE}/server-1", "just before", "--json"))["index"]
    with watched({number: root.directory / STATE[1:] / f"server-{number}" for number in (1, 2, 3)}, posted) as seen:
        said = root.run("dpkg", "--install", later)
    assert [unit for unit in UNITS if f"restarting {unit}" in said] == UNITS, said
    assert "No further unit" not in said
    assert set().union(*seen.out) == {1, 2, 3}, "the watcher has seen each restart"
    assert max(map(len, seen.out)) == 1, f"at most one server is away at any time: {seen.out}"
    assert [shown(root, unit, "ActiveState") for unit in UNITS] == ["active"] * 3
    assert not set(mains) & {shown(root, unit, "MainPID") for unit in UNITS}, "all run the new version"
    assert has_leader(root, 2)
    assert "before" in root.run("gf-i2p", "entries", f"{STATE}/server-2")

    root.run("dpkg", "--remove", "gf-i2p")
    assert {shown(root, unit, "ActiveState") for unit in UNITS} <= {"inactive", "failed"}
    assert "/usr/lib/gf-i2p" not in root.files()
    assert "they and the user gf-i2p stay" in root.run("dpkg", "--purge", "gf-i2p")
    assert root.run("getent", "passwd", "gf-i2p"), "whose directories these are"
    assert f"{STATE}/server-1/gf-i2p.toml" in root.files()

    # The operator removes the directories; then the package leaves nothing, also none of what `init` wrote unasked.
    root.run("sh", "-c", f"rm -rf {STATE}/* /etc/systemd/system/gf-i2p@.service.d")
    root.run("dpkg", "--install", first)
    root.run("dpkg", "--purge", "gf-i2p")
    root.run("rm", first, later)
    assert not root.run("getent", "passwd", "gf-i2p", check=False)
    left = sorted(
        path for path in root.files().keys() - before.keys() if not path.startswith(("/var/log", "/var/cache"))
    )
    assert [path for path in left if not path.startswith("/var/lib/dpkg") and not path.endswith("-")] == []
