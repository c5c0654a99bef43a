"""Finds the files of histories under directories, on any file system, without reading the files."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.read.stored_file import file_system
from gf_i2p.storage.history_reader import FILE_NAME

MAX_DEPTH: Final = 6
"""Most levels of directories below a given directory."""
LISTED: Final = pa.schema({"path": pa.string(), "size": pa.int64(), "mtime_ms": pa.int64(), "error": pa.string()})
"""The files that were found; `size` is null for a directory that cannot be read."""


def not_listed(error: str) -> PipelineError:
    """Return the error for a given directory that cannot be listed. `error`: of `LISTED`."""
    return PipelineError(f"{error}. Give directories that contain nodes' histories.")


def listed(directories: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Find the files of histories. For `mapInArrow`: takes directories (column `path`), and yields rows of `LISTED`."""
    for batch in directories:
        for path in batch.column(0).to_pylist():
            rows: list[dict[str, Any]]
            try:
                rows = list(_files(path))
            except (OSError, pa.ArrowException) as error:
                rows = [{"path": path, "error": str(error)}]
            yield pa.RecordBatch.from_pylist(rows, LISTED)


def _files(path: str) -> Iterator[dict[str, Any]]:
    system, root = file_system(path)
    info = system.get_file_info(root)
    if info.type == pafs.FileType.NotFound:
        raise FileNotFoundError(f"{path}: there is no such directory")
    level = [info]
    for depth in range(MAX_DEPTH + 2):
        below: list[Any] = []
        for each in level:
            if each.type == pafs.FileType.Directory and depth <= MAX_DEPTH:
                try:
                    below += system.get_file_info(pafs.FileSelector(each.path))
                except UnicodeDecodeError as error:
                    name = error.object.decode("utf-8", "backslashreplace")
                    yield {"path": name, "error": "the name of this directory is not in UTF-8: rename the directory"}
                except OSError as error:
                    if not depth:
                        raise
                    if not isinstance(error, FileNotFoundError):  # a directory may go while its neighbours are listed
                        yield {"path": _address(path, each.path), "error": f"it cannot be listed: {error}"}
            elif each.type == pafs.FileType.File and first_index(file_path := _path(each)) is not None:
                mtime_ms = (each.mtime_ns or 0) // 1_000_000
                yield {"path": _address(path, file_path), "size": each.size, "mtime_ms": mtime_ms}
        level = below


def _path(info: Any) -> str:
    """Return the path of a file, or "" for a file whose name is not UTF-8: no history has such a file."""
    try:
        return str(info.path)
    except UnicodeDecodeError:
        return ""


def _address(directory: str, path: str) -> str:
    """Return `path` as an address if `directory` is an address, otherwise unchanged."""
    if "://" not in directory:
        return path
    parts = urlsplit(directory)
    return f"{parts.scheme}://{parts.netloc if path.startswith('/') else ''}{quote(path)}"


def first_index(path: str) -> int | None:
    """Return the index in the name of a history's file; None: the name is not that of a history's file."""
    name = FILE_NAME.fullmatch(path.rpartition("/")[2])
    return None if name is None else int(name[1])
