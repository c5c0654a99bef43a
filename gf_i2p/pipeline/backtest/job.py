"""Replays the farms of a lake with a grid of parameters, by Spark: the tables `decisions` and `backtest`.

Spark deals out tasks, one farm each, the largest farm first. A Python worker reads the farm's files itself, in the
order of the log (`ordered_rows`). The worker keeps only the states of one farm and some batches of rows. Nothing is
shuffled, and only results go through the JVM. Where there are fewer farms than cores, each task also gets only a part
of the grid.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.backtest.grid import Set
from gf_i2p.pipeline.backtest.ordered_rows import FarmFiles, Window, farms, rows
from gf_i2p.pipeline.backtest.recommendation import Result
from gf_i2p.pipeline.backtest.replay import Decision, Row
from gf_i2p.pipeline.backtest.replay_measures import Measures, Trial
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake import tables
from gf_i2p.pipeline.lake.paths import Lake

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["BacktestFigures", "Player", "Task", "Window", "backtest", "results"]

_CORES: Final = 8
"""Cores of a cluster that does not tell the number."""
_MOST_PARTITIONS: Final = 4096
"""A higher number gains nothing: planning the partitions would take longer than running the tasks."""
_FILES: Final = 4
"""Files of the table of decisions."""
_ROWS: Final = 500
"""Rows of a batch that a worker gives back."""
_DECISION: Final = {
    "farm": "string",
    "index": "long",
    "received_ms": "long",
    "now_ms": "long",
    "publisher": "long",
    "mode": "string",
    "listed": "array<struct<hash: string, type: int, cost: int, owner: long, branch: int>>",
    "exact": "boolean",
}
_RESULT: Final = {
    "farm": "string",
    "parameters": "string",
    "in_force": "string",
    "live": "boolean",
    "exact": "boolean",
    "entries": "long",
    "farm_ms": "long",
    "changes": "long",
    "unneeded": "long",
    "without_publisher_ms": "long",
    "stale_ms": "long",
    "set_changes": "long",
    "balance": "double",
    "cost": "double",
    "superseded": "long",
    "gaps": "long",
}
_FARM_FILES: Final = {"farm": "string", "path": "string", "bytes": "long"}
_PLAYED: Final = {"what": "string"} | _DECISION | _RESULT


@dataclass(frozen=True, slots=True)
class Task:
    """The work that a worker does at a time."""

    farm: str
    path: str
    """The farm's directory."""
    chunk: int
    """Number of the part of the grid."""


@dataclass(frozen=True, slots=True)
class BacktestFigures:
    """Figures of one run of the job."""

    farms: int
    sets: int
    """Parameter sets, the live one included."""
    entries: int
    """Log entries of all farms, each counted once."""
    decisions: int
    inexact: int
    """Farms whose log has gaps."""
    seconds: float

    @property
    def entries_a_second(self) -> int:
        """Entries times sets, in a second."""
        return round(self.entries * self.sets / self.seconds) if self.seconds else 0


