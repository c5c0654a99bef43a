"""The error of a log that refuses to open."""

from pathlib import Path

import pytest

from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import LostError, StorageError
from tests.storage.random_writes import CLUSTER, SERVER


def refusal(
    path: Path, kind: type[StorageError] = StorageError, cluster: str = CLUSTER, server_id: int = SERVER
) -> str:
    """Give the error of opening; the file must stay unchanged and unlocked."""
    before = path.read_bytes() if path.exists() else None
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            Storage.open(path, cluster=cluster, server_id=server_id)
        assert type(caught.value) in ({kind, LostError} if kind is StorageError else {kind})
    assert (path.read_bytes() if path.exists() else None) == before
    return str(caught.value)
