"""Restarts this machine's running servers after an upgrade, so that a farm never lacks two of them at once.

Debian's `postinst` runs this as root, with the system's Python. After each restart, the program asks the servers as
`gf-i2p status` does, until the restarted server is back in its farm. When a server does not come back, no further
one is restarted, and the operator reads what is left. The exit code is 0 then, too: dpkg has nothing to undo. Leaf
members come last.

The environment of a maintainer script has little more than PATH. No other package is imported.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Final, Self

_BEFORE_NAME: Final = "gf-i2p@"
_LEAF_MEMBER: Final = "gf-i2p-leaf@"
"""How the unit of a leaf member begins. A leaf member has no vote, and no farm waits for it."""
_AFTER_NAME: Final = ".service"
_STATE: Final = "/var/lib/gf-i2p"
_ASK_SECONDS: Final = 30.0
"""Most seconds for one answer: `gf-i2p status` itself waits 10 s for the server."""


@dataclass(frozen=True)
class View:
    """The farm as one of its servers sees it."""

    farm: tuple[str, ...]
    """The farm's name and the endpoints of its servers: two farms may have one name."""
    id: int
    leads: bool
    healthy: bool
    """Whether the server follows or is a leader, and reaches a majority."""
    members: frozenset[int]
    connected: frozenset[int]
    """Servers that this server reaches, with itself."""
    commit: int
    """Index of the last entry that this server knows as committed."""

    @property
    def bears_a_loss(self) -> bool:
        """Whether the farm has a majority without one of its connected servers."""
        return len(self.connected) - 1 > len(self.members) // 2

    @classmethod
    def of(cls, status: dict[str, Any]) -> Self:
        """Take what `gf-i2p status --json` prints. Raises `KeyError` and `TypeError` for anything else."""
        servers = status["servers"]
        return cls(
            (status["cluster"], *sorted(server["endpoint"] for server in servers)),
            status["id"],
            status["leader"] == status["id"],
            status["healthy"],
            frozenset(server["id"] for server in servers),
            frozenset(server["id"] for server in servers if server["connected"]),
            status["log"]["commit"],
        )


def ask(unit: str) -> View | None:
    """Return what the server of a unit says; None when it says nothing of use, as one of another version may."""
    command = ["runuser", "-u", "gf-i2p", "--", "/usr/bin/gf-i2p", "status", directory(unit), "--json"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # root's terminal is none of another user's
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            timeout=_ASK_SECONDS,
        )
        return View.of(json.loads(done.stdout))
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
        return None


def directory(unit: str) -> str:
    """Return the directory of a unit's server."""
    return f"{_STATE}/{unit.removeprefix(_BEFORE_NAME).removesuffix(_AFTER_NAME)}"


def lacking(before: View | None, now: View | None, commit: int) -> str | None:
    """Return what a server lacks to be back in its farm, in words; None for nothing.

    `before`: the server's view before any restart. A farm that had no leader or no majority then need not have one now.
    `commit`: index of an entry that the farm has committed.
    """
    if now is None:
        return "it does not answer yet"
    if before is None or before.healthy:
        if not now.healthy:
            return "it has no leader with a majority yet"
        if now.commit < commit:
            return f"it is {commit - now.commit} entries behind"
    if before is not None and (away := (before.connected & now.members) - now.connected):
        return f"it does not reach server {', '.join(map(str, sorted(away)))} yet"
    return None


class Upgrade:
    """The restarts of one upgrade."""

    def __init__(self, units: list[str], leaf_members: list[str], options: argparse.Namespace) -> None:
        self._options = options
        self._leaf_members = leaf_members
        self._before = {unit: ask(unit) for unit in units}
        # Leaders last: the farm then elects only once.
        self._left = sorted(units, key=lambda unit: (view := self._before[unit]) is not None and view.leads)

    def run(self) -> None:
        """Restart the units, or say what is left."""
        while self._left:
            unit = self._left.pop(0)
            say(f"restarting {unit}")
            view = self._before[unit]
            if view is not None and view.healthy and len(view.members) > 2 and not view.bears_a_loss:
                say("meanwhile the farm has no majority, because another server is away")
            # As Debian wants it: an administrator's policy-rc.d may forbid restarts.
            if subprocess.run(["deb-systemd-invoke", "restart", unit], check=False).returncode:
                return self._stop(unit, "did not start again", f"sudo journalctl -u {unit}")
            if (lack := self._wait(unit)) is not None:
                return self._stop(unit, f"is not back in its farm after {self._options.seconds:.0f} s: {lack}")
        while self._leaf_members:
            unit = self._leaf_members.pop(0)
            say(f"restarting {unit}")
            if subprocess.run(["deb-systemd-invoke", "restart", unit], check=False).returncode:
                return self._stop(unit, "did not start again", f"sudo journalctl -u {unit}")
        return None

    def _wait(self, unit: str) -> str | None:
        """Wait until a server is back; return None then, or what is lacking when the time is over."""
        began = told = time.monotonic()
        commit = max((view.commit for view in self._others(unit).values() if view is not None), default=0)
        if (before := self._before[unit]) is not None and before.healthy:
            commit = max(commit, before.commit)
        while (lack := self._lack(unit, commit)) is not None:
            now = time.monotonic()
            if now - began >= self._options.seconds:
                return lack
            if now - told >= self._options.progress:
                told = now
                say(f"waiting for {unit}, {now - began:.0f} s of at most {self._options.seconds:.0f} s: {lack}")
            time.sleep(self._options.pause)
        return None

    def _lack(self, unit: str, commit: int) -> str | None:
        """Return what the farm lacks: the restarted server must be back, and the farm's others here must reach it."""
        if (lack := lacking(self._before[unit], ask(unit), commit)) is not None:
            return lack
        for other, view in self._others(unit).items():
            if (lack := lacking(self._before[other], view, 0)) is not None:
                return f"{other}: {lack}"
        return None

    def _others(self, unit: str) -> dict[str, View | None]:
        """Ask the other servers of this farm that run here, and that have answered before."""
        own = self._before[unit]
        return {
            other: ask(other)
            for other, view in self._before.items()
            if own is not None and view is not None and other != unit and view.farm == own.farm
        }

    def _stop(self, unit: str, why: str, look: str = "") -> None:
        status = "" if unit.startswith(_LEAF_MEMBER) else f"sudo -u gf-i2p gf-i2p status {directory(unit)}"
        say(f"{unit} {why}. No further unit is restarted. See:")
        for command in (look, status):
            if command:
                say(f"    {command}")
        if left := self._left + self._leaf_members:
            say("These still run the older version. Restart one after the other, each when the farm is whole again:")
            for each in left:
                say(f"    sudo systemctl restart {each}")


def say(text: str) -> None:
    """Print a line for the operator."""
    print(f"gf-i2p: {text}", file=sys.stderr, flush=True)


def running(kind: str) -> list[str]:
    """Return the units that run, in the order of their names. `kind`: how their names begin."""
    command = ["systemctl", "list-units", "--plain", "--no-legend", "--state=active", f"{kind}*{_AFTER_NAME}"]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return sorted(line.partition(" ")[0] for line in said.splitlines() if line.strip())


def main() -> None:
    """Restart all that run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=300.0, help="most seconds for one server to come back")
    parser.add_argument("--progress", type=float, default=10.0, help="seconds between two lines while waiting")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two questions")
    options = parser.parse_args()
    Upgrade(running(_BEFORE_NAME), running(_LEAF_MEMBER), options).run()


if __name__ == "__main__":
    main()
