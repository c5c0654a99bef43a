"""Guesses from the sizes of files how many entries a job reads, before Spark starts."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.read.history_files import first_index
from gf_i2p.pipeline.read.stored_file import packing_of

ENTRY_BYTES: Final = 800
"""Bytes of an entry in a plain history, about."""
PACKED_ENTRY_BYTES: Final = 65
"""Bytes of an entry in a packed history or in the lake, about."""


def expected_entries(lake: Lake, exports: Sequence[str] = ()) -> int | None:
    """Return about how many entries the lake and the histories under the directories `exports` have.

    None: the lake or a history is at an address, so its size is not known.
    """
    if any("://" in place for place in (lake.root, *exports)):
        return None
    return round(sum(count for place in (lake.path("entries"), *exports) for count in _counts(Path(place))))


def _counts(directory: Path) -> Iterator[float]:
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
            yield size / (ENTRY_BYTES if is_plain else PACKED_ENTRY_BYTES)
