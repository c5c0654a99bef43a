"""Adds the entries of histories to the lake, each entry once. Lines and records with errors go to the quarantine.

The job has three steps. A *survey* goes once through each new or changed file, and notes which entries the file has.
A *plan* follows from the survey and the lake's entries: which entries come from which file. The last step reads and
writes only these entries. So no machine has to send rows to another machine to find duplicates.

The job only adds rows: first to `entries`, then to `quarantine`, then to the list of read files. After an interruption,
the next run finds the written rows in the lake, and adds the other rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from gf_i2p.farm import schema as farm_schema
from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.ingest.entry_reader import CHANGED
from gf_i2p.pipeline.ingest.entry_writer import KINDS, WRITTEN, OutputDirectories, written
from gf_i2p.pipeline.ingest.plan import PLAN, RUNS, islands, planned
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake, absolute
from gf_i2p.pipeline.lake.quarantine import KEY, RECORD_KEY, not_in_quarantine
from gf_i2p.pipeline.read.history_files import LISTED, listed
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.read.stored_file import HEAD_BYTES
from gf_i2p.pipeline.read.survey import SURVEYED, surveyed
from gf_i2p.pipeline.spark_session import NO_SPACE, failed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

FILES: Final = (
    "path string, size bigint, mtime_ms bigint, sha256 string, farm string, exporter bigint, lines bigint, "
    "entries bigint, bad bigint, bytes bigint, reason string, read_ms bigint"
)
_SURVEY_BYTES: Final = 32 << 20
"""Stored bytes of files for each task of the survey."""
_TASK_BYTES: Final = 128 << 20
"""Bytes of values for each task that writes. Less would make small files; more would lose more work with a task."""
_LEAST_BYTES: Final = 8 << 20
"""Least bytes of values for each task that writes, even if cores are idle."""
_SHOWN: Final = 50
"""Most reasons in `IngestFigures.quarantined`."""


@dataclass(frozen=True, slots=True)
class IngestFigures:
    """Counts of files, entries and errors in one run of the job `ingest`."""

    files: int = 0
    """Files of histories under the directories."""
    unchanged: int = 0
    """Files that were read before and have not changed since: these were not opened."""
    duplicates: int = 0
    """Files with the same content as another file."""
    damaged: int = 0
    """Files with an error of the file itself, not only of single lines."""
    lines: int = 0
    entries: int = 0
    """Entries in the files that were read; an entry in several files counts for each file."""
    new: int = 0
    """Entries that the lake did not have."""
    known: int = 0
    """Entries that the lake had already, or that the run took from another file."""
    kinds: dict[str, int] = field(default_factory=dict)
    """New entries by kind."""
    misfits: int = 0
    """New status records with a `misfit`."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """New rows of the quarantine by kind and reason; only the most frequent reasons."""
    quarantined_rows: int = 0
    read_bytes: int = 0
    """Stored bytes of the files that were read."""
    content_bytes: int = 0
    """Unpacked bytes of the files that were read."""
    lake_bytes: int = 0
    """Bytes on the disk of all entries in the lake."""
    survey_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def rows_per_second(self) -> float:
        """Entries in the files that were read, divided by the seconds of the run."""
        return self.entries / self.seconds if self.seconds else 0.0


def ingest(
    spark: "SparkSession",
    lake: Lake,
    exports: Sequence[str],
    *,
    schema_text: str | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> IngestFigures:
    """Add the entries of all histories under directories to the lake, each entry once.

    `exports`: paths of directories, or addresses. `schema_text`: the JSON Schema of the status record; None: this
    version's. `step`: called with the name of each step. Raises `PipelineError`.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 -- an extra, and it takes seconds

    run = _IngestRun(spark, lake, schema_text or farm_schema.text(), step)
    try:
        return run.ingest_exports([absolute(path) for path in exports])
    except PySparkException as error:
        text = str(error)
        if CHANGED in text:
            line = next(line for line in text.splitlines() if CHANGED in line).strip()
            raise PipelineError(
                f"{line.rpartition('Error: ')[2]}. Run ingest again: the job goes on where it stopped."
            ) from error
        if NO_SPACE in text:
            raise  # the session knows the disks
        raise failed(error, run.doing) from error
    finally:
        tables.empty(spark, run.stages)


