"""The committed part of a stopped node's log, and the members of the farm by that part.

A log alone does not show which of its last entries are committed. But entries in the history or in a snapshot are
committed.
"""

from pathlib import Path

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.layout import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.history_lines import Header
from gf_i2p.storage.history_reader import Scan, history_files
from gf_i2p.wire.limits import MAX_INTEGER
from gf_i2p.wire.log_values import Configuration


def members_of_stopped(directory: Path) -> frozenset[int]:
    """Return the ids of the farm's members, by the committed Configuration in a stopped node's log.

    Raises `ConfigError`, with advice, when the log cannot tell, and `StorageError` when the log cannot be read.
    """
    config = Config.load(directory)
    cluster, own = config.node.cluster, config.node.id
    run = f"start it (gf-i2p run {directory}), and try again when it has caught up with a leader"
    with Storage.reading(directory / DATABASE_FILE, cluster=cluster, server_id=own) as log:
        snapshot, stored = log.loaded.snapshot, log.loaded.configurations
    sure = exported_up_to(directory / HISTORY_DIRECTORY, cluster, own)
    covered = 0 if snapshot is None else snapshot.index
    if stored and stored[-1][0] > covered:
        index, newest = stored[-1][0], Configuration.decode(stored[-1][1])
    elif snapshot is not None:
        index, newest = covered, snapshot.configuration
    else:
        raise ConfigError(f"the log in {directory} has no Configuration yet: {run}")
    members = frozenset(server.id for server in newest.servers)
    if own not in members:
        raise ConfigError(f"the node of {directory} is no member by its own log: {run}")
    if index > max(sure, covered) and members != {own}:  # in a farm of one, every entry is committed
        raise ConfigError(
            f"the log in {directory}, where no node runs, does not show whether its newest Configuration is committed: "
            f"{run}"
        )
    return members


def exported_up_to(directory: Path, cluster: str, server_id: int) -> int:
    """Return the last index in this server's history, which has only committed entries; 0 when nothing is known."""
    try:
        newest = history_files(directory)[-1]
        with newest.plain.open("rb") as file:
            found = Scan(newest.plain, file, newest.first, may_be_torn=True, look_until=MAX_INTEGER)
            for line in found:
                if isinstance(line, Header) and (line.cluster, line.server) != (cluster, server_id):
                    return 0
            return found.sequence.last_index
    except (OSError, IndexError, StorageError):
        return 0
