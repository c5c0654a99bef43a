"""Replays the farms of a lake with a grid of parameters, by Spark.

The job writes the tables `decisions`, `backtest_days` and `backtest`.

Spark gives all rows of a farm to one task, in the order of the farm's log; the tasks with the largest farms begin
first. A Python worker holds the states of one farm, and one batch of rows. With fewer farms than cores, several tasks
share a farm: each task has all rows of the farm, and a part of the grid. A second step brings the results of each farm
together, and recommends a set for the farm.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import functions as f

from gf_i2p.pipeline.backtest.grid import Set
from gf_i2p.pipeline.backtest.measures import WEIGHTS, Counts, Weights
from gf_i2p.pipeline.backtest.recommendation import Tried, advise
from gf_i2p.pipeline.backtest.replay import SERVERS, ReplayedEntry
from gf_i2p.pipeline.backtest.replay_measures import ReplayMeter
from gf_i2p.pipeline.backtest.result_rows import BacktestRow
from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.errors import NothingToDoError, PipelineError
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake
from gf_i2p.pipeline.read.record_schema import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORES: Final = 8
"""Assumed number of cores of a cluster: Spark does not tell the number."""
_MOST_PARTITIONS: Final = 4096
"""Most partitions. More partitions would save nothing, because Spark would plan longer than the tasks run."""
_FILES: Final = 4
"""Number of files in the table of decisions."""
_ROWS: Final = 500
"""Rows of a batch that a worker gives back."""
_LISTED: Final = {
    "hash": pa.string(),
    "type": pa.int32(),
    "cost": pa.int32(),
    "owner": pa.int64(),
    "branch": pa.int32(),
}
_DECISION: Final = {
    "farm": pa.string(),
    "index": pa.int64(),
    "received_ms": pa.int64(),
    "now_ms": pa.int64(),
    "publisher": pa.int64(),
    "mode": pa.string(),
    "listed": pa.list_(pa.struct(_LISTED)),
    "exact": pa.bool_(),
}
_SET: Final = {"farm": pa.string(), "set": pa.int32(), "parameters": pa.string()}
_COUNTS: Final = {each.name: pa.float64() if isinstance(each.default, float) else pa.int64() for each in fields(Counts)}
_DAY: Final = _SET | {"day": pa.string()} | _COUNTS | {"cost": pa.float64()}
_RESULT: Final = (
    _SET
    | {"in_force": pa.string(), "live": pa.bool_(), "exact": pa.bool_(), "entries": pa.int64()}
    | _COUNTS
    | {"cost": pa.float64(), "superseded": pa.int64(), "gaps": pa.int64()}
)
_OUTPUT: Final = pa.schema({"what": pa.string()} | _DECISION | _DAY | _RESULT)
ADVISED: Final = pa.schema(
    _RESULT
    | {
        "recommended": pa.bool_(),
        "gain": pa.float64(),
        "gain_low": pa.float64(),
        "gain_high": pa.float64(),
        "saved_s": pa.float64(),
        "advice": pa.string(),
    }
)
"""The columns of the table `backtest`."""
_STORED: Final = (
    "farm string, `index` bigint, term bigint, received_ms bigint, kind string, value string, raw binary, "
    "servers array<bigint>"
)


@dataclass(frozen=True, slots=True)
class BacktestFigures:
    """Figures of one run of the job."""

    farms: int
    sets: int
    """Parameter sets, with the live set."""
    entries: int
    """Log entries of all farms, each counted once."""
    decisions: int
    inexact: int
    """Farms whose log has gaps."""
    seconds: float

    @property
    def entries_a_second(self) -> int:
        """Entries replayed in a second; an entry counts once for each set."""
        return round(self.entries * self.sets / self.seconds) if self.seconds else 0


def backtest(
    spark: "SparkSession",
    lake: Lake,
    sets: Sequence[Set],
    farm: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    *,
    weights: Weights = WEIGHTS,
    tell: Callable[[str], None] = lambda _: None,
    one_farm: bool = False,
) -> BacktestFigures:
    """Replay the farms, and write the tables anew: the tables hold the results of the last run only.

    `sets`: from `grid`, the live set first. `farm`: None for all farms. `since_ms`, `until_ms`: beginning and end (not
    included) of the entries, in ms since the epoch, by the exporters' clocks; None: no limit. Of older entries, only
    administrators' entries and Configurations count. `weights`: of the cost. `tell`: called with the name of each step.
    `one_farm`: refuse a lake with several farms. Raises `PipelineError`.
    """
    assert sets[0] == {}
    began = time.monotonic()
    tell("looking which farms there are")
    log = _log(spark, lake, farm, since_ms, until_ms)
    # The farms with the most entries first: such a farm, begun last, would prolong the job.
    farms = [row["farm"] for row in log.groupBy("farm").count().orderBy(f.desc("count"), "farm").collect()]
    if not farms:
        raise NothingToDoError(
            f"There is nothing to replay in {lake.path('entries')}: run `gf-i2p pipeline ingest`, or check --farm, "
            "--since, --until."
        )
    if one_farm and len(farms) > 1:
        raise PipelineError(
            f"There are {len(farms)} farms in {lake.root}, and each has parameters of its own: add --farm."
        )
    chunks = _chunks(sets, -(-_cores(spark) // len(farms)))
    tasks = [(farm, chunk) for farm in farms for chunk in range(len(chunks))]
    rows = _rows_by_task(log, tasks, min(len(tasks), _MOST_PARTITIONS))
    output = rows.mapInArrow(partial(_replay_tasks, chunks, weights), columns(_OUTPUT)).persist(StorageLevel.DISK_ONLY)
    tell(f"replaying {len(farms)} farms with {len(sets)} parameter sets")
    try:
        counts = output.agg(
            f.count(f.when(f.col("what") == "decision", 1)).alias("decisions"),
            f.sum(f.when(f.col("live"), f.col("entries"))).alias("entries"),
            f.count(f.when(f.col("live"), 1)).alias("farms"),
            f.count(f.when(f.col("live") & ~f.col("exact"), 1)).alias("inexact"),
        ).first()
        assert counts is not None
        tell("writing")
        decisions = output.where("what = 'decision'").select(*_DECISION)
        decisions.coalesce(_FILES).write.mode("overwrite").parquet(lake.path("decisions"))
        days = output.where("what = 'day'").select(*_DAY)
        days.coalesce(_FILES).write.mode("overwrite").parquet(lake.path("backtest_days"))
        tell("choosing parameters")
        played = output.where("what != 'decision'").select("what", "day", *_RESULT).groupBy("farm")
        advised = played.applyInArrow(_advise_farm, columns(ADVISED)).coalesce(1)
        advised.sortWithinPartitions("farm", "cost", "set").write.mode("overwrite").parquet(lake.path("backtest"))
    finally:
        output.unpersist()
    return BacktestFigures(
        farms=int(counts["farms"]),
        sets=len(sets),
        entries=int(counts["entries"]),
        decisions=int(counts["decisions"]),
        inexact=int(counts["inexact"]),
        seconds=round(time.monotonic() - began, 3),
    )


def results(spark: "SparkSession", lake: Lake) -> Iterator[list[BacktestRow]]:
    """Yield the rows of the table `backtest`, farm by farm, the cheapest first. Memory holds one farm's rows."""
    rows = spark.read.parquet(lake.path("backtest")).orderBy("farm", "cost", "set").toLocalIterator()
    for _, of_farm in groupby((BacktestRow.of_columns(row.asDict()) for row in rows), key=lambda row: row.farm):
        yield list(of_farm)


