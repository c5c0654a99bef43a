"""Makes images from the files in `docker/`: the base image without a registry, then the images that compose builds."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from integration.containers import base_image
from integration.containers.engine import Engine
from integration.containers.project import BUILD_SECONDS, PODMAN_BUILD, Project
from tests.tier import is_everything

DOCKER: Final = Path(__file__).parents[2] / "docker"
COMPOSE: Final = DOCKER / "compose.yaml"
NODE_COMPOSE: Final = DOCKER / "compose.node.yaml"
DOCKERFILES: Final = (DOCKER / "Dockerfile", DOCKER / "router.Dockerfile")
SPARK: Final = "gf-i2p-spark"
NET_VARIABLE: Final = "GF_NET"
"""Variable of the compose file: the third number of all addresses."""
NET: Final = os.environ.get(NET_VARIABLE) or "254"
"""The number for the tests' farm; not the compose file's own 0, which another farm on this machine may use."""
SECOND_NET: Final = "255" if NET != "255" else "254"
"""The number for a second farm beside the tests' farm."""
LIMITS: Final = (1 << 30, 256)
"""Bytes of memory and number of processes of each container of the compose files: docs/how-to/containers.md says so."""
KEPT: Final = "72h"
"""Age up to which unused build steps stay in the cache."""


@dataclass(frozen=True, slots=True)
class Built:
    """Durations and sizes of a build."""

    base_seconds: float
    build_seconds: float
    sizes: dict[str, int]
    """Bytes, by image."""

    def __str__(self) -> str:
        """Describe the build in a line for people."""
        sizes = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in self.sizes.items())
        return f"base {self.base_seconds:.1f} s, build {self.build_seconds:.1f} s; {sizes}"


@contextlib.contextmanager
def alone(cache: Path) -> Iterator[int]:
    """Wait for the end of another run with the same cache, and keep other runs out while the block runs.

    Gives the lock's descriptor: the lock stays while a process has the descriptor open.
    """
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another run builds and tests containers on this machine; this one waits for its end.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def build(engine: Engine, cache: Path, *, fresh: bool = False) -> Built:
    """Build the images; `cache` keeps the base images; `fresh`: use nothing of an earlier build."""
    bases = base_image.needed(DOCKERFILES)
    base_seconds = sum(base_image.ensure(engine, *each, cache) for each in bases.items()) if engine.private else 0.0
    began = time.monotonic()
    project = Project(engine, "gf-i2p", COMPOSE)
    project.build(fresh=fresh)
    if is_everything():
        _build_spark(engine)
    build_seconds = time.monotonic() - began
    if engine.private:  # recent steps make the next build quicker; old steps only take up space
        engine.run("image", "prune", "--force", "--filter", f"until={KEPT}")
    # Docker's builder keeps a fetched base to itself: that base is no image of the engine.
    names = [*(bases if engine.private else ()), *project.images(), *([SPARK] if is_everything() else [])]
    return Built(base_seconds, build_seconds, {name: base_image.image_size(engine, name) for name in names})


def _build_spark(engine: Engine) -> None:
    options = PODMAN_BUILD if engine.private else ()
    what = ["--target", "spark", "--tag", SPARK, "--file", str(DOCKERFILES[0]), str(DOCKER.parent)]
    engine.run("build", *options, *what, seconds=BUILD_SECONDS)
