"""A real i2pd with the lines of `gf-i2p router-config --i2pd`, and no others, passes `--check`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from integration.harness.waiting import wait_for
from integration.testnet.namespace import MissingError, check_programs

_ALONE = """\
ip link set lo up
i2pd --datadir "$1" --conf "$1/i2pd.conf" --log file --loglevel none --reseed.threshold 0 --nettime.enabled 0 &
exec sleep 600
"""
"""In a network of its own, which ends at loopback: this i2pd meets no other router."""


def ask(pid: int, *words: str) -> subprocess.CompletedProcess[str]:
    enter = ["nsenter", f"--target={pid}", "--net"]
    command = [sys.executable, "-m", "gf_i2p.cli.main", "router-config", "--i2pd", *words]
    return subprocess.run([*enter, *command], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.timeout(300)
def test_a_real_i2pd_needs_these_lines(tmp_path: Path) -> None:
    try:
        check_programs()
    except MissingError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "gf_i2p.cli.main", "router-config", "--i2pd"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sees_failing(tmp_path, "", {"I2CP"})
    sees_failing(tmp_path, lines, set())


def sees_failing(directory: Path, lines: str, wrong: set[str]) -> None:
    """Run an i2pd with these lines until exactly the checks `wrong` fail."""
    (directory / "i2pd.conf").write_text(lines)
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "sh", "-c", _ALONE, "sh", str(directory)]
    with subprocess.Popen(unshare, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            wait_for("unshare has a child", 30, lambda: bool(children.read_text()))
            inside = int(children.read_text())

            def seen() -> bool:
                checks = json.loads(ask(inside, "--check", "--json").stdout)["checks"]
                return {check["name"] for check in checks if check["state"] == "fail"} == wrong

            wait_for(f"only {wrong} fails", 60, seen)
        finally:
            process.kill()
