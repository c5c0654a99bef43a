"""Makes snapshots for an operator to keep: from a running node, and from the log of a stopped node."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from gf_i2p.farm.state import FarmState, SnapshotError
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.files.stopped_log import exported_up_to
from gf_i2p.node.node import Node
from gf_i2p.node.view import take_in
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.effects import Snapshot
from gf_i2p.storage.database import Storage
from gf_i2p.storage.entry_chunks import term_at
from gf_i2p.storage.snapshot_file import SavedSnapshot
from gf_i2p.wire.log_values import Configuration

_PAGE_BYTES: Final = 1 << 20
_OTHER_VERSION: Final = "Was it written by another version of gf-i2p? Then use that version"


def state_of(saved: SavedSnapshot) -> FarmState:
    """Read the state in a snapshot. Raises `ConfigError` when this version cannot read it."""
    try:
        return FarmState.decode(saved.cluster, saved.snapshot.data)
    except SnapshotError as error:
        raise ConfigError(
            f"its state cannot be read: {error}. {_OTHER_VERSION}; otherwise take another snapshot"
        ) from error


async def of_running(node: Node) -> SavedSnapshot | None:
    """Make a snapshot of all entries that this node knows as committed. None: the node knows no committed entry."""
    view, core = node.farm_tasks.view, node.driver.core
    await view.reaches(core.applicable)
    while view.applied < core.log.base:  # a received snapshot has replaced the log meanwhile
        await view.reaches(core.applicable)
    index = view.applied
    if index == 0:
        return None
    snapshot = core.snapshot
    if snapshot is not None and index == snapshot.index:  # the log may begin after that entry
        term, configuration = snapshot.term, snapshot.configuration
    else:
        term, configuration = core.log.term(index), core.configuration_at(index)
    return SavedSnapshot(
        node.cluster,
        core.id,
        reached=core.term,
        saved_ms=now_ms(),
        committed=index,
        snapshot=Snapshot(index, term, configuration, view.state.encode()),
    )


def of_stopped(directory: Path, *, on_entry: Callable[[int, int], None] = lambda *_: None) -> SavedSnapshot:
    """Make a snapshot of the whole log of a stopped node; changes nothing. Raises `ConfigError` or `StorageError`.

    The log alone does not show whether its last entries are committed. The snapshot has these entries all the same:
    without them, acknowledged entries could be lost, and a refused entry is in no log.

    `on_entry` is called while the entries are read, with the number of read entries and the number of all.
    """
    config = Config.load(directory)
    path = directory / DATABASE_FILE
    with Storage.reading(path, cluster=config.node.cluster, server_id=config.node.id) as log:
        loaded = log.loaded
        if loaded.snapshot_fault is not None:
            raise ConfigError(
                f"{loaded.snapshot_fault} This server cannot give the state: save the snapshot on another server"
            )
        if loaded.last_index == 0:
            raise ConfigError(f"{path} is empty: there is nothing to save yet")
        snapshot = loaded.snapshot
        state = FarmState(config.node.cluster)
        if snapshot is not None:
            try:
                state = FarmState.decode(config.node.cluster, snapshot.data)
            except SnapshotError as error:
                raise ConfigError(f"the snapshot in {path} cannot be read: {error}. {_OTHER_VERSION}") from error
        index = first = 0 if snapshot is None else snapshot.index
        while index < loaded.last_index:
            for entry in log.read(index + 1, loaded.last_index, _PAGE_BYTES):
                index += 1
                take_in(state, index, entry)
            on_entry(index - first, loaded.last_index - first)
    configurations = Configurations(
        config.bootstrap if snapshot is None else snapshot.configuration,
        [(at, Configuration.decode(value)) for at, value in loaded.configurations],
    )
    exported = max(first, exported_up_to(directory / HISTORY_DIRECTORY, config.node.cluster, config.node.id))
    is_alone = len(configurations.voters) == 1
    return SavedSnapshot(
        config.node.cluster,
        config.node.id,
        reached=loaded.hard_state.term,
        saved_ms=now_ms(),
        committed=index if is_alone and configurations.voters[0] == config.node.id else min(exported, index),
        snapshot=Snapshot(index, term_at(loaded.terms, index), configurations.current, state.encode()),
    )
