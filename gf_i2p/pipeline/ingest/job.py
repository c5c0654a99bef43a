"""Adds the entries of histories to the lake, each entry once. Lines and records with errors go to the quarantine.

The job takes the new and changed files in batches of limited size. So one batch's data fit on a disk, and a run that
was interrupted has kept the batches before.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from gf_i2p.farm import schema as farm_schema
from gf_i2p.node.clock import now_ms
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.ingest.batch import BatchFigures, BatchWriter
from gf_i2p.pipeline.ingest.entry_writer import KINDS
from gf_i2p.pipeline.ingest.read_files import FilesRead, listing
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake, absolute
from gf_i2p.pipeline.lake.quarantine import MAX_REASONS, ErrorRow, add_errors
from gf_i2p.pipeline.read.stored_file import packing_of
from gf_i2p.pipeline.spark_session import NO_SPACE, failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES: Final = 8 << 30
"""Unpacked bytes of a batch, roughly. A batch needs about a fifth of that on the disks of the lake and of Spark."""
_PACKING: Final = 16
"""How many times larger a packed file usually is when it is unpacked."""
_TASK_BYTES: Final = 64 << 20
"""Unpacked bytes of files for each task that reads, roughly."""


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
    """Lines that were read. Of a file that has grown, only the new lines are read."""
    entries: int = 0
    """Entries in these lines; an entry in several files counts for each file."""
    new: int = 0
    """Entries that the lake did not have."""
    known: int = 0
    """Entries that the lake had already, or that the run took from another file."""
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    """New entries by kind."""
    misfits: int = 0
    """New status records with a `misfit`."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """New rows of the quarantine by kind and reason; only the most frequent reasons."""
    quarantined_rows: int = 0
    read_bytes: int = 0
    """Stored bytes of the files that were read."""
    content_bytes: int = 0
    """Unpacked bytes of the lines that were read."""
    lake_bytes: int = 0
    """Bytes on the disk of all entries in the lake."""
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
    began = monotonic()
    stage = f"{lake.root}/_ingest"
    doing = ""

    def say(text: str) -> None:
        nonlocal doing
        doing = text
        step(text)

    try:
        say("looking for files")
        files, unreadable = listing(spark, [absolute(path) for path in exports])
        if not files:
            raise PipelineError(
                f"There is no history under {', '.join(map(absolute, exports))}: give the directories `history` of "
                "nodes, or directories above them. A history has files entries-….jsonl, .jsonl.zst or .jsonl.gz."
            )
        at_ms = now_ms()
        read = FilesRead.of_lake(spark, lake)
        news = read.news(files)
        errors: list[ErrorRow] = [(path, "directory", None, None, reason, "", 0, "") for path, reason in unreadable]
        quarantined, quarantined_rows = add_errors(spark, lake, errors, [], f"{stage}/errors", at_ms)
        writer = BatchWriter(spark, lake, schema_text or farm_schema.text(), stage, say)
        done: list[BatchFigures] = []
        taken = 0
        for batch in batches(news):
            say(f"reading {len(batch):,} of {len(news) - taken:,} files")
            done.append(writer.take(batch, tasks_for(batch), read, at_ms, live=False))
            taken += len(batch)
        lake_bytes = tables.size(spark, lake.path("entries"))
    except PySparkException as error:
        if NO_SPACE in str(error):
            raise  # the session knows the disks
        raise failed(error, doing) from error
    finally:
        tables.delete(spark, stage)
    accounts = [file for each in done for file in each.files]
    reasons = sum((Counter(each.quarantined) for each in done), Counter(quarantined))
    sums = {name: sum(file[name] for file in accounts) for name in ("lines", "entries", "size", "bytes")}
    new = sum(each.new for each in done)
    return IngestFigures(
        files=len(files),
        unchanged=len(files) - len(news),
        duplicates=sum(each.duplicates for each in done),
        damaged=sum(file["reason"] is not None for file in accounts),
        lines=sums["lines"],
        entries=sums["entries"],
        new=new,
        known=sums["entries"] - new,
        kinds={kind: sum(each.kinds[kind] for each in done) for kind in KINDS},
        misfits=sum(each.misfits for each in done),
        quarantined=dict(reasons.most_common(MAX_REASONS)),
        quarantined_rows=quarantined_rows + sum(each.quarantined_rows for each in done),
        read_bytes=sums["size"],
        content_bytes=sums["bytes"],
        lake_bytes=lake_bytes,
        seconds=monotonic() - began,
    )


def batches(files: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Divide files into batches of about `BATCH_BYTES`, in the given order; each batch has a file at least."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for file in files:
        if batch and size + content_bytes(file) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += content_bytes(file)
    if batch:
        yield batch


def tasks_for(batch: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of tasks that read a batch."""
    return max(1, min(len(batch), 2 + sum(map(content_bytes, batch)) // _TASK_BYTES))


def content_bytes(file: Mapping[str, Any]) -> int:
    """Return roughly the unpacked bytes of a file that will be read."""
    size: int = file["size"]
    return max(0, size * _PACKING if packing_of(file["path"]) else size - (file["place"] or 0))
