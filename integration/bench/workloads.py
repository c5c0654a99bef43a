"""The loads that every system gets, and the figures of one run of a load."""

from dataclasses import dataclass, field
from typing import Final

VALUE_BYTES: Final = 1024
PATIENCE: Final = 20.0
"""Seconds beyond the length of a run after which the run has failed."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One shape of load. `writers` is None where each system gets its best number."""

    name: str  # value of --only
    title: str
    batch: int  # entries of one request
    writers: int | None


SEQUENTIAL = Workload("sequential", "1 sequential writer", batch=1, writers=1)
CONCURRENT = Workload("concurrent", "64 sequential writers", batch=1, writers=64)
BULK = Workload("bulk", "requests of 100 entries", batch=100, writers=None)
WORKLOADS = (SEQUENTIAL, CONCURRENT, BULK)


@dataclass(frozen=True, slots=True)
class Sample:
    """Measurements of one run, without warm-up."""

    seconds: float
    entries: int
    latencies: list[float]  # seconds, one per request, in order of completion
    cpu: dict[str, float] = field(default_factory=dict)  # cores in use on average, see `integration.bench.load`
    leader_moved: bool = False
    began: float = 0.0  # seconds of `time.perf_counter`