class _IngestRun:
    def __init__(self, spark: "SparkSession", lake: Lake, schema_text: str, step: Callable[[str], None]) -> None:
        self.spark = spark
        self.lake = lake
        self.schema_text = schema_text
        self.run = uuid4().hex
        self.stages = f"{self.lake.root}/_ingest"
        """The directory of temporary files of all runs, also of runs that were killed."""
        self.stage = f"{self.stages}/{self.run}"
        """The directory of this run's temporary files."""
        self.doing = ""
        self._say = step
        self._began = monotonic()
        self._now_ms = now_ms()

    def _step(self, text: str) -> None:
        self.doing = text
        self._say(text)

    def _staged(self, frame: "DataFrame", name: str, *apart: str) -> "DataFrame":
        """Write a frame that is used more than once, so that Spark computes the frame once; return the written frame.

        `apart`: columns by which the files are partitioned.
        """
        path = f"{self.stage}/{name}"
        frame.write.partitionBy(*apart).parquet(path)
        return self.spark.read.schema(frame.schema).parquet(path)

    def ingest_exports(self, exports: Sequence[str]) -> IngestFigures:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        self._step("looking for files")
        directories = self.spark.createDataFrame([(path,) for path in exports], "path string")
        listing = self._staged(directories.mapInArrow(listed, columns(LISTED)), "listed")
        listing = listing.dropDuplicates(["path"])
        files = tables.read_columns(self.spark, self.lake, "files", FILES)
        read_before = files.select("path", "size", "mtime_ms").dropDuplicates().withColumn("known", F.lit(1))
        todo = listing.join(read_before, ["path", "size", "mtime_ms"], "left").where(
            "known is null and size is not null"
        )
        count = (
            listing.join(read_before, ["path", "size", "mtime_ms"], "left")
            .agg(
                F.count("size").alias("files"),
                F.count("known").alias("unchanged"),
                F.sum(F.when(F.col("known").isNull(), F.col("size"))).alias("bytes"),
                F.min(F.when(F.col("path").isin(*exports), F.col("error"))).alias("error"),
                F.count("error").alias("unreadable"),
            )
            .first()
        )
        assert count is not None
        if count["error"]:
            raise PipelineError(f"{count['error']}. Give directories that contain nodes' histories.")
        if not count["files"]:
            raise PipelineError(
                f"There is no history under {', '.join(exports)}: give the directories `history` of nodes, or "
                "directories above them. A history has files entries-….jsonl, .jsonl.zst or .jsonl.gz."
            )
        new_files = count["files"] - count["unchanged"]
        unreadable = self._quarantine_directories(listing) if count["unreadable"] else {}
        if not new_files:
            return IngestFigures(
                files=count["files"],
                unchanged=count["unchanged"],
                kinds=dict.fromkeys(KINDS, 0),
                quarantined=unreadable,
                quarantined_rows=sum(unreadable.values()),
                lake_bytes=self._lake_bytes(),
                seconds=monotonic() - self._began,
            )
        self._step(f"going through {new_files} files")
        tasks = min(new_files, max(8, count["bytes"] // _SURVEY_BYTES))
        survey = self._staged(
            todo.select(*LISTED.names).repartition(tasks).mapInArrow(surveyed, columns(SURVEYED)), "surveyed", "part"
        )
        survey_seconds = monotonic() - self._began
        read_files = self._staged(self._originals(survey.where("part = 'file'"), files), "files")
        runs = (
            survey.where("part = 'run'")
            .drop("strict")
            .join(read_files.where("original is null").select("path", "strict"), "path")
        )
        self._step("looking for the lake's entries")
        plan = self._staged(self._plan(runs), "plan")
        plan_sums = plan.agg(F.count("*"), F.sum("entries"), F.sum("bytes")).first()
        assert plan_sums is not None
        kinds, misfits, new = dict.fromkeys(KINDS, 0), 0, 0
        if plan_sums[0]:
            self._step(f"reading {plan_sums[1]} entries from {plan_sums[0]} files")
            counts = self._take(plan, plan_sums[0], plan_sums[2])
            kinds = {kind: counts[f"kind_{kind}"] for kind in KINDS}
            misfits, new = counts["misfits"], counts["new"]
        self._step("writing the quarantine")
        quarantined, rows = self._quarantine(survey, read_files, runs)
        totals = read_files.agg(
            F.count("original"), F.count("reason"), F.sum("lines"), F.sum("entries"), F.sum("size"), F.sum("bytes")
        ).first()
        assert totals is not None
        tables.append(
            read_files.where("sha256 is not null")
            .withColumn("read_ms", F.lit(self._now_ms))
            .select(*[name.split()[0] for name in FILES.split(", ")])
            .coalesce(1),
            self.lake,
            "files",
        )
        return IngestFigures(
            files=count["files"],
            unchanged=count["unchanged"],
            duplicates=totals[0],
            damaged=totals[1],
            lines=totals[2],
            entries=totals[3],
            new=new,
            known=totals[3] - new,
            kinds=kinds,
            misfits=misfits,
            quarantined=unreadable | {f"{row['what']}: {row['reason']}": row["count"] for row in quarantined},
            quarantined_rows=rows + sum(unreadable.values()),
            read_bytes=totals[4],
            content_bytes=totals[5],
            lake_bytes=self._lake_bytes(),
            survey_seconds=survey_seconds,
            seconds=monotonic() - self._began,
        )

    def _lake_bytes(self) -> int:
        return tables.size(self.spark, self.lake.path("entries"))

    def _originals(self, read_files: "DataFrame", files: "DataFrame") -> "DataFrame":
        """Add a column `original`: the first file with the same content; null: the file itself is the first."""
        from pyspark.sql import Window  # noqa: PLC0415
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        before = files.join(read_files.select("path"), "path", "left_anti").select(
            F.lit("known").alias("part"), "path", "sha256"
        )
        same = Window.partitionBy("sha256").orderBy(F.col("part") == "file", "path")
        first = F.first("path").over(same)
        return (
            read_files.unionByName(before, allowMissingColumns=True)
            .withColumn("original", F.when((first != F.col("path")) & F.col("sha256").isNotNull(), first))
            .where("part = 'file'")
        )

    def _plan(self, runs: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        bounds = runs.groupBy("farm").agg(F.min("first").alias("low"), F.max("last").alias("high"))
        ends = bounds.agg(F.min("low"), F.max("high")).first()
        stored = tables.read_columns(self.spark, self.lake, "entries", "farm string, index bigint, term bigint")
        if ends is not None and ends[0] is not None:
            stored = stored.where(F.col("index").between(ends[0], ends[1]))
        stored = stored.join(F.broadcast(bounds), "farm").where("index between low and high")
        stored_runs = stored.select("farm", "index", "term").mapInArrow(islands, columns(RUNS))
        all_runs = runs.select(*RUNS.names).unionByName(stored_runs)
        return all_runs.groupBy("farm").applyInArrow(planned, columns(PLAN))

    def _take(self, plan: "DataFrame", count: int, size: int) -> dict[str, int]:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        tasks = max(1 + size // _TASK_BYTES, min(8, count, 1 + size // _LEAST_BYTES))
        target = OutputDirectories(self.lake.path("entries"), f"{self.stage}/unfinished", self.run)
        sums = (
            plan.repartitionByRange(tasks, "farm", "first")
            .sortWithinPartitions("farm", "first", "path")
            .mapInArrow(partial(written, self.schema_text, target), columns(WRITTEN))
            .agg(*[F.sum(name).alias(name) for name in WRITTEN.names])
            .first()
        )
        assert sums is not None
        return {name: sums[name] or 0 for name in WRITTEN.names}

    def _quarantine_directories(self, listing: "DataFrame") -> dict[str, int]:
        """Add the directories that cannot be read to the quarantine; return the number of new ones by reason."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        found = listing.where("error is not null").select(
            F.col("path").alias("source"),
            F.lit("directory").alias("what"),
            F.lit(None).cast("string").alias("farm"),
            F.lit(None).cast("bigint").alias("index"),
            F.col("error").alias("reason"),
            F.lit("").alias("text"),
            F.lit(0).cast("bigint").alias("length"),
            F.lit("").alias("digest"),
            F.lit(self._now_ms).alias("found_ms"),
        )
        new = self._staged(not_in_quarantine(self.spark, self.lake, found), "directories")
        counts = {
            f"{row['what']}: {row['reason']}": row["count"] for row in new.groupBy("what", "reason").count().collect()
        }
        if counts:
            tables.append(new.coalesce(1), self.lake, "quarantine")
        return counts

    def _quarantine(self, survey: "DataFrame", read_files: "DataFrame", runs: "DataFrame") -> "tuple[list[Row], int]":
        """Add new rows to the quarantine; return the most frequent reasons with counts, and the number of new rows."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        nothing = F.lit(None).cast("bigint").alias("index")
        originals = read_files.where("original is null")
        bad = survey.where("part = 'bad'").drop("farm").join(originals.select("path", "farm"), "path")
        lines = bad.select(
            F.col("path").alias("source"),
            F.lit("line").alias("what"),
            "farm",
            nothing,
            "reason",
            "text",
            "length",
            "digest",
        )
        of_file: list[Column | str] = [
            F.col("path").alias("source"), F.lit("file").alias("what"), "farm", nothing, "reason",
            F.lit("").alias("text"), F.col("size").alias("length"), F.coalesce("sha256", F.lit("")).alias("digest"),
        ]  # fmt: skip
        wrong_files = originals.where("reason is not null").select(*of_file)
        copies = (
            read_files.where("original is not null")
            .withColumn("reason", F.concat(F.lit("it is the same as "), "original"))
            .select(*of_file)
        )
        errors = self._misfits(runs).unionByName(lines).unionByName(wrong_files).unionByName(copies)
        new = not_in_quarantine(self.spark, self.lake, errors.dropDuplicates(list(KEY)))
        new = new.withColumn("found_ms", F.lit(self._now_ms))
        staged = self._staged(new, "quarantine")
        kinds = staged.groupBy("what", "reason").count().orderBy(F.desc("count"), "what", "reason")
        counts, rows = kinds.limit(_SHOWN).collect(), staged.count()  # reasons contain numbers, so there may be many
        if rows:
            tables.append(staged.coalesce(4), self.lake, "quarantine")
        return counts, rows

    def _misfits(self, runs: "DataFrame") -> "DataFrame":
        """Return the misfits of the surveyed files that the quarantine lacks, also misfits from an interrupted run."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        schema = "farm string, index bigint, term bigint, exporter bigint, value string, raw binary, misfit string"
        entries = tables.read_columns(self.spark, self.lake, "entries", schema)
        content = F.coalesce(F.col("value").cast("binary"), "raw")
        misfits = (
            entries.where("misfit is not null")
            .join(
                F.broadcast(runs.select("farm", "exporter", "term", "path", "first", "last")),
                ["farm", "exporter", "term"],
            )
            .where("index between first and last")
            .groupBy("farm", "index", "term")
            .agg(
                F.min("path").alias("source"),
                F.first("misfit").alias("reason"),
                F.first(content).alias("content"),
            )
            .select(
                "source",
                F.lit("record").alias("what"),
                "farm",
                "index",
                "reason",
                F.make_valid_utf8(F.substring("content", 1, HEAD_BYTES).cast("string")).alias("text"),
                F.octet_length("content").cast("bigint").alias("length"),
                F.md5("content").alias("digest"),
            )
        )
        return not_in_quarantine(self.spark, self.lake, misfits, RECORD_KEY)
