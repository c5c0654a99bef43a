"""Reads the log of a stopped node: the servers, the last index and the term, and the voters in its committed part.

A log alone does not show which of its last entries are committed. But entries in the history or in a snapshot are
committed.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gf_i2p.farm.state import snapshot_fault
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.files.start_command import start_command
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_lines import Header
from gf_i2p.storage.history_reader import Scan, history_files
from gf_i2p.storage.loading import Loaded
from gf_i2p.wire.log_values import ClusterServer, Configuration


@dataclass(frozen=True, slots=True)
class StoppedLog:
    """The part of a stopped node's log that a recovery needs: farm, servers, last index, and the node's last term."""

    cluster: str
    server_id: int
    servers: tuple[ClusterServer, ...]
    """Servers of the newest Configuration in the log."""
    last_index: int
    term: int


def examine_stopped_log(directory: Path, config: Config) -> Loaded:
    """Check the log of the stopped node of this directory, its snapshot included. Raises `StorageError`."""
    cluster = config.node.cluster
    return Storage.examine(
        directory / DATABASE_FILE,
        cluster=cluster,
        server_id=config.node.id,
        check_snapshot=partial(snapshot_fault, cluster),
    )


def read_stopped_log(directory: Path) -> StoppedLog:
    """Read the log of the stopped node of this directory. Raises `ConfigError` or `StorageError`."""
    config = Config.load(directory)
    loaded = examine_stopped_log(directory, config)
    if loaded.snapshot_fault is not None:
        raise ConfigError(
            f"{loaded.snapshot_fault} This server alone cannot give the farm's state: recover from another "
            "one, or begin anew with a saved snapshot (gf-i2p snapshot restore)"
        )
    if loaded.configurations:
        current = Configuration.decode(loaded.configurations[-1][1])
    else:
        current = config.bootstrap if loaded.configuration is None else loaded.configuration
    return StoppedLog(config.node.cluster, config.node.id, current.servers, loaded.last_index, loaded.hard_state.term)


def voters_of_stopped(directory: Path) -> frozenset[int]:
    """Return the ids of the farm's voters, from the committed Configuration in a stopped node's log.

    Raises `ConfigError`, with advice, when the log cannot tell, and `StorageError` when the log cannot be read.
    """
    config = Config.load(directory)
    cluster, own_id = config.node.cluster, config.node.id
    run = f"start it ({start_command(directory)}), and try again when it has caught up with a leader"
    with Storage.reading(directory / DATABASE_FILE, cluster=cluster, server_id=own_id) as log:
        snapshot, stored = log.loaded.snapshot, log.loaded.configurations
    exported = exported_up_to(directory / HISTORY_DIRECTORY, cluster, own_id)
    covered = 0 if snapshot is None else snapshot.index
    if stored and stored[-1][0] > covered:
        index, newest = stored[-1][0], Configuration.decode(stored[-1][1])
    elif snapshot is not None:
        index, newest = covered, snapshot.configuration
    else:
        raise ConfigError(f"the log in {directory} has no Configuration yet: {run}")
    voters = frozenset(server.id for server in newest.servers)
    if own_id not in voters:
        raise ConfigError(f"the node of {directory} is no member by its own log: {run}")
    if index > max(exported, covered) and voters != {own_id}:  # in a farm of one server, every entry is committed
        raise ConfigError(
            f"the log in {directory}, where no node runs, does not show whether its newest Configuration is committed: "
            f"{run}"
        )
    return voters


def exported_up_to(directory: Path, cluster: str, server_id: int) -> int:
    """Return the last index in this server's history, which has only committed entries.

    Return 0 when the history is missing, cannot be read, or belongs to another server or farm.
    """
    try:
        newest = history_files(directory)[-1]
        with newest.plain.open("rb") as file:
            scan = Scan(newest.plain, file, newest.first, may_be_torn=True)
            for line in scan:
                if isinstance(line, Header) and (line.cluster, line.server) != (cluster, server_id):
                    return 0
            return scan.sequence.last_index
    except (OSError, IndexError, StorageError):
        return 0
