"""Where the pipeline keeps its tables: one directory, Parquet, on any file system that Spark knows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

TABLES: Final = (
    "entries",
    "quarantine",
    "files",
    "server_hours",
    "destination_hours",
    "anomalies",
    "alerts",
    "decisions",
    "backtest",
    "routers",
    "closest",
)
PARTITIONS: Final = {
    "entries": ("farm", "day"),
    "server_hours": ("farm", "day"),
    "destination_hours": ("farm", "day"),
}
"""By which columns a table's files are apart; the others are whole."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of one pipeline."""

    root: str
    """A directory, or its address: file:///…, hdfs://… A path is absolute, whatever was given; see `absolute`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", absolute(self.root))

    def path(self, table: str) -> str:
        """Return where a table is. `table`: one of `TABLES`."""
        assert table in TABLES
        return f"{self.root.rstrip('/')}/{table}"


def absolute(path: str) -> str:
    """Return an address as it is, a path from the root: Spark may run in another directory than the command."""
    return path if "://" in path else str(Path(path).absolute())
