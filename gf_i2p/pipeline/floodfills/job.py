"""The job `floodfills`: finds the floodfills that should store the lease sets of a farm's hashes, on three days.

These floodfills are proposal 150's sensing group ("Remote Sensing"). All workers parse RouterInfos and profiles. Spark
sends the sorted hashes of all floodfills, 32 bytes each, to every worker. A worker looks up all keys of a batch at
once.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as fn

from gf_i2p.netdb.encoding import HASH_BYTES
from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.floodfills import base64_columns
from gf_i2p.pipeline.floodfills.closest_floodfills import SortedHashes, to_bytes, to_words
from gf_i2p.pipeline.floodfills.given_hashes import SoughtLeaseSet
from gf_i2p.pipeline.floodfills.router_files import find_router_files, read_router_files
from gf_i2p.pipeline.floodfills.searched_hashes import targets_of
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.lake.quarantine import not_in_quarantine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLOSEST: Final = 8
"""Floodfills for each hash and day; a lease set is on four to six floodfills at any moment."""
MAX_FLOODFILLS: Final = 1_000_000
"""Most floodfills. The driver and each worker hold the hashes of all floodfills: up to 32 MB."""
_FOUND_TYPE: Final = "hash binary, name string, day string, rank int, floodfill binary, distance binary"
_TARGET_PARTS: Final = 16
"""Most partitions of the sought hashes. Without this limit, a shuffle would leave hundreds of partitions in memory."""


@dataclass(frozen=True, slots=True)
class FloodfillOptions:
    """The routers, hashes and days of one run."""

    netdbs: list[str]
    """Directories of netDbs, or of routers with a netDb, or the addresses of such directories."""
    day: date
    """The middle day of the three, in UTC."""
    profiles: list[str] = field(default_factory=list)
    targets: list[SoughtLeaseSet] = field(default_factory=list)
    """Hashes besides the hashes of the lake's farms."""
    net_id: int | None = None
    """Only floodfills of this network count; 2 is the live network. None: any network."""
    within_hours: int | None = None
    """Greatest age of a RouterInfo, in hours before now, or before the end of a past `day`. None: any age."""


@dataclass(frozen=True, slots=True)
class FloodfillFigures:
    """Counts, bytes and durations of one run of the job `floodfills`."""

    files: int
    bytes: int
    routers: int
    unverified: int
    """Routers with a signature type that this program cannot verify."""
    profiles: int
    """Routers with a profile."""
    quarantined: int
    """Files in quarantine."""
    floodfills: int
    """Floodfills of the wanted network and age."""
    hashes: int
    rows: int
    """Rows of the table `closest`."""
    parse_seconds: float
    closest_seconds: float


def find_closest(
    spark: "SparkSession", lake: Lake, options: FloodfillOptions, now_ms: int, progress: Callable[[str], None]
) -> FloodfillFigures:
    """Make the tables `routers` and `closest` anew, and add to `quarantine`.

    `now_ms`: milliseconds since the epoch. The job calls `progress` with the name of each step. Raises `PipelineError`.
    """
    targets = targets_of(spark, options.targets, tables.read_entries(spark, lake))
    if targets is None:
        raise PipelineError(
            f"There are no hashes to look for: fill {lake.root} with `gf-i2p pipeline ingest`, or give --hash"
        )
    targets = targets.coalesce(_TARGET_PARTS).persist()
    try:
        hashes = targets.count()
        if not hashes:
            raise PipelineError(f"No record in {lake.root} names a master or a leaf: give hashes with --hash")
        progress("looking for the files of routers")
        files = find_router_files(options.netdbs, options.profiles)
        progress(f"reading {files.num_rows} files of routers")
        began = time.monotonic()
        quarantined = write_routers(spark, lake, files, now_ms)
        parsed = time.monotonic()
        routers = spark.read.parquet(lake.path("routers"))
        floodfills = counting(routers, options, now_ms)
        progress(f"looking for the closest of {len(floodfills)} floodfills to {hashes} hashes")
        write_closest(spark, lake, targets, options.day, floodfills)
        ended = time.monotonic()
        (counts,) = routers.agg(
            fn.count("*").alias("routers"),
            fn.count_if(~routers.verified).alias("unverified"),
            fn.count("profile").alias("profiles"),
        ).collect()
        return FloodfillFigures(
            files=files.num_rows,
            bytes=sum(files.column("length").to_pylist()),
            routers=counts.routers,
            unverified=counts.unverified,
            profiles=counts.profiles,
            quarantined=quarantined,
            floodfills=len(floodfills),
            hashes=hashes,
            rows=spark.read.parquet(lake.path("closest")).count(),
            parse_seconds=parsed - began,
            closest_seconds=ended - parsed,
        )
    finally:
        targets.unpersist()


# Routers -------------------------------------------------------------------------------------------------------------


def write_routers(spark: "SparkSession", lake: Lake, files: pa.Table, now_ms: int) -> int:
    """Write the table `routers`, add the broken files to `quarantine`, and return the number of broken files.

    If a router has several RouterInfos, the newest counts. If a router has several profiles, the profile with the
    latest `heard_ms` counts.
    """
    rows = read_router_files(spark, files).persist()
    try:
        broken = rows.where(fn.col("reason").isNotNull())
        _quarantine(spark, lake, broken, now_ms)
        good = rows.where(fn.col("reason").isNull())
        info = ("published_ms", "file", "caps", "floodfill", "version", "net_id", "addresses", "verified")
        infos = (
            good.where(fn.col("kind") == "router")
            .groupBy("hash")
            .agg(fn.max(fn.struct(*info)).alias("info"))
            .select("hash", "info.*")
        )
        newest = fn.max_by("profile", fn.struct("profile.heard_ms", "file")).alias("profile")
        profiles = good.where(fn.col("kind") == "profile").groupBy("hash").agg(newest)
        infos.join(profiles, "hash", "left").write.mode("overwrite").parquet(lake.path("routers"))
        return broken.count()
    finally:
        rows.unpersist()


