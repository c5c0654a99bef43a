"""A leaf member under systemd, from the Debian package in a clean root: started, killed, and gone with the package."""

from pathlib import Path

import pytest

from integration.harness.waiting import wait_for
from integration.packages.clean_root import CleanRoot

STATE = "/var/lib/gf-i2p"
NAME = "leaf-2147483648"
UNIT = f"gf-i2p-leaf@{NAME}.service"


def shown(root: CleanRoot, name: str) -> str:
    return root.run("systemctl", "show", UNIT, f"--property={name}", "--value").strip()


@pytest.mark.timeout(600)
def test_a_leaf_member_has_a_unit(package: Path, root: CleanRoot) -> None:
    root.run("dpkg", "--install", root.bring(package))
    root.run("gf-i2p", "init", STATE, "--server=1=tcp://127.0.0.1:9001", user="gf-i2p")
    root.run("gf-i2p", "members", "invite-leaf", f"{STATE}/server-1", f"--into={STATE}", user="gf-i2p")
    leaf = root.run("gf-i2p", "keys", "master", "new", f"{STATE}/service.dat", user="gf-i2p").split()[3]
    root.run("sed", "-i", f'0,/^# leaf = .*/s//leaf = "{leaf}"/', f"{STATE}/{NAME}/leaf.toml", user="gf-i2p")
    told = root.run("gf-i2p", "leaf", "status", f"{STATE}/{NAME}", user="gf-i2p", check=False)
    assert f"Start it: sudo systemctl enable --now gf-i2p-leaf@{NAME}" in told
    root.run("systemctl", "enable", "--now", "gf-i2p@server-1", UNIT)
    wait_for("it has started", 60, lambda: " started " in root.run("journalctl", "--unit", UNIT))
    assert f"member   {NAME.removeprefix('leaf-')} of farm" in root.run(
        "gf-i2p", "leaf", "status", f"{STATE}/{NAME}", user="gf-i2p", check=False
    ), "degraded, for there is no router"

    root.run("systemctl", "kill", "--signal=KILL", UNIT)
    wait_for("systemd starts it again", 60, lambda: shown(root, "NRestarts") == "1")
    wait_for("it runs", 60, lambda: shown(root, "ActiveState") == "active")

    root.run("dpkg", "--remove", "gf-i2p")
    assert shown(root, "ActiveState") in {"inactive", "failed"}
    root.run("dpkg", "--purge", "gf-i2p")
    assert not [path for path in root.files() if "gf-i2p" in path and "systemd" in path]
