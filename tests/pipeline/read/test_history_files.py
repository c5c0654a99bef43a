"""Files of histories are found at any depth up to a limit, by path or address, and by their names only."""

import os
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from gf_i2p.pipeline.read import history_files
from gf_i2p.pipeline.read.arrivals import WANTED, arrivals
from gf_i2p.pipeline.read.history_files import MAX_DEPTH, first_index, listed
from gf_i2p.pipeline.read.stored_file import file_system
from tests.pipeline.made_up_exports import content, packed, plain


def test_where_histories_are(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdef"[:MAX_DEPTH])
    for directory in (tmp_path, tmp_path / "a b%20[1]", deep, deep / "g"):
        packed(directory, content([]))
    plain(tmp_path, b"")
    (tmp_path / "entries-1.jsonl").touch()
    (tmp_path / "node.db").touch()
    directories = pa.RecordBatch.from_pydict(
        {"path": [str(tmp_path), str(tmp_path / "none"), (tmp_path / "a b%20[1]").as_uri()]}
    )
    rows = [row for batch in listed(iter([directories])) for row in batch.to_pylist()]
    name = "entries-00000000000000000001.jsonl"
    assert {row["path"] for row in rows if row["path"].startswith("/") and not row["error"]} == {
        str(tmp_path / name),
        *(str(directory / name) + ".zst" for directory in (tmp_path, tmp_path / "a b%20[1]", deep)),
    }
    assert [row["error"] for row in rows if row["error"]] == [f"{tmp_path / 'none'}: there is no such directory"]
    address = (tmp_path / "a b%20[1]" / f"{name}.zst").as_uri()
    assert [row["path"] for row in rows if row["path"].startswith("file:")] == [address]
    for row in rows:
        if not row["error"]:
            (rows_of_file,) = arrivals(False, iter([pa.RecordBatch.from_pylist([row], WANTED)]))
            assert rows_of_file.to_pylist()[-1]["file"]["sha256"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = packed(tmp_path, content([]))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).touch()
    directories = pa.RecordBatch.from_pydict({"path": [str(tmp_path)]})
    assert [row["path"] for batch in listed(iter([directories])) for row in batch.to_pylist()] == [str(path)]
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")).mkdir()
    rows = [row for batch in listed(iter([directories])) for row in batch.to_pylist()]
    bad, good = sorted(rows, key=itemgetter("path"))
    assert (good["path"], good["error"]) == (str(path), None)
    assert (bad["path"], bad["size"]) == (f"{tmp_path}/d\\xff", None)
    assert bad["error"] == "the name of this directory is not in UTF-8: rename the directory"


def test_spark_says_s3a_where_arrow_says_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No real S3: a directory stands for all of S3, and has its paths."""
    stored = packed(tmp_path / "bucket" / "a b", content([]))
    asked: list[str] = []

    def opened(address: str) -> tuple[pafs.FileSystem, str]:
        asked.append(address)
        return pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem()), address.removeprefix("s3://")

    monkeypatch.setattr(pafs, "FileSystem", SimpleNamespace(from_uri=opened))
    directories = pa.RecordBatch.from_pydict({"path": ["s3a://bucket"]})
    (row,) = [row for batch in listed(iter([directories])) for row in batch.to_pylist()]
    assert row["path"] == f"s3a://bucket/a%20b/{stored.name}"
    assert row["size"] == stored.stat().st_size
    file_system("s3a://bucket/lake/files")
    file_system("hdfs://host:9000/lake")
    assert asked == ["s3://bucket", "s3://bucket/lake/files", "hdfs://host:9000/lake"]


def test_names() -> None:
    assert first_index("/x/entries-00000000000000000012.jsonl.gz") == 12
    assert first_index("/x/entries-00000000000000000012.jsonl.zst") == 12
    for name in (
        "entries-12.jsonl",
        "entries-0000000000000000001x.jsonl",
        "entries-00000000000000000012.jsonl.new",
        "x",
    ):
        assert first_index(name) is None


def test_one_directory_that_cannot_be_listed_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, who can list all: so the file system's answer is made up."""
    good = packed(tmp_path / "good", content([]))
    (tmp_path / "shut").mkdir()
    (tmp_path / "gone").mkdir()
    system, _ = file_system(str(tmp_path))

    class Shut:
        def get_file_info(self, what: object) -> object:
            base = getattr(what, "base_dir", "")
            if base.endswith("shut"):
                raise PermissionError("Permission denied")
            if base.endswith("gone"):
                raise FileNotFoundError("it has gone meanwhile")
            return system.get_file_info(what)

    monkeypatch.setattr(history_files, "file_system", lambda path: (Shut(), path))
    rows = [
        row
        for batch in listed(iter([pa.RecordBatch.from_pydict({"path": [str(tmp_path)]})]))
        for row in batch.to_pylist()
    ]
    assert {(row["path"], row["error"]) for row in rows} == {
        (str(good), None), (str(tmp_path / "shut"), "it cannot be listed: Permission denied"),
    }  # fmt: skip
