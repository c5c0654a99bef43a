"""Takes one batch of files into the lake: entries, each once, then the quarantine, then the list of read files.

`ingest` takes as many batches as its files need; `stream` takes a batch each time that histories have grown. A batch
may come twice, when the run before ended in the middle of the batch. The second time, nothing is added twice: rows
whose keys a table has already are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql import Window
from pyspark.sql import functions as fn

from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.ingest.entry_writer import KINDS, WRITTEN, OutputDirectories, written
from gf_i2p.pipeline.ingest.read_files import FILES, FilesRead
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.lake.quarantine import RECORD_KEY, ErrorRow, add_errors, not_in_quarantine
from gf_i2p.pipeline.read.arrivals import ARRIVED, WANTED, arrivals
from gf_i2p.pipeline.read.entry_columns import EARLIEST_MS, LATEST_MS
from gf_i2p.pipeline.read.line_walk import Is
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.read.stored_file import HEAD_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_KEY: Final = ("farm", "index", "term")
_BLOCK: Final = 1 << 15
"""Entries with near indexes go through one task together, so that few tasks write files of a day."""
_KNOWN: Final = -1
"""`worth` of an entry that the lake has: less than the worth of any entry of a file."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Counts of one batch."""

    files: Sequence[Mapping[str, Any]]
    """The files that were read: path, farm, exporter and the fields of `arrivals.FILE`."""
    duplicates: int
    """Files with the same content as another file."""
    new: int
    """Entries that the lake did not have."""
    kinds: dict[str, int]
    """New entries by kind."""
    misfits: int
    """New status records with a `misfit`."""
    quarantined: dict[str, int]
    """New rows of the quarantine by kind and reason; only the most frequent reasons."""
    quarantined_rows: int
    days: dict[str, list[str]]
    """The days (YYYY-MM-DD) of the records in the files, by farm."""


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Takes batches into one lake."""

    spark: "SparkSession"
    lake: Lake
    schema_text: str
    """The JSON Schema of the status record."""
    stage: str
    """A directory for temporary files."""
    step: Callable[[str], None]
    """Called with the name of each step."""

    def take(
        self,
        files: Sequence[Mapping[str, Any]],
        tasks: int,
        before: FilesRead,
        now_ms: int,
        *,
        live: bool,
        before_noted: Callable[[Mapping[str, Sequence[str]]], None] = lambda _: None,
    ) -> BatchFigures:
        """Take a batch of files, with `tasks` tasks. `files`: values of `arrivals.WANTED`.

        `before`: the files that were read before; the method adds these files. `live`: see `arrivals`. `before_noted`:
        called with `BatchFigures.days` before the files count as read; if it fails, the batch comes again.
        """
        wanted = self.spark.createDataFrame(
            [tuple(file.get(name) for name in WANTED.names) for file in files], columns(WANTED)
        ).repartition(tasks)
        arrived = f"{self.stage}/arrived"
        read = wanted.mapInArrow(partial(arrivals, live), columns(ARRIVED))
        staged = read.write.mode("overwrite").option("compression", "lz4_raw")  # read once: speed counts, and not size
        # The batch before may have had a part that this batch has not.
        staged.option("partitionOverwriteMode", "static").partitionBy("part").parquet(arrived)
        read = self.spark.read.schema(columns(ARRIVED)).parquet(arrived)
        accounts = read.where("part = 'file'").select("path", "farm", "exporter", "file.*")
        read_files = [row.asDict() for row in accounts.collect()]
        originals = before.add(read_files)
        errors: list[ErrorRow] = [
            (file["path"], "file", file["farm"], None, reason, "", file["size"], file["sha256"] or "")
            for file in read_files
            if (reason := f"it is the same as {same}" if (same := originals.get(file["path"])) else file["reason"])
        ]
        entries = read.where("part = 'entry'")
        found = sum(file["entries"] for file in read_files)
        counts: dict[str, int] = {}
        days: dict[str, list[str]] = {}
        frames = []
        if found:
            extents = self._extents(entries)
            days = {each["farm"]: each["days"] for each in extents if each["days"]}
            self.step(f"adding the new ones of {found:,} entries")
            counts = self._add_entries(entries, extents)
            if counts["misfits"] or counts["new"] < found:  # a run that was interrupted may have left misfits
                frames.append(self._misfits(entries, extents))
        if any(file["bad"] for file in read_files):
            frames.append(_bad_lines(read, originals))
        self.step("writing the quarantine")
        quarantined, rows = add_errors(self.spark, self.lake, errors, frames, f"{self.stage}/errors", now_ms)
        done = [
            tuple((file | {"read_ms": now_ms})[name.split()[0]] for name in FILES.split(", "))
            for file in read_files
            if file["sha256"] is not None
        ]
        before_noted(days)
        if done:
            tables.append(self.spark.createDataFrame(done, FILES).coalesce(1), self.lake, "files")
        kinds = {kind: counts.get(f"kind_{kind}", 0) for kind in KINDS}
        new, misfits = counts.get("new", 0), counts.get("misfits", 0)
        return BatchFigures(read_files, len(originals), new, kinds, misfits, quarantined, rows, days)

    def _extents(self, entries: "DataFrame") -> "list[Row]":
        """Return the first and last index of each farm, and the days of its records, of clocks that can be right."""
        day = fn.date_from_unix_date((fn.col("received_ms") / DAY_MS).cast("int")).cast("string")
        is_dated = (fn.col("what") == Is.RECORD) & fn.col("received_ms").between(EARLIEST_MS, LATEST_MS - 1)
        return (
            entries.groupBy("farm")
            .agg(
                fn.min("index").alias("low"),
                fn.max("index").alias("high"),
                fn.sort_array(fn.collect_set(fn.when(is_dated, day))).alias("days"),
            )
            .collect()
        )

    def _stored(self, extents: "Sequence[Row]", schema: str) -> "DataFrame":
        """Return the lake's entries of these farms, between the least and the greatest of these indexes."""
        low, high = min(each["low"] for each in extents), max(each["high"] for each in extents)
        stored = tables.read_columns(self.spark, self.lake, "entries", schema)
        is_near = fn.col("farm").isin(*[each["farm"] for each in extents]) & fn.col("index").between(low, high)
        return stored.where(is_near)

    def _add_entries(self, entries: "DataFrame", extents: "Sequence[Row]") -> dict[str, int]:
        """Add the entries that the lake does not have; return counts of the new entries.

        Of several exporters of an entry, the one with the least `worth` counts: with a right clock, and not late.
        """
        known = self._stored(extents, "farm string, index bigint, term bigint")
        known = known.withColumn("worth", fn.lit(_KNOWN).cast("bigint"))
        best = Window.partitionBy("farm", "block", "index", "term").orderBy("worth", "exporter", "received_ms")
        new = (
            entries.select(*_KEY, "worth", "exporter", "received_ms", "what", "text")
            .unionByName(known, allowMissingColumns=True)
            .withColumn("block", (fn.col("index") / _BLOCK).cast("bigint"))
            .repartition("farm", "block")
            .withColumn("place", fn.row_number().over(best))
            .where(f"place = 1 and worth > {_KNOWN}")
            .select(*_KEY, "exporter", "received_ms", "what", "text")
        )
        target = OutputDirectories(self.lake.path("entries"), f"{self.stage}/unfinished", uuid4().hex)
        counts = new.mapInArrow(partial(written, self.schema_text, target), columns(WRITTEN))
        sums = counts.agg(*[fn.sum(name).alias(name) for name in WRITTEN.names]).first()
        assert sums is not None
        return {name: sums[name] or 0 for name in WRITTEN.names}

    def _misfits(self, entries: "DataFrame", extents: "Sequence[Row]") -> "DataFrame":
        """Return the misfits among these entries that the quarantine lacks, as rows of the quarantine."""
        schema = "farm string, index bigint, term bigint, value string, raw binary, misfit string"
        content = fn.coalesce(fn.col("value").cast("binary"), "raw")
        misfits = self._stored(extents, schema).where("misfit is not null")
        rows = (
            entries.select(*_KEY, "path")
            .join(fn.broadcast(misfits), list(_KEY))
            .groupBy(*_KEY)
            .agg(fn.min("path").alias("source"), fn.first("misfit").alias("reason"), fn.first(content).alias("content"))
            .select(
                "source",
                fn.lit("record").alias("what"),
                "farm",
                "index",
                "reason",
                fn.make_valid_utf8(fn.substring("content", 1, HEAD_BYTES).cast("string")).alias("text"),
                fn.octet_length("content").cast("bigint").alias("length"),
                fn.md5("content").alias("digest"),
            )
        )
        return not_in_quarantine(self.spark, self.lake, rows, RECORD_KEY)


def _bad_lines(read: "DataFrame", originals: Mapping[str, str]) -> "DataFrame":
    """Return the bad lines as rows of the quarantine, without those of files that are copies."""
    bad = read.where("part = 'bad'")
    if originals:
        bad = bad.where(~fn.col("path").isin(*originals))
    text = fn.make_valid_utf8(fn.col("text").cast("string"))
    return bad.select(
        fn.col("path").alias("source"),
        fn.lit("line").alias("what"),
        "farm",
        fn.lit(None).cast("bigint").alias("index"),
        "line.reason",
        fn.translate(text, "\0", "\ufffd").alias("text"),
        "line.length",
        "line.digest",
    )
