"""Guesses from the sizes of files whether a job has few entries, before Spark starts."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.read.history_files import first_index
from gf_i2p.pipeline.read.stored_file import packing_of

MOST_ENTRIES: Final = 250_000
"""Most entries for which a Spark that starts and plans quickly needs less processor time than a usual Spark."""
_ENTRY_BYTES: Final = 800
"""Bytes of an entry in a plain history, about; 12 times as many as in a packed file or in the lake."""
_PACKED_ENTRY_BYTES: Final = 65


def are_few(lake: Lake, exports: Sequence[str] = ()) -> bool:
    """Return whether the lake and the histories under the directories `exports` have few entries, by their sizes.

    False for a lake or histories at an address, whose sizes are not known.
    """
    if any("://" in place for place in (lake.root, *exports)):
        return False
    count = 0.0
    for place in (lake.path("entries"), *exports):
        for size in _sizes(Path(place)):
            count += size
            if count > MOST_ENTRIES:
                return False
    return True


def _sizes(directory: Path) -> Iterator[float]:
    """Yield the number of entries that each file has, about."""
    for folder, _, names in os.walk(directory):
        for name in names:
            is_history = first_index(name) is not None
            if not is_history and not name.endswith(".parquet"):
                continue
            try:
                size = Path(folder, name).stat().st_size
            except OSError:  # the file is gone, or the job tells of the fault
                continue
            is_plain = is_history and not packing_of(name)
            yield size / (_ENTRY_BYTES if is_plain else _PACKED_ENTRY_BYTES)
