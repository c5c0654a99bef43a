"""A job with few entries is known by the sizes of files."""

from pathlib import Path

import pytest

from gf_i2p.pipeline.lake.few_rows import MOST_ENTRIES, are_few
from gf_i2p.pipeline.lake.paths import Lake

HISTORY = "entries-00000000000000000001.jsonl"


def sparse(path: Path, size: int) -> None:
    """Make a file that has this size, and takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize(
    ("name", "entry_bytes"), [(HISTORY, 800), (f"{HISTORY}.gz", 65), (f"{HISTORY}.zst", 65), ("part-1.parquet", 65)]
)
def test_sizes_of_histories_and_of_the_lake_count(name: str, entry_bytes: int, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    assert are_few(lake, [str(tmp_path / "nothing")])
    place = Path(lake.path("entries"), "farm=a") if name.endswith("parquet") else tmp_path / "exports" / "server-1"
    sparse(place / name, MOST_ENTRIES * entry_bytes // 2)
    assert are_few(lake, [str(tmp_path / "exports")])
    sparse(tmp_path / "exports" / "server-2" / HISTORY, MOST_ENTRIES * 800 // 2 + 800)
    assert not are_few(lake, [str(tmp_path / "exports")])


def test_other_files_do_not_count_and_addresses_may_have_many_rows(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    sparse(tmp_path / "exports" / "film.mkv", 1 << 40)
    assert are_few(lake, [str(tmp_path / "exports")])
    assert not are_few(lake, ["hdfs://host/exports"])
    assert not are_few(Lake("hdfs://host/lake"))
