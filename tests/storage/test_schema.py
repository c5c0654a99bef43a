import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gf_i2p.storage import schema
from gf_i2p.storage.errors import DamagedError
from tests.storage.random_writes import SMALL, filled
from tests.storage.refusal import refusal


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE server (cluster, id)")
        other.commit()
    assert "of another program" in refusal(path)
    assert {file.name for file in tmp_path.iterdir()} == {"log.db", "log.db-lock"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "only 0 bytes"),
        (b"SQLite format 3\0", "only 16 bytes"),
        (b"server = 7\n" * 1000, "not an SQLite database"),
        (bytes(100_000), "not an SQLite database"),
    ],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(content)
    text = refusal(path, DamagedError)
    assert message in text
    assert "add a new one, with a new id" in text


def test_a_newer_format_asks_for_the_newer_program(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    version = schema.SCHEMA_VERSION
    assert f"newer gf-i2p (format {version + 1}; this one knows {version})" in refusal(path)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 0")
    assert "format 0" in refusal(path, DamagedError)


def test_a_format_from_before_the_first_release_says_what_to_do(tmp_path: Path) -> None:
    path = filled(tmp_path, SMALL)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 1")
    text = refusal(path)
    known = schema.SCHEMA_VERSION
    assert (
        f"before gf-i2p 0.1.0 (format 1; this program knows {known}). Nothing was changed. Run the gf-i2p that" in text
    )
    assert "add a new one, with a new id" in text
