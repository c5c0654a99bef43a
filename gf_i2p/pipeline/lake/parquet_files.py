"""Finds the Parquet files of a table without Spark, on any file system that Arrow knows."""

import pyarrow.fs as pafs

from gf_i2p.pipeline.read.stored_file import file_system


def parquet_sizes(path: str) -> list[int]:
    """Return the bytes of each Parquet file of the table at `path`, without files that readers ignore.

    No files: there is no such table. Raises `OSError` and `pyarrow.ArrowException`.
    """
    system, inside = file_system(path)
    infos = system.get_file_info(pafs.FileSelector(inside, recursive=True, allow_not_found=True))
    files = {info.path.removeprefix(inside): info.size for info in infos if info.type == pafs.FileType.File}
    return [size for name, size in files.items() if name.endswith(".parquet") and "/_" not in name and "/." not in name]
