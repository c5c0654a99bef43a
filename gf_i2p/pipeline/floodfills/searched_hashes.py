"""Collects the hashes to look for: masters and leaves of the lake's farms, and the hashes that the operator gives."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as fn

from gf_i2p.netdb.encoding import HASH_BYTES
from gf_i2p.pipeline.floodfills.base64_columns import decoded_if_valid
from gf_i2p.pipeline.floodfills.given_hashes import SoughtLeaseSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEAST_DESTINATION: Final = 387
"""Bytes of the shortest destination."""


def targets_of(spark: "SparkSession", sought: list[SoughtLeaseSet], entries: "DataFrame | None") -> "DataFrame | None":
    """Return each hash once, as columns `hash` (32 bytes) and `name`; None without `sought` and without `entries`.

    `entries`: the lake's table. A name that the operator gives wins over a farm's name. The command `post` finds a
    farm's hashes by the farm's name.
    """
    frames = []
    if sought:
        table = pa.table(
            {
                "hash": pa.array([each.hash for each in sought], pa.binary()),
                "name": pa.array([each.name for each in sought], pa.string()),
                "order": pa.array([0 if each.is_named else 3 for each in sought], pa.int32()),
            }
        )
        frames.append(spark.createDataFrame(table, "hash binary, name string, order int"))
    if entries is not None:
        frames += _reported(entries)
    if not frames:
        return None
    hashes = frames[0]
    for frame in frames[1:]:
        hashes = hashes.unionByName(frame)
    best = fn.min(fn.struct("order", "name")).alias("best")
    return hashes.groupBy("hash").agg(best).select("hash", fn.col("best.name").alias("name"))


def _reported(entries: "DataFrame") -> list["DataFrame"]:
    """Return two frames, of masters and of leaves, from the farms' records. The columns are hash, name and order.

    A record names a master by the destination, and a leaf by the hash.
    """
    records = entries.where((fn.col("kind") == "status") & fn.col("misfit").isNull() & fn.col("record").isNotNull())
    master = decoded_if_valid(fn.col("destination"))
    masters = (
        records.select("farm", fn.col("record.meta.destination").alias("destination"))
        .distinct()
        .where(fn.length(master) >= _LEAST_DESTINATION)
        .select(
            fn.unhex(fn.sha2(master, 256)).alias("hash"),
            fn.concat(fn.col("farm"), fn.lit(": master")).alias("name"),
            fn.lit(1).alias("order"),
        )
    )
    leaf = decoded_if_valid(fn.col("leaf"))
    leaves = (
        records.select(
            "farm", fn.col("record.id").alias("server"), fn.explode("record.destinations.hash").alias("leaf")
        )
        .distinct()
        .where(fn.length(leaf) == HASH_BYTES)
        .select(
            leaf.alias("hash"),
            fn.concat(fn.col("farm"), fn.lit(": leaf of server "), fn.col("server")).alias("name"),
            fn.lit(2).alias("order"),
        )
    )
    return [masters, leaves]
