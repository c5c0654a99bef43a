"""The table `anomalies`: Spark gives each farm's hours to the rule of `episodes`."""

from typing import Any, Final

from pyspark.sql import SparkSession

from gf_i2p.pipeline.days import HOUR_MS
from gf_i2p.pipeline.health.anomalies import EPISODES, anomalies
from tests.pipeline.health.test_episodes import LEAF, START, USUAL

_SERVERS: Final = (
    "farm string, hour_ms long, server long, watched_ms long, availability double, flaps long, records long, "
    "lag_ms double, tunnels double, in_bytes_s double, out_bytes_s double, known_peers double, skew_ms double, "
    "day string"
)
_LEAVES: Final = (
    "farm string, hour_ms long, server long, watched_ms long, destination string, availability double, flaps long, "
    "load double, day string"
)
LAST: Final = 60


def rows(schema: str, **others: Any) -> list[tuple[Any, ...]]:
    """Make some usual days, and a last hour with other values."""
    usual = USUAL | {
        "farm": "a",
        "server": 1,
        "watched_ms": HOUR_MS,
        "destination": LEAF,
        "day": "",
        "flaps": 0,
        "records": 60,
    }
    names = [each.split()[0] for each in schema.split(", ")]
    of_all = {name: value for name, value in others.items() if name in ("farm", "server")}
    made = []
    for hour in range(LAST + 1):
        values = usual | {"hour_ms": START + hour * HOUR_MS} | (others if hour == LAST else of_all)
        made.append(tuple(values[name] for name in names))
    return made


def test_each_farm_is_judged_by_itself(spark: SparkSession) -> None:
    """Farm "a" has an odd server, farm "b" an odd leaf, and farm "c" no leaves. Unknown numbers are null."""
    servers = [
        *rows(_SERVERS, tunnels=10.0, lag_ms=None),
        *rows(_SERVERS, farm="b"),
        *rows(_SERVERS, farm="c", server=2, known_peers=None),
    ]
    leaves = [*rows(_LEAVES), *rows(_LEAVES, farm="b", flaps=9)]
    frames = spark.createDataFrame(servers, _SERVERS), spark.createDataFrame(leaves, _LEAVES)
    found = anomalies(*frames)
    assert [f"{each.name} {each.dataType.simpleString()}" for each in found.schema] == EPISODES.split(", ")
    told = sorted((row.farm, row.subject, row.server, row.destination, row.measure) for row in found.collect())
    assert told == [("a", "server", 1, None, "tunnels"), ("b", "leaf", 1, LEAF, "flaps")]
