"""Rows of the lake's `entries`, from records, in the form of `ingest`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.schema import text as schema_text

_PLAIN: Final[dict[str, type[DataType]]] = {
    "integer": LongType,
    "number": DoubleType,
    "string": StringType,
    "boolean": BooleanType,
}
_OPEN_TEXTS: Final = frozenset({"version", "reachability", "lastPublishedRI"})
"""Fields that the schema leaves open and that are no numbers."""


def _type(name: str, schema: dict[str, Any]) -> DataType:
    """Give the column's type for a part of the record's JSON Schema."""
    kinds = schema.get("type", "integer" if "enum" in schema else None)
    kind = next((each for each in kinds if each != "null"), None) if isinstance(kinds, list) else kinds
    if kind == "object":
        return StructType([StructField(key, _type(key, part)) for key, part in schema["properties"].items()])
    if kind == "array":
        return ArrayType(_type(name, schema["items"]))
    if kind is None:
        return StringType() if name in _OPEN_TEXTS else DoubleType()
    return _PLAIN[kind]()


RECORD: Final = _type("record", json.loads(schema_text()))
ENTRIES: Final = StructType(
    [
        StructField("index", LongType()),
        StructField("term", LongType()),
        StructField("received_ms", LongType()),
        StructField("exporter", LongType()),
        StructField("kind", StringType()),
        StructField("value", StringType()),
        StructField("raw", BinaryType()),
        StructField("servers", ArrayType(LongType())),
        StructField("leader", LongType()),
        StructField("misfit", StringType()),
        StructField("record", RECORD),
        StructField("farm", StringType()),
        StructField("day", StringType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An entry of the table. Times in ms since the epoch."""

    index: int
    record: StatusRecord | None = None
    """The record, for kind "status"."""
    received_ms: int | None = None
    """Time of receipt, in ms since the epoch; None: the record's own date."""
    farm: str = "farm"
    term: int = 1
    exporter: int = 1
    kind: str = "status"
    value: str | None = None
    """The JSON of the entry; None: the JSON of the record."""
    raw: bytes | None = None
    servers: Sequence[int] | None = None
    leader: int | None = None
    misfit: str | None = None
    """Why the entry is no valid record; such a row has no record."""

    def columns(self) -> dict[str, Any]:
        """Give the row by the names of the columns."""
        received, value, shown = self.received_ms, self.value, None
        if self.record is not None:
            received = self.record.date_ms if received is None else received
            value = self.record.encode().decode() if value is None else value
            if self.misfit is None:
                shown = _conform(json.loads(self.record.encode()), RECORD)
        assert received is not None, "an entry without a record needs a time"
        return {
            "index": self.index,
            "term": self.term,
            "received_ms": received,
            "exporter": self.exporter,
            "kind": self.kind,
            "value": value,
            "raw": self.raw,
            "servers": None if self.servers is None else list(self.servers),
            "leader": self.leader,
            "misfit": self.misfit,
            "record": shown,
            "farm": self.farm,
            "day": datetime.fromtimestamp(received / 1000, UTC).strftime("%Y-%m-%d"),
        }


def entries(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Make the table of these rows."""
    values = [row.columns() for row in rows]
    return spark.createDataFrame([tuple(row[name] for name in ENTRIES.names) for row in values], ENTRIES)


def _conform(value: Any, kind: DataType) -> Any:
    """Give a JSON value as Spark takes the value for this type: Spark takes no whole number as a double."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {each.name: _conform(value.get(each.name), each.dataType) for each in kind}
    if isinstance(kind, ArrayType):
        return [_conform(each, kind.elementType) for each in value]
    return float(value) if isinstance(kind, DoubleType) else value
