"""Replaces files of tables by merged files. A process that is killed at any moment loses no row, and doubles no row.

The merged files wait in `LAKE/_compact`, with the same relative paths as later in `LAKE`. A manifest there names the
merged files and the old files. With the manifest the replacement is decided: `finish` does the rest, perhaps in the
process of the next job. Without a manifest, `finish` deletes what is in `LAKE/_compact`.
"""

import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.locks import table_locked
from gf_i2p.pipeline.lake.paths import PARTITIONS, TABLES
from gf_i2p.storage.private_files import sync_directory, sync_file, write_durably

STAGE: Final = "_compact"
"""The directory of merged files, and the name of the lock for this directory."""
_MANIFEST: Final = f"{STAGE}/manifest.json"


def table_files(root: Path, table: str) -> list[Path]:
    """Return the Parquet files of a table, in a lake or in another directory with tables."""
    found = root.glob("/".join((table, *(f"{column}=*" for column in PARTITIONS.get(table, ())), "*.parquet")))
    return sorted(path for path in found if not path.name.startswith((".", "_")))


def finish(root: Path) -> None:
    """Finish the replacement that a killed process has left in the lake, if any. Each job calls this before it reads.

    While another process replaces files, this function waits. While another process still merges, this function does
    nothing. Raises `PipelineError` and `OSError`.
    """
    if not (root / STAGE).is_dir():
        return
    is_decided = (root / _MANIFEST).exists()
    with ExitStack() as lock:
        try:
            lock.enter_context(table_locked(root, STAGE, "compact", waits=is_decided))
        except PipelineError:
            if is_decided:
                raise
            return
        roll_forward(root)


def decide(root: Path, new: Sequence[Path], old: Sequence[Path]) -> None:
    """Decide that merged files in `LAKE/_compact` replace old files of the lake. The caller holds the lock `STAGE`."""
    for path in new:
        sync_file(path)
    for directory in {path.parent for path in new}:
        sync_directory(directory)
    names = {
        "new": [str(path.relative_to(root / STAGE)) for path in new],
        "old": [str(path.relative_to(root)) for path in old],
    }
    write_durably(root / _MANIFEST, json.dumps(names).encode(), force=True)


def roll_forward(root: Path) -> None:
    """Do what the manifest says, if there is one, and delete `LAKE/_compact`. The caller holds the lock `STAGE`.

    Raises `PipelineError`, before a file is deleted, for a manifest that does not fit to the files.
    """
    manifest = root / _MANIFEST
    if manifest.exists():
        new, old = _read(manifest)
        for name in new:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            for path in (_checksum(root / name), root / name):
                waiting = root / STAGE / path.relative_to(root)
                if waiting.exists():
                    waiting.replace(path)
            if not (root / name).exists():
                raise PipelineError(
                    f"{manifest} names {name}, and this file is missing: nothing was deleted. Put the file back, or "
                    f"delete {root / STAGE} and make a new lake of the exports."
                )
        for name in old:
            for path in (_checksum(root / name), root / name):
                path.unlink(missing_ok=True)
        for directory in {(root / name).parent for name in (*new, *old)}:
            if directory.exists():
                sync_directory(directory)
        manifest.unlink()
    shutil.rmtree(root / STAGE, ignore_errors=True)  # what remains is deleted by the next job


def _read(manifest: Path) -> tuple[list[str], list[str]]:
    """Return the names of new and old files. No name leads out of the tables: the lake may come from elsewhere."""
    try:
        data = json.loads(manifest.read_bytes())
        return [_checked(name) for name in data["new"]], [_checked(name) for name in data["old"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise PipelineError(
            f"{manifest} is no list of files ({error}): rows may be there twice. Make a new lake of the exports."
        ) from None


def _checked(name: str) -> str:
    parts = Path(name).parts
    if ".." in parts or parts[0] not in TABLES:
        raise ValueError(name)
    return name


def _checksum(path: Path) -> Path:
    """Return the path of the checksum that Hadoop's local file system keeps beside a file."""
    return path.with_name(f".{path.name}.crc")