def _log(
    spark: "SparkSession", lake: Lake, farm: str | None, since_ms: int | None, until_ms: int | None
) -> "DataFrame":
    """Return the rows to replay. The column `gap` says whether the row names the servers after a gap.

    See `ReplayedEntry.is_gap`; the arguments are those of `backtest`.
    """
    entries = tables.read_columns(spark, lake, "entries", _STORED)
    if farm is not None:
        entries = entries.where(f.col("farm") == farm)
    if until_ms is not None:
        entries = entries.where(f.col("received_ms") < until_ms)
    if since_ms is not None:
        entries = entries.where((f.col("received_ms") >= since_ms) | f.col("kind").isin(SERVERS, "admin"))
    value = f.coalesce(f.col("value").cast("binary"), "raw")
    entries = entries.select("farm", "index", "term", "received_ms", "kind", value.alias("value"), "servers")
    return entries.withColumn("gap", (f.col("kind") == SERVERS) & f.col("value").isNotNull())


def _rows_by_task(log: "DataFrame", tasks: Sequence[tuple[str, int]], partitions: int) -> "DataFrame":
    """Bring the rows of each task together. A task is a farm and the number of a chunk of the grid.

    The tasks begin in the order of `tasks`. A task's rows are ordered by index. At the same index, entries come before
    gap rows, and higher terms come first.
    """
    task_numbers = [(farm, chunk, number) for number, (farm, chunk) in enumerate(tasks)]
    numbers = log.sparkSession.createDataFrame(task_numbers, "farm string, chunk int, task int")
    rows = log.join(f.broadcast(numbers), "farm").repartitionById(partitions, f.col("task") % partitions)
    return rows.sortWithinPartitions("task", "index", "gap", f.desc("term")).drop("gap", "task")


