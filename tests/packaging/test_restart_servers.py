"""An upgrade of Debian's package restarts one server after the other, and waits until each is back in its farm.

`systemctl`, `deb-systemd-invoke`, `runuser` and the program are made up. A server says one status after the other; the
last one stays.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEBIAN = Path(__file__).parents[2] / "packaging/debian"
SYSTEMCTL = """\
[ "$1 $4" = "list-units --state=active" ] || exit 1
case "$5" in gf-i2p-leaf@*) cat {0}/leaf-members; exit ;; esac
cd {0}/servers || exit 1
for each in *; do echo "gf-i2p@$each.service loaded active"; done
"""
INVOKE = """\
echo "$*" >>{0}/called
[ "$1" = restart ] || exit 1
case "$2" in gf-i2p-leaf@*) exit ;; esac
name=${{2#gf-i2p@}}; name=${{name%.service}}
cd {0}/servers/$name && rm -r now && mv after now && [ ! -e broken ]
"""
RUNUSER = """\
[ "$1 $2 $3" = "-u gf-i2p --" ] || exit 99
[ -z "$(cat)" ] || exit 96
shift 3
[ "$1 $2 $4" = "/usr/bin/gf-i2p status --json" ] || exit 98
cd {0}/servers/${{3#/var/lib/gf-i2p/}} || exit 97
echo "ask ${{3##*/}}" >>{0}/called
answer=$(ls now | head -n 1)
cat now/$answer
[ "$(ls now | wc -l)" = 1 ] || rm now/$answer
exit 3
"""
"""The code is that of a degraded farm: only the answer's words count."""


def status(own: int, *, leader: int | None = 1, away: tuple[int, ...] = (), commit: int = 7) -> dict[str, Any]:
    """Return the status of server `own` of three."""
    servers = [{"id": each, "endpoint": f"tcp://127.0.0.1:{each}", "connected": each not in away} for each in (1, 2, 3)]
    return {
        "cluster": "farm",
        "id": own,
        "leader": leader,
        "healthy": leader is not None and len(away) < 2,
        "servers": servers,
        "log": {"commit": commit},
    }


class Machine:
    """A machine with systemd, and with servers that say what they are told to say."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "called").touch()
        (directory / "leaf-members").touch()
        programs = directory / "programs"
        programs.mkdir()
        for name, text in {"systemctl": SYSTEMCTL, "deb-systemd-invoke": INVOKE, "runuser": RUNUSER}.items():
            (programs / name).write_text(f"#!/bin/sh\n{text.format(directory)}")
            (programs / name).chmod(0o755)

    def server(self, name: str, before: object, *after: object, starts: bool = True) -> None:
        """Add a server that runs, with what it says before its restart, and one after the other after that."""
        for folder, answers in {"now": (before,), "after": after or (before,)}.items():
            place = self.directory / "servers" / name / folder
            place.mkdir(parents=True)
            for number, answer in enumerate(answers):
                (place / f"{number:02}").write_text(answer if isinstance(answer, str) else json.dumps(answer))
        if not starts:
            (self.directory / "servers" / name / "broken").touch()

    def upgrade(self, seconds: float = 300) -> tuple[list[str], str]:
        """Restart all with the environment of a maintainer script; return what was called, and what was said."""
        options = [f"--seconds={seconds}", "--pause=0", "--progress=0"]
        done = subprocess.run(
            [sys.executable, "-I", str(DEBIAN / "restart_servers.py"), *options],
            env={"PATH": f"{self.directory}/programs:/usr/bin:/bin"},
            input="what root types\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        said = re.sub(r"\d+ s of", "… s of", done.stderr)  # a busy machine takes its time
        return (self.directory / "called").read_text().splitlines(), said

    def restarted(self, seconds: float = 300) -> tuple[list[str], str]:
        """Return the units restarted, and what was said."""
        called, said = self.upgrade(seconds)
        return [line.removeprefix("restart ") for line in called if line.startswith("restart")], said


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def units(*names: str) -> list[str]:
    return [f"gf-i2p@{name}.service" for name in names]


def test_the_leader_comes_last(machine: Machine) -> None:
    for number, name in enumerate("abc", 1):
        machine.server(name, status(number))
    assert machine.restarted()[0] == units("b", "c", "a")


def test_the_next_server_waits_until_the_farm_is_whole(machine: Machine) -> None:
    machine.server(
        "a",
        status(2),
        "no node answers",
        status(2, leader=None, away=(1, 3), commit=0),
        status(2, away=(3,), commit=7),
        status(2, commit=5),
        status(2),
    )
    machine.server("b", status(3))
    called, said = machine.upgrade()
    first, second = (called.index(f"restart {unit}") for unit in units("a", "b"))
    assert called[first:second].count("ask a") == 5
    for lack in (
        "it does not answer yet",
        "it has no leader with a majority yet",
        "it does not reach server 3 yet",
        "it is 2 entries behind",
    ):
        assert f"gf-i2p: waiting for gf-i2p@a.service, … s of at most 300 s: {lack}\n" in said


def test_the_other_servers_here_must_reach_the_restarted_one(machine: Machine) -> None:
    machine.server("a", status(2))
    machine.server("b", status(3))
    now = machine.directory / "servers/b/now"
    for number, away in enumerate([(), (2,), (2,), ()]):  # before, for the goal, and twice while the farm is not whole
        (now / f"{number:02}").write_text(json.dumps(status(3, away=away)))
    said = machine.upgrade()[1]
    assert said.count("waiting for gf-i2p@a.service, … s of at most 300 s: gf-i2p@b.service: it does not reach") == 1


def test_a_server_must_have_what_others_here_know_as_committed(machine: Machine) -> None:
    machine.server("a", status(2), status(2), status(2, commit=9))
    machine.server("b", status(3, commit=9))
    assert "gf-i2p@a.service, … s of at most 300 s: it is 2 entries behind" in machine.upgrade()[1]


def test_a_farm_that_does_not_become_whole_keeps_its_other_servers(machine: Machine) -> None:
    machine.server("a", status(2), status(2, leader=None))
    machine.server("b", status(3))
    machine.server("c", status(1))
    restarted, said = machine.restarted(seconds=0)
    assert restarted == units("a")
    assert "gf-i2p@a.service is not back in its farm after 0 s: it has no leader with a majority yet." in said
    assert "    sudo -u gf-i2p gf-i2p status /var/lib/gf-i2p/a\n" in said
    assert said.index("sudo systemctl restart gf-i2p@b.service") < said.index("sudo systemctl restart gf-i2p@c.service")


def test_a_server_that_does_not_start_is_the_last_to_be_restarted(machine: Machine) -> None:
    machine.server("a", status(2), starts=False)
    machine.server("b", status(3))
    restarted, said = machine.restarted()
    assert restarted == units("a")
    assert "gf-i2p@a.service did not start again. No further unit is restarted." in said
    assert "    sudo journalctl -u gf-i2p@a.service\n" in said
    assert "    sudo systemctl restart gf-i2p@b.service\n" in said


def test_a_farm_without_a_majority_need_not_have_one_afterwards(machine: Machine) -> None:
    machine.server("a", status(1, leader=None, away=(2, 3)), status(1, leader=None, away=(2, 3), commit=0))
    assert machine.restarted(seconds=0) == (units("a"), "gf-i2p: restarting gf-i2p@a.service\n")


def test_the_operator_reads_that_a_farm_bears_no_restart(machine: Machine) -> None:
    machine.server("a", status(1, away=(3,)))
    assert "gf-i2p: meanwhile the farm has no majority, because another server is away\n" in machine.upgrade()[1]


def test_a_server_whose_older_version_said_nothing_of_use_must_be_healthy(machine: Machine) -> None:
    machine.server("a", '{"ok": false}', '["a list"]', status(1, leader=None), status(1))
    machine.server("b", "", status(2))
    restarted, said = machine.restarted()
    assert restarted == units("a", "b")
    assert "it does not answer yet" in said
    assert "it has no leader with a majority yet" in said


def test_two_farms_of_one_name_do_not_wait_for_each_other(machine: Machine) -> None:
    other = status(1, leader=None, away=(2, 3), commit=900)
    other["servers"][0]["endpoint"] = "tcp://127.0.0.1:99"
    machine.server("a", status(2))
    machine.server("z", other)
    assert machine.restarted(seconds=0)[0] == units("a", "z")


def test_leaf_members_come_last_and_nobody_waits_for_them(machine: Machine) -> None:
    machine.server("a", status(1))
    (machine.directory / "leaf-members").write_text("gf-i2p-leaf@l.service loaded active\n")
    assert machine.restarted()[0] == [*units("a"), "gf-i2p-leaf@l.service"]


def test_a_leaf_member_is_named_when_a_server_does_not_come_back(machine: Machine) -> None:
    machine.server("a", status(1), starts=False)
    (machine.directory / "leaf-members").write_text("gf-i2p-leaf@l.service loaded active\n")
    restarted, said = machine.restarted()
    assert restarted == units("a")
    assert "    sudo systemctl restart gf-i2p-leaf@l.service\n" in said


def test_no_server_runs(machine: Machine) -> None:
    (machine.directory / "servers").mkdir()
    (machine.directory / "programs/systemctl").write_text("#!/bin/sh\n")
    assert machine.upgrade() == ([], "")
