"""The canaries that are wrong about themselves: they keep too much in memory, forget their disk, or hide contacts.

The invariants of `memory` notice these mistakes. To add a canary: write the function with the mistake, and add a line
to `memory_canaries`.
"""

from collections.abc import Iterator

from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.core import Core
from gf_i2p.raft.log import Log, size_of
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.canary import core_canary as core

_drop = Log.drop


def _keeps_all(_: Log) -> None:
    return


def _keeps_nothing(log: Log) -> None:
    count = log.stored - log._cache_first + 1
    if count > 0:
        log._cache_size -= sum(map(size_of, log._cache[:count]))
        del log._cache[:count]
        log._cache_first += count


def _forgets_the_rest(log: Log, index: int) -> None:
    stored = log.stored
    _drop(log, index)
    log.stored = min(stored, index)


def _counts_itself(core: Core) -> dict[int, float]:
    return {**_heard(core), core.id: 0.0} if core.is_leader else {}


_heard = Core.heard.fget  # type: ignore[attr-defined]


def _marks_the_log_only(core: Core) -> object:
    return core._state.configurations.changes


def _keeps_all_members(_: Configurations, __: int) -> None:
    return


def memory_canaries() -> Iterator[Canary]:
    """Yield the canaries of this module."""
    yield core(
        "hides-newcomers",
        "changes its contacts unseen when a server joins or leaves",
        (Core, "contacts_mark", property(_marks_the_log_only)),
    )
    yield core("hoards", "keeps all entries in memory", (Log, "_evict", _keeps_all))
    yield core("empties", "takes all durable entries out of memory at the limit", (Log, "_evict", _keeps_nothing))
    yield core("forgets-durable", "forgets what is durable as entries drop", (Log, "drop", _forgets_the_rest))
    yield core("never-forgets", "keeps dropped Configurations", (Configurations, "drop", _keeps_all_members))
    yield core("hears-itself", "counts itself among the voters heard", (Core, "heard", property(_counts_itself)))
