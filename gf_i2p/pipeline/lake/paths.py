"""The paths of the pipeline's tables: Parquet files below one directory, on any file system that Spark knows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gf_i2p.pipeline.errors import UsageError

TABLES: Final = {
    "entries": "ingest",
    "quarantine": "ingest",
    "files": "ingest",
    "server_hours": "health",
    "destination_hours": "health",
    "anomalies": "health",
    "alerts": "stream",
    "decisions": "backtest",
    "backtest": "backtest",
    "backtest_days": "backtest",
    "routers": "floodfills",
    "closest": "floodfills",
}
"""The job that makes each table."""
PARTITIONS: Final = {
    "entries": ("farm", "day"),
    "server_hours": ("farm", "day"),
    "destination_hours": ("farm", "day"),
}
"""The columns by which a table's files are partitioned; the other tables have no partitions."""


_PATTERN: Final = frozenset("{}[]*?\\")
_PLAIN: Final = "/-._~:=@+,"
"""Characters that an address needs no escape for. Escapes are refused: Arrow reads %20 as a space, Spark as "%20"."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of one pipeline."""

    root: str
    """A directory, or its address: file:///…, hdfs://… A path is made absolute, see `absolute`.

    `UsageError` is raised for a root that Spark and Arrow would read differently.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", absolute(self.root))
        _, is_address, below = self.root.partition("://")
        if not is_address:
            if patterns := _PATTERN.intersection(self.root):
                raise UsageError(f"{self.root}: Spark reads {min(patterns)} as a pattern. Give the lake another name.")
            return
        _, _, inside = below.partition("/")
        if inside != quote(inside, safe=_PLAIN):
            raise UsageError(f"{self.root}: the address of a lake has only ASCII letters, digits and {_PLAIN}")

    def path(self, table: str) -> str:
        """Return the path of a table. `table`: one of `TABLES`."""
        assert table in TABLES
        return f"{self.root.rstrip('/')}/{table}"


def absolute(path: str) -> str:
    """Return an address unchanged, a path as an absolute path: Spark may have another working directory."""
    return path if "://" in path else str(Path(path).absolute())
