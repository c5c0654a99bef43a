"""Makes a farm of one remaining server, when the majority is lost for good (docs/design/restore.md).

Raft cannot do this: without a majority there is no decision. The server's whole log becomes the farm's log, committed
or not. Entries that only other servers had are lost, even acknowledged entries. So an operator must decide.

The old farm is kept apart from the new one in the same way as after a restored snapshot: see `restore`.
"""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.layout import DATABASE_FILE
from gf_i2p.node.files.peer_removal import free_path, replace_files, term_beyond, without_others
from gf_i2p.node.files.transaction import changing
from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.database import Storage
from gf_i2p.storage.private_files import Lock, sync_directory, sync_file
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import ClusterServer, Configuration


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery."""

    backup: Path
    """Copy of the log before the recovery."""
    index: int
    """Index of the Configuration that names this server alone."""
    term: int


@dataclass(frozen=True, slots=True)
class Look:
    """The log of a stopped node, as far as a recovery needs it: farm, servers, last index and term."""

    cluster: str
    server_id: int
    servers: tuple[ClusterServer, ...]
    """Servers of the newest Configuration in the log."""
    last_index: int
    term: int


def look(directory: Path) -> Look:
    """Read the log of the stopped node of this directory. Raises `ConfigError` or `StorageError`."""
    config = Config.load(directory)
    loaded = Storage.examine(directory / DATABASE_FILE, cluster=config.node.cluster, server_id=config.node.id)
    if loaded.snapshot_fault is not None:
        raise ConfigError(
            f"{loaded.snapshot_fault} This server alone cannot give the farm's state: recover from another one"
        )
    if loaded.configurations:
        current = Configuration.decode(loaded.configurations[-1][1])
    else:
        current = config.bootstrap if loaded.configuration is None else loaded.configuration
    return Look(config.node.cluster, config.node.id, current.servers, loaded.last_index, loaded.hard_state.term)


def recover(directory: Path) -> Recovered:
    """Make the server of this directory the only one of its farm; its node must not run.

    The log is changed last: after an error, the old log is still there, and the recovery can be repeated. Raises
    `ConfigError`, `StorageError` or `OSError`.
    """
    lock = Lock((directory / DATABASE_FILE).resolve())
    try:
        with changing(directory):
            return _recover(directory)
    finally:
        lock.close()


def _recover(directory: Path) -> Recovered:
    found = look(directory)
    database = directory / DATABASE_FILE
    own = next((server for server in found.servers if server.id == found.server_id), None)
    if own is None:
        raise ConfigError(f"server {found.server_id} is no member of the farm by its own log: recover from a member")
    term = term_beyond(found.term)
    texts = without_others(directory, found.server_id)
    backup = _back_up(database)
    storage = Storage.open(database, cluster=found.cluster, server_id=found.server_id, locked=True)
    try:
        replace_files(directory, texts, backup)  # before the log: see `recover`
        index = found.last_index + 1
        before = storage.loaded.configurations
        alone = Configuration(index, before[-1][0] if before else 0, (own,))
        group = storage.group()
        group.add(
            Write(HardState(term, found.server_id), index, (Entry(term, ValueType.CONFIGURATION, alone.encode()),))
        )
        storage.store(group)
    finally:
        storage.close()
    return Recovered(backup, index, term)


def _back_up(database: Path) -> Path:
    """Copy the log and its side files into a new directory beside the log; sync that directory and return it."""
    name = f"{database.name}-before-recovery-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    backup = free_path(database.parent, name)
    backup.mkdir(mode=0o700)
    for path in sorted(database.parent.glob(database.name + "*")):
        if path.is_file() and not path.name.endswith("-lock"):
            shutil.copy2(path, backup / path.name)
            sync_file(backup / path.name)
    sync_directory(backup)
    sync_directory(backup.parent)
    return backup
