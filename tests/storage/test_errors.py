import sqlite3
from pathlib import Path

import pytest

from gf_i2p.storage.database import Storage
from gf_i2p.storage.errors import DamagedError, StorageError, explained, explaining
from gf_i2p.storage.log_tables import Tables


def error(code: int) -> sqlite3.Error:
    made = sqlite3.OperationalError("what SQLite says")
    made.sqlite_errorcode = code
    return made


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (sqlite3.SQLITE_FULL, "full: free some space"),
        (sqlite3.SQLITE_IOERR, "look into the system log"),
        (sqlite3.SQLITE_IOERR_FSYNC, "look into the system log"),
        (sqlite3.SQLITE_CANTOPEN, "must belong to the user"),
        (sqlite3.SQLITE_READONLY, "must belong to the user"),
        (sqlite3.SQLITE_BUSY, "end that program"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "end that program"),
        (sqlite3.SQLITE_CORRUPT, "remove the server from the farm"),
        (sqlite3.SQLITE_NOTADB, "remove the server from the farm"),
        (sqlite3.SQLITE_MISUSE, "what SQLite says"),
    ],
)
def test_each_error_of_sqlite_says_what_to_do(code: int, advice: str) -> None:
    found = explained(Path("/farm/log.db"), error(code))
    assert advice in str(found)
    assert str(found).count("/farm/log.db") == 1
    assert isinstance(found, DamagedError) == ("remove the server" in advice)


def test_a_disk_that_is_full_before_there_is_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise error(sqlite3.SQLITE_FULL)

    monkeypatch.setattr(Tables, "create", full)
    with pytest.raises(StorageError, match=r"is full: free some space, then repeat the command$"):
        Storage.create(tmp_path / "log.db", cluster="farm", server_id=1)


def test_an_error_without_a_code_is_told_as_it_is() -> None:
    assert "two words" in str(explained(Path("log.db"), sqlite3.ProgrammingError("two words")))


def test_explaining_keeps_the_cause_and_names_the_file() -> None:
    with pytest.raises(StorageError, match="full") as caught, explaining(Path("log.db")):
        raise error(sqlite3.SQLITE_FULL)
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    with pytest.raises(DamagedError, match="text"), explaining(Path("log.db")):
        b"\xcc".decode()
    with pytest.raises(StorageError, match="/somewhere/else: No space left on device"), explaining(Path("log.db")):
        raise OSError(28, "No space left on device", "/somewhere/else")
    with pytest.raises(StorageError, match=r"log\.db: No space"), explaining(Path("log.db")):
        raise OSError(28, "No space left on device")