def _quarantine(spark: "SparkSession", lake: Lake, broken: "DataFrame", now_ms: int) -> None:
    """Add the broken files that the quarantine does not have yet, so that a second run adds nothing."""
    rows = broken.select(
        fn.col("file").alias("source"),
        fn.lit("file").alias("what"),
        fn.lit(None).cast("string").alias("farm"),
        fn.lit(None).cast("bigint").alias("index"),
        "reason",
        "text",
        "length",
        "digest",
        fn.lit(now_ms).cast("bigint").alias("found_ms"),
    )
    not_in_quarantine(spark, lake, rows).coalesce(1).write.mode("append").parquet(lake.path("quarantine"))


def counting(routers: "DataFrame", options: FloodfillOptions, now_ms: int) -> SortedHashes:
    """Return the hashes of the floodfills of the wanted network and age.

    Raises `PipelineError` when there is no such floodfill, and when there are more than `MAX_FLOODFILLS`.
    """
    floodfills = routers.where("floodfill")
    if options.net_id is not None:
        floodfills = floodfills.where(fn.col("net_id") == options.net_id)
    if options.within_hours is not None:
        midnight = datetime.combine(options.day + timedelta(1), datetime.min.time(), UTC)
        reference_ms = min(now_ms, int(midnight.timestamp()) * 1000)
        floodfills = floodfills.where(fn.col("published_ms") >= reference_ms - options.within_hours * HOUR_MS)
    hashes = (
        floodfills.select(base64_columns.decoded_if_valid(fn.col("hash")).alias("hash"))
        .limit(MAX_FLOODFILLS + 1)
        .toArrow()
    )
    if not hashes.num_rows:
        raise PipelineError(
            "None of these routers is a floodfill of the wanted network and age: check --net-id, --published-within, "
            "and the table `routers`"
        )
    if hashes.num_rows > MAX_FLOODFILLS:
        raise PipelineError(
            f"There are more than {MAX_FLOODFILLS} floodfills, and the live netDb has some thousands: check --netdb."
        )
    return SortedHashes(to_words(b"".join(hashes.column("hash").to_pylist())))


# Closest floodfills --------------------------------------------------------------------------------------------------


def write_closest(spark: "SparkSession", lake: Lake, targets: "DataFrame", day: date, floodfills: SortedHashes) -> None:
    """Write the table `closest`. `targets`: from `targets_of`. The table `routers` must exist."""
    profiles = spark.read.parquet(lake.path("routers")).select(fn.col("hash").alias("floodfill"), "profile")
    rows = closest(targets, day, floodfills).select(
        base64_columns.encoded(fn.col("hash")).alias("hash"),
        "name",
        "day",
        "rank",
        base64_columns.encoded(fn.col("floodfill")).alias("floodfill"),
        fn.lower(fn.hex("distance")).alias("distance"),
    )
    rows.join(profiles, "floodfill", "left").select(
        "hash", "name", "day", "rank", "floodfill", "distance", "profile"
    ).write.mode("overwrite").parquet(lake.path("closest"))


def closest(targets: "DataFrame", day: date, floodfills: SortedHashes) -> "DataFrame":
    """Return the `CLOSEST` floodfills for each target on `day`, the day before and the day after.

    The columns are those of `_FOUND_TYPE`.
    """
    days = [(day + timedelta(step)).isoformat() for step in (-1, 0, 1)]
    digits = fn.replace(fn.col("day"), fn.lit("-"), fn.lit("")).cast("binary")
    keys = targets.select("hash", "name", fn.explode(fn.array(*map(fn.lit, days))).alias("day")).withColumn(
        "key", fn.unhex(fn.sha2(fn.concat("hash", digits), 256))
    )
    return keys.mapInArrow(partial(found, floodfills), _FOUND_TYPE)


def found(floodfills: SortedHashes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Find floodfills. For `mapInArrow`: takes rows (hash, name, day, key), and yields rows of `_FOUND_TYPE`."""
    for batch in batches:
        places, distances = floodfills.closest(to_words(b"".join(batch.column("key").to_pylist())), CLOSEST)
        count, columns = places.shape
        from_row = pa.array(np.repeat(np.arange(count), columns))
        sought = {name: batch.column(name).take(from_row) for name in ("hash", "name", "day")}
        ranks = np.tile(np.arange(1, columns + 1, dtype=np.int32), count)
        yield pa.RecordBatch.from_pydict(
            {
                **sought,
                "rank": pa.array(ranks),
                "floodfill": _hash_column(to_bytes(floodfills.words[places])),
                "distance": _hash_column(to_bytes(distances)),
            }
        )


def _hash_column(data: bytes) -> Any:
    """Return concatenated 32-byte values as an Arrow column of variable length, the type that Spark reads."""
    kind, count = pa.binary(HASH_BYTES), len(data) // HASH_BYTES
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)]).cast(pa.binary())
