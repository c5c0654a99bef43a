"""Finds the episodes of all farms: stretches of hours unlike the past of the same server, leaf or farm.

The rule is `episodes.episodes`. Spark brings a farm's hours together, and a Python worker judges one farm at a time. A
year of a server with two leaves is 26,280 rows of about 100 bytes.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as fn

from gf_i2p.pipeline.health.episodes import episodes
from gf_i2p.pipeline.health.measures import OF_LEAVES, OF_SERVERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_HOURS: Final = ("farm", "server", "hour_ms", "watched_ms")
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
        hours.select(*names, *(fn.col(each.name).cast("double") for each in measures)).groupBy("farm")
        for hours, names, measures in (
            (server_hours, _OF_HOURS, OF_SERVERS),
            (destination_hours, (*_OF_HOURS, "destination"), OF_LEAVES),
        )
    )
    return servers.cogroup(leaves).applyInArrow(_of_farm, EPISODES)


def _of_farm(servers: pa.Table, leaves: pa.Table) -> pa.Table:
    if not servers.num_rows:
        return _SCHEMA.empty_table()
    farm = servers["farm"][0].as_py()
    found = episodes(*({name: table[name].to_numpy() for name in table.column_names} for table in (servers, leaves)))
    return pa.Table.from_pylist([{"farm": farm, **asdict(each)} for each in found], _SCHEMA)
