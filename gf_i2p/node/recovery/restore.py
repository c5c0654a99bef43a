"""Begins a farm's log anew from a saved snapshot, when all logs are lost or damaged beyond repair.

The new farm has one server, keeps the farm's name, and has no entries after the snapshot. Nobody can know what the old
farm did after the snapshot, so three things keep the two farms apart (docs/design/restore.md):

- *Terms.* The log goes on in a term that the old farm cannot have reached. So no two entries of one index and one term
  differ, and no old log is ever as up-to-date as the new one.
- *Credentials.* The server forgets the passwords of all other servers. An old server that comes back has no rights
  here, nor at servers that are invited from now on.
- *The Configuration* after the snapshot names this server alone, at the endpoint of its own file.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.node.clock import now_ms
from gf_i2p.node.files import admitted, committed_keys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.files.peer_removal import without_others
from gf_i2p.node.files.stopped_log import examine_stopped_log
from gf_i2p.node.files.transaction import changing, free_path, replace_files
from gf_i2p.node.recovery.new_term import term_beyond
from gf_i2p.node.recovery.snapshot_copy import state_of
from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage import wal
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import DamagedError, LostError
from gf_i2p.storage.history_writer import History, Rotation
from gf_i2p.storage.private_files import Lock, sync_directory
from gf_i2p.storage.snapshot_file import SavedSnapshot
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.limits import MAX_INTEGER
from gf_i2p.wire.log_values import ClusterServer, Configuration

_BUILDING: Final = "restoring"


@dataclass(frozen=True, slots=True)
class OldLog:
    """The log of a stopped node's directory."""

    fault: str | None
    """Why the log cannot be used; None when it is sound."""
    last_index: int = 0
    term: int = 0


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The expected effect of a restoration."""

    cluster: str
    server: ClusterServer
    """The only server of the new farm."""
    old: OldLog | None
    """The log that the restoration replaces; None when there is no log."""
    known_term: int
    """Highest term that the old farm is known to have reached."""
    loses: bool
    """Whether the present log is sound and goes beyond the snapshot: `gf-i2p recover` would keep more."""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restoration."""

    backup: Path
    """A directory with all the files that were replaced."""
    index: int
    """Index of the Configuration that names this server alone."""
    term: int


def plan_restoration(saved: SavedSnapshot, directory: Path) -> RestorePlan:
    """Plan a restoration. Raises `ConfigError` or `StorageError` when the restoration is impossible or wrong."""
    config = Config.load(directory)
    Secrets.load(directory)  # checks that the file can be read, since `restore` changes it
    if saved.cluster != config.node.cluster:
        raise ConfigError(
            f"the snapshot is of the farm {saved.cluster!r}, and {directory} belongs to {config.node.cluster!r}: take "
            f"the directory of a server of that farm, or make one (gf-i2p init … --cluster {saved.cluster})"
        )
    state_of(saved)
    old = _examine_old_log(directory, config)
    known_term = max(saved.reached, saved.snapshot.term, 0 if old is None else old.term)
    term_beyond(known_term)  # raises when no free term is left
    if saved.snapshot.index >= MAX_INTEGER - 1:
        raise ConfigError("the snapshot ends at the largest index that a log can have: begin a new farm")
    loses = old is not None and old.fault is None and old.last_index > saved.snapshot.index
    return RestorePlan(
        config.node.cluster, ClusterServer(config.node.id, str(config.own_endpoint)), old, known_term, loses=loses
    )


def _examine_old_log(directory: Path, config: Config) -> OldLog | None:
    path = directory / DATABASE_FILE
    if not path.exists() and not wal.wal_path(path).exists():
        return None
    try:
        loaded = examine_stopped_log(directory, config)
    except (DamagedError, LostError) as error:
        return OldLog(str(error))
    return OldLog(loaded.snapshot_fault, loaded.last_index, loaded.hard_state.term)


