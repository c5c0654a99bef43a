"""Our farm: three `gf-i2p run` processes over TLS with fsync, asked through FarmClient."""

import importlib
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from integration.bench.system import BenchError, Cluster, System


def check() -> None:
    """Nothing to install: the farm is this checkout."""


@asynccontextmanager
async def cluster(directory: Path, *, cprofile: bool = False) -> AsyncIterator[Cluster]:
    """Run three nodes with their data below `directory`; see `integration.bench.system.ClusterFactory`."""
    raise BenchError(f"The farm cannot be started in {directory} yet (cprofile {cprofile}). Use --only etcd.")
    yield


def _new_loop() -> Callable[[], AbstractEventLoop] | None:
    """Return uvloop's event loop, as the nodes use it, when it is installed."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], AbstractEventLoop] = uvloop.new_event_loop
    return factory


FARM = System(name="farm", title="farm", bulk_writers=4, check=check, cluster=cluster, new_loop=_new_loop())