def _cores(spark: "SparkSession") -> int:
    master = str(spark.conf.get("spark.master", "") or "")
    if not master.startswith("local"):
        return _CORES
    count = master.removeprefix("local").strip("[]").split(",")[0]
    return int(count) if count.isdigit() else 1 if not count else os.cpu_count() or 1


def _chunks(sets: Sequence[Set], most: int) -> list[list[Set]]:
    """Divide the sets into up to `most` parts of about the same size."""
    count = min(max(most, 1), len(sets))
    return [list(sets[place::count]) for place in range(count)]


def _replay_tasks(
    chunks: Sequence[Sequence[Set]], weights: Weights, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Replay tasks. For `mapInArrow`: takes rows of the log, a task's rows together, and yields rows of `_OUTPUT`."""
    tasks = groupby((row for batch in batches for row in _rows(batch)), key=lambda task_rows: task_rows[:2])
    output = (
        each
        for (farm, chunk), task_rows in tasks
        for each in play(farm, chunks, chunk, (row for *_, row in task_rows), weights)
    )
    while rows := list(islice(output, _ROWS)):
        yield pa.RecordBatch.from_pylist(rows, schema=_OUTPUT)


def _advise_farm(played: pa.Table) -> pa.Table:
    """Recommend a set for one farm. For `applyInArrow`: takes the farm's days and results, and returns `ADVISED`."""
    days: dict[int, list[dict[str, Any]]] = {}
    is_day = pc.equal(played["what"], "day")
    for row in played.filter(is_day).select(["set", "day", "farm_ms", "cost"]).to_pylist():
        days.setdefault(row["set"], []).append(row)
    results = played.filter(pc.invert(is_day)).sort_by("set").to_pylist()
    sets = [
        Tried(
            json.loads(row["parameters"]),
            {each["day"]: each["cost"] for each in days.get(row["set"], ())},
            {each["day"]: each["farm_ms"] for each in days.get(row["set"], ())},
        )
        for row in results
    ]
    advice = advise(sets, json.loads(results[0]["in_force"]))
    for row, tried, gain in zip(results, sets, advice.gains, strict=True):
        row["recommended"] = tried is advice.best
        row["advice"] = " ".join([advice.why, *advice.hints]) if row["live"] else None
        if gain is not None:
            row |= {"gain": gain.share, "gain_low": gain.low, "gain_high": gain.high, "saved_s": gain.seconds}
    return pa.Table.from_pylist(results, schema=ADVISED)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, int, ReplayedEntry]]:
    """Yield the rows of a batch, each as farm, number of the chunk, and log entry."""
    values = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    servers = (tuple(each or ()) for each in values["servers"])
    rows = map(ReplayedEntry, *(values[name] for name in ("index", "term", "received_ms", "kind", "value")), servers)
    yield from zip(values["farm"], values["chunk"], rows, strict=True)


def play(
    farm: str,
    chunks: Sequence[Sequence[Set]],
    chunk: int,
    log: Iterable[ReplayedEntry],
    weights: Weights = WEIGHTS,
) -> Iterator[dict[str, Any]]:
    """Replay a farm under the sets of `chunks[chunk]`; yield rows of `_OUTPUT`.

    The rows are the days and the results of each set, and for chunk 0 also the live set's decisions. `log`: rows in the
    order that `Replay.feed` needs.
    """
    meter = ReplayMeter(farm, chunks[chunk])
    row: ReplayedEntry | None = None
    for row in log:
        changed_runs = meter.replay.feed(row)
        if changed_runs and changed_runs[0] == 0 and chunk == 0:  # set 0 of chunk 0 is the live set
            yield {"what": "decision", **meter.replay.decision(row)}
    if row is not None:
        yield from _results_of(meter, chunk, len(chunks), weights)


def _results_of(meter: ReplayMeter, chunk: int, chunks: int, weights: Weights) -> Iterator[dict[str, Any]]:
    for place, measures in enumerate(meter.results()):
        number = chunk + place * chunks  # see `_chunks`
        what = {"farm": meter.replay.farm, "set": number, "parameters": _json(measures.parameters)}
        for day, counts in measures.days.items():
            date = datetime.fromtimestamp(day * DAY_MS // 1000, UTC).date().isoformat()
            yield {"what": "day", **what, "day": date, **asdict(counts), "cost": counts.seconds(weights)}
        total = measures.total
        yield {
            "what": "result",
            **what,
            **asdict(total),
            "in_force": _json(measures.in_force),
            "live": not measures.parameters,
            "exact": measures.exact,
            "entries": measures.entries,
            "cost": total.cost(weights),
            "superseded": meter.replay.superseded,
            "gaps": meter.replay.gaps,
        }


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