def restore(saved: SavedSnapshot, directory: Path, *, on_step: Callable[[str], None] = lambda _: None) -> RestoreResult:
    """Make the server of this directory the only one of a farm that begins with a snapshot; its node must not run.

    The log is replaced last: after an error, the old log is still there, and the restoration can be repeated. `on_step`
    is called with each long step, as text. Raises `ConfigError`, `StorageError` or `OSError`.
    """
    lock = Lock(directory / DATABASE_FILE)
    try:
        with changing(directory):
            return _restore(saved, directory, on_step)
    finally:
        lock.close()


def _restore(saved: SavedSnapshot, directory: Path, on_step: Callable[[str], None]) -> RestoreResult:
    database = directory / DATABASE_FILE
    restoration = plan_restoration(saved, directory)
    config = Config.load(directory)
    term = term_beyond(restoration.known_term, since=(now_ms() - saved.saved_ms) / 1000)
    texts = without_others(directory, config.node.id)
    building = directory / _BUILDING
    shutil.rmtree(building, ignore_errors=True)  # left by a command that was killed
    building.mkdir(mode=0o700)
    on_step("writing the new log")
    index = _begin_log(saved, restoration.server, building / DATABASE_FILE, term)
    if config.history.enabled:
        _begin_history(saved, building / HISTORY_DIRECTORY, restoration, config.history.rotation, term)
    backup = free_path(directory, f"before-restore-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    backup.mkdir(mode=0o700)
    on_step(f"moving the old files to {backup.name}")
    replace_files(directory, texts, backup)
    committed_keys.forget(directory)
    admitted.forget(directory)
    if (directory / HISTORY_DIRECTORY).exists():
        (directory / HISTORY_DIRECTORY).rename(backup / HISTORY_DIRECTORY)
    if config.history.enabled:
        (building / HISTORY_DIRECTORY).rename(directory / HISTORY_DIRECTORY)
    _replace_log(building / DATABASE_FILE, database, backup)
    sync_directory(backup)
    sync_directory(directory)
    shutil.rmtree(building, ignore_errors=True)
    return RestoreResult(backup, index, term)


def _begin_log(saved: SavedSnapshot, server: ClusterServer, path: Path, term: int) -> int:
    """Write a new log: the snapshot, and a Configuration of only this server. Return the Configuration's index."""
    Storage.create(path, cluster=saved.cluster, server_id=server.id)
    storage = Storage.open(path, cluster=saved.cluster, server_id=server.id)
    try:
        index = saved.snapshot.index + 1
        alone = Configuration(index, saved.snapshot.configuration.log_index, (server,))
        group = storage.group()
        group.add(Write(HardState(term, server.id), 0, (), saved.snapshot, install=True))
        group.add(Write(None, index, (Entry(term, ValueType.CONFIGURATION, alone.encode()),)))
        storage.store(group)
    finally:
        storage.close()
    Storage.examine(path, cluster=saved.cluster, server_id=server.id)
    return index


def _begin_history(
    saved: SavedSnapshot, directory: Path, restoration: RestorePlan, rotation: Rotation, term: int
) -> None:
    history = History.open(
        directory, cluster=restoration.cluster, server_id=restoration.server.id, rotation=rotation, clock=now_ms
    )
    try:
        servers = [server.id for server in saved.snapshot.configuration.servers]
        history.restored(saved.snapshot.index, term, servers)
    finally:
        history.close()


def _replace_log(new_log: Path, database: Path, backup: Path) -> None:
    """Put the new log in the place of the old one.

    The side files of the old log are moved away first: SQLite would read an old WAL as part of the new log.
    """
    for path in sorted(database.parent.glob(database.name + "-*")):
        if path.is_file() and not path.name.endswith("-lock"):
            path.rename(backup / path.name)
    if database.exists():
        database.rename(backup / database.name)
    sync_directory(database.parent)
    new_log.rename(database)
