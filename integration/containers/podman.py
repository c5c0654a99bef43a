"""Podman in namespaces of its own, as root, on machines that were not made for podman.

All changes are made in a mount namespace: call this from the first process of fresh namespaces only. The changes are
needed on machines with version 1 control groups (crun refuses the mixture), or with hard limits below podman's own.
"""

import os
import resource
import subprocess
from pathlib import Path
from typing import Final

_OURS: Final = Path("/run/gf-i2p")
_UNIFIED: Final = Path("/sys/fs/cgroup/unified")
_CONTAINERS: Final = """\
[containers]
cgroups = "disabled"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
log_driver = "k8s-file"

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"

[network]
network_backend = "netavark"
network_config_dir = "{ours}/networks"
"""
_STORAGE: Final = """\
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "{store}"

[storage.options]
additionalimagestores = [{images}]
"""


def mount() -> None:
    """Give this mount namespace a /run, a /dev/shm and a directory for podman's caches that end with the namespace."""
    if os.getpid() != 1:
        raise RuntimeError("podman is set up in namespaces of its own only")
    # Where systemd-resolved runs, the file with the name servers lies in /run.
    resolving = Path("/etc/resolv.conf").resolve()
    names = resolving.read_bytes() if resolving.is_file() else b""
    caches = Path("/var/lib/containers")
    caches.mkdir(exist_ok=True)
    for place in ("/run", "/dev/shm", str(caches)):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "gf-i2p", place], check=True)
    Path("/dev/shm").chmod(0o1777)
    if resolving.is_relative_to("/run"):
        resolving.parent.mkdir(parents=True)
        resolving.write_bytes(names)
    if _UNIFIED.is_mount():
        subprocess.run(["umount", str(_UNIFIED)], check=True)
    _OURS.mkdir()


def use(store: Path, images: Path | None = None) -> None:
    """Make podman keep its files in `store` from now on, and look for more images in `images`."""
    file = _OURS / f"storage-{store.name}.conf"
    file.write_text(_STORAGE.format(store=store, images=f'"{images}"' if images else ""))
    files, processes = (resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    containers = _OURS / "containers.conf"
    containers.write_text(_CONTAINERS.format(files=files, processes=processes, ours=_OURS))
    os.environ["CONTAINERS_CONF"] = str(containers)
    os.environ["CONTAINERS_STORAGE_CONF"] = str(file)
