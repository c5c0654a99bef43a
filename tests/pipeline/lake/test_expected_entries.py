"""The sizes of files tell about how many entries a job reads."""

from pathlib import Path

from gf_i2p.pipeline.lake.expected_entries import ENTRY_BYTES, PACKED_ENTRY_BYTES, expected_entries
from gf_i2p.pipeline.lake.paths import Lake

HISTORY = "entries-00000000000000000001.jsonl"


def sparse(path: Path, size: int) -> None:
    """Make a file that has this size, and takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_histories_and_the_lake_count_by_their_sizes(tmp_path: Path) -> None:
    lake, exports = Lake(str(tmp_path / "lake")), tmp_path / "exports"
    assert expected_entries(lake, [str(exports)]) == 0
    sparse(Path(lake.path("entries"), "farm=a", "part-1.parquet"), 1_000 * PACKED_ENTRY_BYTES)
    sparse(exports / "server-1" / HISTORY, 200 * ENTRY_BYTES)
    sparse(exports / "server-2" / f"{HISTORY}.gz", 30 * PACKED_ENTRY_BYTES)
    sparse(exports / "server-3" / f"{HISTORY}.zst", 4 * PACKED_ENTRY_BYTES)
    sparse(exports / "film.mkv", 1 << 40)
    assert expected_entries(lake) == 1_000
    assert expected_entries(lake, [str(exports)]) == 1_234


def test_the_size_at_an_address_is_not_known(tmp_path: Path) -> None:
    assert expected_entries(Lake(str(tmp_path)), ["hdfs://host/exports"]) is None
    assert expected_entries(Lake("hdfs://host/lake")) is None
