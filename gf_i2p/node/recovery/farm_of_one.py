"""Makes a farm of one remaining server, when the majority is lost for good (docs/design/restore.md).

Raft cannot do this: without a majority there is no decision. The server's whole log becomes the farm's log, committed
or not. Entries that only other servers had are lost, even acknowledged entries. So an operator must decide.

The old farm is kept apart from the new one in the same way as after a restored snapshot: see `restore`.
"""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from gf_i2p.node.files import admitted, committed_keys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.node.files.peer_removal import without_others
from gf_i2p.node.files.stopped_log import read_stopped_log
from gf_i2p.node.files.transaction import changing, free_path, replace_files
from gf_i2p.node.recovery.new_term import term_beyond
from gf_i2p.raft.effects import HardState, Write
from gf_i2p.storage.database import Storage
from gf_i2p.storage.private_files import Lock, sync_directory, sync_file
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery."""

    backup: Path
    """Copy of the log before the recovery."""
    index: int
    """Index of the Configuration that names this server alone."""
    term: int


def recover(directory: Path) -> Recovered:
    """Make the server of this directory the only one of its farm; its node must not run.

    The log is changed last: after an error, the old log is still there, and the recovery can be repeated. Raises
    `ConfigError`, `StorageError` or `OSError`.
    """
    lock = Lock(directory / DATABASE_FILE)
    try:
        with changing(directory):
            return _recover(directory)
    finally:
        lock.close()


def _recover(directory: Path) -> Recovered:
    log = read_stopped_log(directory)
    database = directory / DATABASE_FILE
    survivor = next((server for server in log.servers if server.id == log.server_id), None)
    if survivor is None:
        raise ConfigError(f"server {log.server_id} is no member of the farm by its own log: recover from a member")
    term = term_beyond(log.term)
    texts = without_others(directory, log.server_id)
    backup = _back_up(database)
    storage = Storage.open(database, cluster=log.cluster, server_id=log.server_id, locked=True)
    try:
        replace_files(directory, texts, backup)  # before the log: see `recover`
        committed_keys.forget(directory)
        admitted.forget(directory)
        index = log.last_index + 1
        configurations = storage.loaded.configurations
        alone = Configuration(index, configurations[-1][0] if configurations else 0, (survivor,))
        group = storage.group()
        group.add(Write(HardState(term, log.server_id), index, (Entry(term, ValueType.CONFIGURATION, alone.encode()),)))
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
