"""A clean Debian with systemd as process 1, in fresh namespaces: an operator's new machine.

Needs root, Debian's debootstrap and a cgroup2 of the kernel. The first root takes minutes; then an archive is kept.
"""

import contextlib
import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from integration.containers.base_image import make_archive
from integration.harness.waiting import wait_for
from integration.pages.place import Place

SUITE: Final = "bookworm"
_PACKAGES: Final = ("systemd", "python3", "adduser", "sudo", "dbus")
HOMES: Final = "/home"
_HOST: Final = "debian"
_BOOT: Final = Path(__file__).with_name("boot.sh")
_CONTROL_GROUPS: Final = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS: Final = 900.0


class CleanRootError(Exception):
    """The root cannot be made, or a command in it has failed."""


def lacking() -> str | None:
    """Return why no clean root can run here; None when one can."""
    if os.geteuid() != 0:
        return "only root can boot a system"
    if missing := [name for name in ("debootstrap", "unshare", "nsenter", "ip") if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}"
    return None if _control_groups() else "the kernel shows no cgroup2"


def _control_groups() -> Path | None:
    return next((place for place in _CONTROL_GROUPS if (place / "cgroup.controllers").exists()), None)


class CleanRoot:
    """A running system. Leave the block of `booted`, and the system and its processes are gone."""

    def __init__(self, directory: Path, pid: int) -> None:
        self.directory = directory
        self._pid = pid

    def _enter(self, user: str | None = None) -> list[str]:
        """Return the words before a command that run the command in the system."""
        enter = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--uts", "--ipc", "--net", "--root", "--wd"]
        environment = ["env", "-i", f"PATH={_PATH}", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "COLUMNS=100"]
        rights = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return [*enter, *environment, *rights]

    def add_administrator(self, name: str) -> Place:
        """Make a user who may do all by sudo; return the place where this user types commands."""
        self.run("adduser", "--quiet", "--disabled-password", "--gecos", "", name)
        (self.directory / "etc/sudoers.d" / name).write_text(f"{name} ALL=(ALL:ALL) NOPASSWD: ALL\n")
        user = int(self.run("id", "--user", name))
        return Place((*self._enter(name), "env", f"HOME={HOMES}/{name}"), Path(f"/proc/{self._pid}/root"), user)

    def run(self, *command: str, user: str | None = None, check: bool = True) -> str:
        """Run a command in the system; return its output, errors too. Raises `CleanRootError`."""
        done = subprocess.run(
            [*self._enter(user), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if check and done.returncode != 0:
            raise CleanRootError(f"{' '.join(command)}: {done.returncode}: {done.stdout}")
        return done.stdout

    def bring(self, file: Path, place: str = "/opt", name: str | None = None) -> str:
        """Copy a file into a directory of the system, under its own or another name; return its path there."""
        # By the host: a process outside sees the root's disk, for only /dev, /proc, /sys and /run are mounts there.
        copy = self.directory / place.removeprefix("/") / (name or file.name)
        copy.write_bytes(file.read_bytes())
        return f"{place}/{copy.name}"

    def files(self) -> dict[str, str]:
        """Return what stands on the disk below /etc, /usr, /lib, /var and /opt: path and kind."""
        places = ["/etc", "/usr", "/lib", "/var", "/opt"]
        listed = self.run("find", *places, "-xdev", "-printf", "%p\t%y\n")
        return dict(line.split("\t") for line in listed.splitlines())


@contextlib.contextmanager
def booted(directory: Path, cache: Path) -> Iterator[CleanRoot]:
    """Boot a clean root in the empty `directory`. `cache` keeps the archives."""
    groups = _control_groups()
    assert groups is not None, "see `lacking`"
    subprocess.run(["tar", "-C", str(directory), "-xf", str(_archive(cache))], check=True)
    group = groups / f"gf-i2p-{os.getpid()}"
    group.mkdir()
    unshare = ["unshare", "--mount", "--pid", "--fork", "--cgroup", "--net", "--uts", "--ipc", "--kill-child=KILL"]
    entered = (
        f'echo 0 > {group}/cgroup.procs; exec "$@"'  # before the new cgroup namespace: this group becomes its root
    )
    log = directory.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", entered, "sh", *unshare, str(_BOOT), str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for("process 1", 60, lambda: bool(children.read_text()))
        root = CleanRoot(directory, int(children.read_text()))
        wait_for(
            f"systemd runs; see {log}",
            120,
            lambda: root.run("systemctl", "is-system-running", check=False).strip() in {"running", "degraded"},
        )
        yield root
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        _forget(group)


def _archive(cache: Path) -> Path:
    """Return the archive of a Debian with systemd. A missing archive is made."""
    archive = cache / f"{SUITE}-{platform.machine()}-{'-'.join(_PACKAGES)}.tar"
    if archive.exists():
        return archive
    base = cache / f"{SUITE}-{platform.machine()}.tar"
    if not base.exists():
        make_archive(SUITE, base)
    root = cache / "systemd-root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    subprocess.run(["tar", "-C", str(root), "-xf", str(base)], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    # As Debian's installer writes it. Without its own name here, sudo complains at each command.
    (root / "etc/hostname").write_text(f"{_HOST}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {_HOST}\n")
    install = (
        "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "
        f"{' '.join(_PACKAGES)} && rm -rf /var/lib/apt/lists/* /var/cache/apt/*"
    )
    done = subprocess.run(["chroot", str(root), "sh", "-c", install], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CleanRootError(f"apt-get in the clean root: {done.stdout}{done.stderr}")
    unfinished = archive.with_suffix(".part")
    subprocess.run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(unfinished), "."], check=True)
    unfinished.rename(archive)
    shutil.rmtree(root)
    return archive


def _forget(group: Path) -> None:
    """Remove a control group and those below. The kernel needs a moment to end the last processes."""

    def gone() -> bool:
        for each in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                each.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()

    wait_for(f"{group} is empty", 30, gone)
