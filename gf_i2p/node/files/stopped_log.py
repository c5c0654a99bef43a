"""What is committed for sure in the log of a node that does not run, and who belongs to the farm by that.

No server knows by its log alone how much of its end is committed. But what is exported, or in a snapshot, is committed.
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
    """Return the ids of the servers that belong to the farm, by the committed Configuration in a stopped node's log.

    Raises `ConfigError`, with what to do, when the log cannot tell, and `StorageError` when it cannot be read.
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
        raise ConfigError(f"the node of {directory} is no member, as far as its log goes: {run}")
    if index > max(sure, covered) and members != {own}:  # what one of one has is committed
        raise ConfigError(
            f"who belongs to it is not known to be committed in the log in {directory}, where no node runs: {run}"
        )
    return members


def exported_up_to(directory: Path, cluster: str, server_id: int) -> int:
    """Return the last index in this server's history, for only what is committed is exported; 0: it says nothing."""
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
