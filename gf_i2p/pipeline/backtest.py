"""Replays the farms of a lake with a grid of parameters, by Spark: the tables `decisions` and `backtest`.

The entries are brought together by farm and sorted by Spark, which puts on the disk what its memory does not hold; a
Python worker then goes through them in Arrow batches and keeps nothing but the states of one farm at a time. Where
there are fewer farms than cores, each gets a part of the grid as well.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.grid import Set
from gf_i2p.pipeline.lake import Lake
from gf_i2p.pipeline.measures import Measures, Trial
from gf_i2p.pipeline.recommend import Result
from gf_i2p.pipeline.replay import Decision, Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BacktestFigures", "Player", "Window", "backtest", "results"]

_CORES: Final = 8
"""Of a cluster that does not say how many it has."""
_PARTITIONS_EACH: Final = 4
"""By how many times there are more partitions than tasks: few get two farms while others have none."""
_ROWS: Final = 500
"""Of a batch that is given back."""
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
_PLAYED: Final = {"what": "string"} | _DECISION | _RESULT


@dataclass(frozen=True, slots=True)
class Window:
    """Which entries are replayed."""

    farm: str | None = None
    since_ms: int | None = None
    """By the exporters' clocks. Of what is older, what administrators and Configurations say counts all the same."""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BacktestFigures:
    """What a run has done."""

    farms: int
    sets: int
    """With the live one."""
    entries: int
    """Of all farms, each once."""
    decisions: int
    inexact: int
    """Farms whose log has gaps."""
    seconds: float

    @property
    def entries_a_second(self) -> int:
        """Entries times sets."""
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
    """Replay, and write both tables anew: they have the last run's results.

    `sets`: from `grid`, the live one first. `one_farm`: whether more than one is a mistake. Raises `PipelineError`.
    """
    from pyspark import StorageLevel  # noqa: PLC0415 -- an extra
    from pyspark.sql import functions as f  # noqa: PLC0415

    assert sets[0] == {}
    began = time.monotonic()
    entries = _entries(spark, lake, window or Window())
    tell("looking which farms there are")
    farms = entries.select("farm").distinct().count()
    if not farms:
        raise PipelineError(f"There is nothing to replay in {lake.path('entries')}: look at --farm, --since, --until.")
    if one_farm and farms > 1:
        raise PipelineError(f"There are {farms} farms in {lake.root}, and each has parameters of its own: add --farm.")
    chunks = _chunks(sets, -(-_cores(spark) // farms))
    tasks = farms * len(chunks) * _PARTITIONS_EACH
    partitions = max(min(tasks, int(spark.conf.get("spark.sql.shuffle.partitions") or tasks)), 1)
    rows = (
        entries.withColumn("chunk", f.explode(f.sequence(f.lit(0), f.lit(len(chunks) - 1))))
        .repartition(partitions, "farm", "chunk")
        .withColumn("gap", (f.col("kind") == "servers") & f.col("value").isNotNull())
        .sortWithinPartitions("farm", "chunk", "index", "gap", f.desc("term"))
    )
    played = rows.mapInArrow(Player(chunks), _ddl(_PLAYED)).persist(StorageLevel.DISK_ONLY)
    tell(f"replaying {farms} farms with {len(sets)} parameter sets")
    try:
        decided = played.where("what = 'decision'").select(*_DECISION)
        decided.coalesce(_PARTITIONS_EACH).write.mode("overwrite").parquet(lake.path("decisions"))
        results = played.where("what = 'result'").select(*_RESULT)
        results.coalesce(1).sortWithinPartitions("farm", "cost").write.mode("overwrite").parquet(lake.path("backtest"))
        tell("counting")
        counted = played.agg(
            f.count(f.when(f.col("what") == "decision", 1)).alias("decisions"),
            f.sum(f.when(f.col("live"), f.col("entries"))).alias("entries"),
            f.count(f.when(f.col("live") & ~f.col("exact"), 1)).alias("inexact"),
        ).first()
    finally:
        played.unpersist()
    assert counted is not None
    return BacktestFigures(
        farms=farms,
        sets=len(sets),
        entries=int(counted["entries"]),
        decisions=int(counted["decisions"]),
        inexact=int(counted["inexact"]),
        seconds=round(time.monotonic() - began, 3),
    )


def results(spark: "SparkSession", lake: Lake) -> Iterator[list[Result]]:
    """Give what the table `backtest` says, farm by farm, the cheapest first; one farm's rows are in memory."""
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


def _entries(spark: "SparkSession", lake: Lake, window: Window) -> "DataFrame":
    from pyspark.errors import AnalysisException  # noqa: PLC0415
    from pyspark.sql import functions as f  # noqa: PLC0415

    try:
        table = spark.read.option("mergeSchema", "false").parquet(lake.path("entries"))
        table = table.select(
            "farm",
            "index",
            "term",
            "received_ms",
            "kind",
            f.coalesce(f.col("value").cast("binary"), f.col("raw")).alias("value"),
            "servers",
        )
    except AnalysisException as error:
        raise PipelineError(
            f"There are no entries in {lake.root} ({str(error).splitlines()[0]}): run `gf-i2p pipeline ingest` first."
        ) from None
    if window.farm is not None:
        table = table.where(f.col("farm") == window.farm)
    if window.since_ms is not None:
        for_good = f.col("kind").isin("servers", "admin")
        table = table.where(for_good | (f.col("received_ms") >= window.since_ms))
    if window.until_ms is not None:
        table = table.where(f.col("received_ms") < window.until_ms)
    return table


def _cores(spark: "SparkSession") -> int:
    master = str(spark.conf.get("spark.master", "") or "")
    if not master.startswith("local"):
        return _CORES
    count = master.removeprefix("local").strip("[]").split(",")[0]
    return int(count) if count.isdigit() else 1 if not count else os.cpu_count() or 1


def _chunks(sets: Sequence[Set], most: int) -> list[list[Set]]:
    """Share sets out, about as many to each."""
    count = min(max(most, 1), len(sets))
    return [list(sets[place::count]) for place in range(count)]


class Player:
    """What runs in Spark's Python workers."""

    def __init__(self, chunks: Sequence[Sequence[Set]]) -> None:
        self._chunks = chunks

    def __call__(self, batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        """Give rows of both tables, for `mapInArrow`."""
        import pyarrow as pa  # noqa: PLC0415 -- an extra

        schema = _arrow_schema()
        played = self.play(_rows(batches))
        while rows := list(islice(played, _ROWS)):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def play(self, rows: Iterable[tuple[str, int, Row]]) -> Iterator[dict[str, Any]]:
        """Give decisions and results. `rows`: farm, chunk and row, in order."""
        place: tuple[str, int] | None = None
        trial = Trial("", ())
        for farm, chunk, row in rows:
            if (farm, chunk) != place:
                if place is not None:
                    yield from _results_of(place[0], trial)
                place, trial = (farm, chunk), Trial(farm, self._chunks[chunk])
            decided = trial.feed(row)
            if decided and decided[0] == 0 and chunk == 0:  # the live set is the first of the first chunk
                yield _decision_row(farm, trial.replay.decision(0, row))
        if place is not None:
            yield from _results_of(place[0], trial)


def _rows(batches: Iterable["pa.RecordBatch"]) -> Iterator[tuple[str, int, Row]]:
    names = ("farm", "chunk", "index", "term", "received_ms", "kind", "value", "servers")
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in names]
        for farm, chunk, index, term, received_ms, kind, value, servers in zip(*columns, strict=True):
            yield farm, chunk, Row(index, term, received_ms, kind, value, tuple(servers or ()))


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


def _arrow_schema() -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415

    kinds = {"string": pa.string(), "long": pa.int64(), "boolean": pa.bool_(), "double": pa.float64()}
    listed = {"hash": pa.string(), "type": pa.int32(), "cost": pa.int32(), "owner": pa.int64(), "branch": pa.int32()}
    array = pa.list_(pa.struct(list(listed.items())))
    return pa.schema([(name, kinds.get(kind, array)) for name, kind in _PLAYED.items()])
