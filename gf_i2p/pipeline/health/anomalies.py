"""Finds the episodes of all farms: stretches of hours unlike the past of the same server, leaf or farm.

The rule is `episodes.episodes`. Spark brings a farm's hours together, and a Python worker judges one farm at a time. A
year of a server with two leaves is 26,280 rows of about 100 bytes.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as fn

from gf_i2p.pipeline.health.episodes import Episode, episodes
from gf_i2p.pipeline.health.measures import OF_LEAVES, OF_SERVERS, Measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SERVERS: Final = ("farm", "server", "hour_ms", "watched_ms", *(each.name for each in OF_SERVERS))
_LEAVES: Final = ("farm", "server", "hour_ms", "watched_ms", "destination", *(each.name for each in OF_LEAVES))
EPISODES: Final = (
    "farm string, subject string, server bigint, destination string, servers array<bigint>, measure string, "
    "begin_ms bigint, end_ms bigint, hours bigint, worst_ms bigint, value double, usual double, spread double, "
    "score double, text string"
)
"""The columns of the table `anomalies`: the farm, and the fields of `Episode`."""
_ARROW: Final = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "array<bigint>": pa.list_(pa.int64()),
}
_SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in (each.split() for each in EPISODES.split(", "))])


def anomalies(server_hours: "DataFrame", destination_hours: "DataFrame") -> "DataFrame":
    """Return a row for each episode, with the columns of `EPISODES`. All hours in the frames are judged."""
    servers, leaves = (
        hours.select(fn.col("farm").cast("string").alias("farm"), *names[1:]).groupBy("farm")
        for hours, names in ((server_hours, _SERVERS), (destination_hours, _LEAVES))
    )
    return servers.cogroup(leaves).applyInArrow(_of_farm, EPISODES)


def _of_farm(servers: pa.Table, leaves: pa.Table) -> pa.Table:
    if not servers.num_rows:
        return _SCHEMA.empty_table()
    farm = servers["farm"][0].as_py()
    found = episodes(_numpy(servers, OF_SERVERS), _numpy(leaves, OF_LEAVES))
    return pa.Table.from_pylist([{"farm": farm, **_fields(each)} for each in found], _SCHEMA)


def _numpy(table: pa.Table, measures: tuple[Measure, ...]) -> dict[str, NDArray[Any]]:
    """Return the columns; unknown numbers become NaN."""
    columns = {name: table[name].to_numpy() for name in ("server", "hour_ms", "watched_ms")}
    columns |= {each.name: table[each.name].to_numpy().astype(np.float64) for each in measures}
    if "destination" in table.column_names:
        columns["destination"] = table["destination"].to_numpy()
    return columns


def _fields(episode: Episode) -> dict[str, Any]:
    return {name: getattr(episode, name) for name in _SCHEMA.names if name != "farm"}
