"""Where the pipeline keeps its tables: one directory, Parquet, on any file system that Spark knows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gf_i2p.pipeline.errors import UsageError

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


_PATTERN: Final = frozenset("{}[]*?\\")
_PLAIN: Final = "/-._~:=@+,"
"""What stands for itself in the path of an address: where Arrow takes %20 for a space, Spark looks for "%20"."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of one pipeline."""

    root: str
    """A directory, or its address: file:///…, hdfs://… A path is absolute, whatever was given; see `absolute`.

    `UsageError` is raised for one that Spark and Arrow do not read alike.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", absolute(self.root))
        _, is_address, below = self.root.partition("://")
        if not is_address:
            if found := _PATTERN.intersection(self.root):
                raise UsageError(f"{self.root}: {min(found)} is a pattern to Spark. Give the lake another name.")
            return
        _, _, inside = below.partition("/")
        if inside != quote(inside, safe=_PLAIN):
            raise UsageError(f"{self.root}: as an address a lake has only ASCII letters, digits, and {_PLAIN}")

    def path(self, table: str) -> str:
        """Return where a table is. `table`: one of `TABLES`."""
        assert table in TABLES
        return f"{self.root.rstrip('/')}/{table}"


def absolute(path: str) -> str:
    """Return an address as it is, a path from the root: Spark may run in another directory than the command."""
    return path if "://" in path else str(Path(path).absolute())
