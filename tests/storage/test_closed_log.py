"""A log that no node has open is read without a trace: after a clean end, and after a kill with frames in the WAL."""

from contextlib import closing
from pathlib import Path

import pytest

from gf_i2p.storage import wal
from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import LostError, StorageError
from tests.storage.random_writes import CLUSTER, SERVER, SMALL, copied, create, filled, open_log, state_of, store


def content(directory: Path) -> dict[str, bytes]:
    files = [each for each in directory.iterdir() if each.is_file() and not each.name.endswith(("-lock", "-shm"))]
    return {each.name: each.read_bytes() for each in files}


@pytest.mark.parametrize("killed", [False, True])
def test_it_has_everything_and_stays_as_it_is(tmp_path: Path, killed: bool) -> None:
    if killed:
        with closing(open_log(create(tmp_path))) as storage:
            store(storage, *SMALL)
            path = copied(storage.path, tmp_path / "copy")
        assert wal.usable_bytes(path) > 0
    else:
        path = filled(tmp_path, SMALL)
    truth = copied(path, tmp_path / "truth")
    before = content(path.parent)
    with Storage.reading(path, cluster=CLUSTER, server_id=SERVER) as log:
        state = state_of(log)
        with pytest.raises(StorageError, match="in use"):
            open_log(path)
        with pytest.raises(StorageError, match="in use"), Storage.reading(path, cluster=CLUSTER, server_id=SERVER):
            pass
    assert content(path.parent) == before
    with closing(open_log(truth)) as storage:
        assert state_of(storage) == state


def test_what_is_missing_or_foreign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LostError, match="is missing"), Storage.reading(tmp_path / "no", cluster=CLUSTER, server_id=1):
        pass
    path = filled(tmp_path, SMALL)
    with pytest.raises(StorageError, match="says server 8"), Storage.reading(path, cluster=CLUSTER, server_id=8):
        pass