def backtest(
    spark: "SparkSession",
    lake: Lake,
    sets: Sequence[Set],
    window: Window | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    one_farm: bool = False,
) -> BacktestFigures:
    """Replay the farms, and write both tables anew: the tables hold the results of the last run only.

    `sets`: from `grid`, the live set first. `one_farm`: several farms are a mistake. Raises `PipelineError`.
    """
    from pyspark import StorageLevel  # noqa: PLC0415 -- an extra
    from pyspark.sql import functions as f  # noqa: PLC0415

    assert sets[0] == {}
    began = time.monotonic()
    window = window or Window()
    tell("looking which farms there are")
    stored = _farms(spark, lake, window)
    if one_farm and len(stored) > 1:
        raise PipelineError(
            f"There are {len(stored)} farms in {lake.root}, and each has parameters of its own: add --farm."
        )
    chunks = _chunks(sets, -(-_cores(spark) // len(stored)))
    stored.sort(key=lambda each: each.bytes, reverse=True)  # a task that takes long must not begin last
    tasks = [Task(each.farm, each.path, chunk) for each in stored for chunk in range(len(chunks))]
    partitions = min(len(tasks), _MOST_PARTITIONS)
    player = Player(chunks, [tasks[place::partitions] for place in range(partitions)], window)
    dealt = spark.range(0, partitions, 1, partitions)  # one number to each partition; partitions begin in this order
    played = dealt.mapInArrow(player, _ddl(_PLAYED)).persist(StorageLevel.DISK_ONLY)
    tell(f"replaying {len(stored)} farms with {len(sets)} parameter sets")
    try:
        counted = played.agg(
            f.count(f.when(f.col("what") == "decision", 1)).alias("decisions"),
            f.sum(f.when(f.col("live"), f.col("entries"))).alias("entries"),
            f.count(f.when(f.col("live"), 1)).alias("farms"),
            f.count(f.when(f.col("live") & ~f.col("exact"), 1)).alias("inexact"),
        ).first()
        assert counted is not None
        if not counted["farms"]:
            raise PipelineError(_nothing(lake))
        tell("writing")
        decided = played.where("what = 'decision'").select(*_DECISION)
        decided.coalesce(_FILES).write.mode("overwrite").parquet(lake.path("decisions"))
        results = played.where("what = 'result'").select(*_RESULT)
        results.coalesce(1).sortWithinPartitions("farm", "cost").write.mode("overwrite").parquet(lake.path("backtest"))
    finally:
        played.unpersist()
    return BacktestFigures(
        farms=int(counted["farms"]),
        sets=len(sets),
        entries=int(counted["entries"]),
        decisions=int(counted["decisions"]),
        inexact=int(counted["inexact"]),
        seconds=round(time.monotonic() - began, 3),
    )


def results(spark: "SparkSession", lake: Lake) -> Iterator[list[Result]]:
    """Give the rows of the table `backtest`, farm by farm, the cheapest first. Memory holds one farm's rows."""
    table = spark.read.parquet(lake.path("backtest"))
    of_one: list[Result] = []
    for row in table.orderBy("farm", "cost", "parameters").toLocalIterator():
        found = _result(row.asDict())
        if of_one and of_one[0].farm != found.farm:
            yield of_one
            of_one = []
        of_one.append(found)
    if of_one:
        yield of_one


def _result(row: dict[str, Any]) -> Result:
    found = {each.name: row[each.name] for each in fields(Measures)}
    for name in ("parameters", "in_force"):
        found[name] = json.loads(row[name])
    return Result(row["farm"], Measures(**found), row["superseded"], row["gaps"])


def _farms(spark: "SparkSession", lake: Lake, window: Window) -> list[FarmFiles]:
    """Return the farms to replay, by their directories' names. A worker looks: only workers surely see the lake."""
    asked = tables.for_worker(spark, lake.path("entries"))
    found = [FarmFiles(*row) for row in asked.mapInArrow(_stored, _ddl(_FARM_FILES)).collect()]
    if not found:
        raise PipelineError(f"There are no entries in {lake.root}: run `gf-i2p pipeline ingest` first.")
    if window.farm is not None:
        found = [each for each in found if each.farm == window.farm]
    if not found:
        raise PipelineError(_nothing(lake))
    return found


def _nothing(lake: Lake) -> str:
    return f"There is nothing to replay in {lake.path('entries')}: look at --farm, --since, --until."


def _stored(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        for path in batch.column(0).to_pylist():
            found = farms(path)
            columns = {name: [getattr(each, name) for each in found] for name in _FARM_FILES}
            yield pa.RecordBatch.from_pydict(columns, schema=_arrow_schema(_FARM_FILES))


def _cores(spark: "SparkSession") -> int:
    master = str(spark.conf.get("spark.master", "") or "")
    if not master.startswith("local"):
        return _CORES
    count = master.removeprefix("local").strip("[]").split(",")[0]
    return int(count) if count.isdigit() else 1 if not count else os.cpu_count() or 1


def _chunks(sets: Sequence[Set], most: int) -> list[list[Set]]:
    """Share the sets out to parts of about the same size."""
    count = min(max(most, 1), len(sets))
    return [list(sets[place::count]) for place in range(count)]


class Player:
    """The code that runs in Spark's Python workers."""

    def __init__(
        self,
        chunks: Sequence[Sequence[Set]],
        tasks: Sequence[Sequence[Task]] = (),
        window: Window = Window(),  # noqa: B008 -- frozen
    ) -> None:
        """`tasks`: the tasks of each partition, by the number of the partition."""
        self._chunks, self._tasks, self._window = chunks, tasks, window

    def __call__(self, batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Give rows of both tables, for `mapInArrow`. `batches`: numbers of partitions."""
        import pyarrow as pa  # noqa: PLC0415 -- an extra

        schema = _arrow_schema(_PLAYED)
        tasks = chain.from_iterable(self._tasks[number] for batch in batches for number in batch.column(0).to_pylist())
        played = chain.from_iterable(self.play(task.farm, task.chunk, rows(task.path, self._window)) for task in tasks)
        while found := list(islice(played, _ROWS)):
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    def play(self, farm: str, chunk: int, log: Iterable[Row]) -> Iterator[dict[str, Any]]:
        """Give decisions and results of a farm for one part of the grid; nothing if the farm has no rows.

        `log`: in the order of the log.
        """
        trial = Trial(farm, self._chunks[chunk])
        row: Row | None = None
        for row in log:
            decided = trial.feed(row)
            if decided and decided[0] == 0 and chunk == 0:  # the live set is the first of the first chunk
                yield _decision_row(farm, trial.replay.decision(0, row))
        if row is not None:
            yield from _results_of(farm, trial)


def _decision_row(farm: str, decision: Decision) -> dict[str, Any]:
    return {
        "what": "decision",
        "farm": farm,
        "index": decision.index,
        "received_ms": decision.received_ms,
        "now_ms": decision.now_ms,
        "publisher": decision.publisher,
        "mode": decision.mode,
        "listed": [
            {
                "hash": to_base64(entry.hash),
                "type": entry.type,
                "cost": entry.cost,
                "owner": entry.owner,
                "branch": branch,
            }
            for branch, entry in decision.listed
        ],
        "exact": decision.exact,
    }


def _results_of(farm: str, trial: Trial) -> Iterator[dict[str, Any]]:
    for measures in trial.results():
        yield {
            **asdict(measures),
            "what": "result",
            "farm": farm,
            "parameters": _json(measures.parameters),
            "in_force": _json(measures.in_force),
            "live": not measures.parameters,
            "cost": measures.cost(),
            "superseded": trial.replay.superseded,
            "gaps": trial.replay.gaps,
        }


def _json(of: Mapping[str, Any]) -> str:
    return json.dumps(of, separators=(",", ":"), sort_keys=True)


def _ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _arrow_schema(columns: Mapping[str, str]) -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415

    kinds = {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_(), "double": pa.float64()}
    listed = {"hash": pa.string(), "type": pa.int32(), "cost": pa.int32(), "owner": pa.int64(), "branch": pa.int32()}
    array = pa.list_(pa.struct(list(listed.items())))
    return pa.schema([(name, kinds.get(kind, array)) for name, kind in columns.items()])
