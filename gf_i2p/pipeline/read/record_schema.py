"""The status record's JSON Schema as columns: tells the type of each field, and finds records that do not fit.

Types: whole numbers are long, text is string, objects are structs, lists are arrays. The schema gives no type to a
router's figures, because routers differ. Such a field is a double, or a string if the field's name is in
`_OPEN_TEXTS`. In such a field, a value of another type becomes null, without a misfit. A new field of the schema makes
a new column, which is null in older files. All fields are nullable.

Of JSON Schema, this module handles only the keywords in `status.json`: type, properties, required, items, maxItems,
minimum, maximum, enum and pattern.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Flags = npt.NDArray[np.bool_]

_OPEN_TEXTS: Final = frozenset({"version", "reachability", "lastPublishedRI"})
_PYTHON: Final = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
# 43 characters have 258 bits, and a hash has 256. If the two spare bits are 0, the text is surely a hash.
_SURE: Final = {"^[A-Za-z0-9~-]{43}=?$": "^[A-Za-z0-9~-]{42}[AEIMQUYcgkosw048]=?$"}


class RecordSchema:
    """One version of the schema."""

    def __init__(self, text: str) -> None:
        """`text`: the JSON Schema, of type object."""
        self._root: dict[str, Any] = json.loads(text)
        self.type: pa.StructType = _type(self._root, "")
        """Type of the column, for Arrow."""

    def misfit(self, value: object) -> str | None:
        """Return the reason why a value, parsed by Python's `json`, breaks the schema; None: the value fits."""
        return _misfit(self._root, value, "the record")

    def row(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record without `misfit` as a value of `type`. Raises `ValueError` for text that is not Unicode."""
        row: dict[str, Any] = _row(self._root, record, "")
        return row

    def doubtful(self, records: pa.StructArray) -> Flags:
        """Return, for each record, whether required fields, ranges, patterns or item counts may break the schema.

        `records`: a column of `type`, so the types are right. A field that is null counts as missing.
        """
        return _doubtful(self._root, records)


def columns(schema: pa.Schema) -> "StructType":
    """Return the columns of a table as Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 -- an extra

    return from_arrow_schema(schema)


def _type(node: Mapping[str, Any], name: str) -> pa.DataType:
    match _name(node):
        case "object":
            return pa.struct([pa.field(each, _type(below, each)) for each, below in node["properties"].items()])
        case "array":
            return pa.list_(_type(node["items"], name))
        case "string":
            return pa.string()
        case "integer":
            return pa.int64()
        case "boolean":
            return pa.bool_()
    return pa.string() if name in _OPEN_TEXTS else pa.float64()


def _name(node: Mapping[str, Any]) -> str | None:
    """Return the JSON type of a field, apart from null; None: the schema gives no type."""
    if "enum" in node:
        return "integer"
    kinds = node.get("type")
    return next(kind for kind in kinds if kind != "null") if isinstance(kinds, list) else kinds


def _misfit(node: Mapping[str, Any], value: object, label: str) -> str | None:
    kind = _name(node)
    if kind is None or (value is None and "null" in node.get("type", ())):
        return None
    if type(value) is not _PYTHON[kind]:
        return f"{label} must be of type {kind}"
    if "enum" in node and value not in node["enum"]:
        return f"{label} must be one of {node['enum']}"
    if isinstance(value, dict):
        for name in node.get("required", ()):
            if name not in value:
                return f"{label} has no {name}"
        for name, below in node["properties"].items():
            if name in value and (reason := _misfit(below, value[name], name)):
                return reason
    elif isinstance(value, list):
        if len(value) > node.get("maxItems", len(value)):
            return f"{label} may have up to {node['maxItems']} items"
        for each in value:
            if reason := _misfit(node["items"], each, f"an item of {label}"):
                return reason
    elif isinstance(value, str):
        if "pattern" in node and not re.search(node["pattern"], value):
            return f"{label} is not of the form {node['pattern']}"
    elif isinstance(value, int) and not node.get("minimum", value) <= value <= node.get("maximum", value):
        return f"{label} must be from {node.get('minimum')} to {node.get('maximum')}"
    return None


def _row(node: Mapping[str, Any], value: Any, name: str) -> Any:
    if value is None:
        return None
    match _name(node):
        case "object":
            return {each: _row(below, value.get(each), each) for each, below in node["properties"].items()}
        case "array":
            return [_row(node["items"], each, name) for each in value]
        case None if name not in _OPEN_TEXTS:
            return float(value) if type(value) in {int, float} else None
        case None if not isinstance(value, str):
            return None
    if isinstance(value, str):
        value.encode()
    return value


def _doubtful(node: Mapping[str, Any], column: pa.Array) -> Flags:
    doubt = np.zeros(len(column), dtype=np.bool_)
    if column.null_count == len(column):
        return doubt
    match _name(node):
        case "object":
            required = node.get("required", ())
            for name, below in node["properties"].items():
                field = column.field(name)
                if name in required:
                    doubt |= _flags(field.is_null())
                if _restricts(below):
                    doubt |= _doubtful(below, field)
            return doubt & _flags(column.is_valid())
        case "array":
            if "maxItems" in node:
                doubt |= _flags(pc.greater(pc.list_value_length(column), node["maxItems"]))
            if _restricts(node["items"]):
                inside = _doubtful(node["items"], column.flatten())
                if inside.any():
                    doubt[pc.list_parent_indices(column).to_numpy()[inside]] = True
        case "string" if "pattern" in node:
            doubt |= _flags(pc.invert(pc.match_substring_regex(column, _SURE.get(node["pattern"], node["pattern"]))))
        case "integer" if "enum" in node:
            doubt |= _flags(pc.invert(pc.is_in(column, pa.array(node["enum"], column.type)))) & _flags(
                column.is_valid()
            )
        case "integer":
            if "minimum" in node:
                doubt |= _flags(pc.less(column, node["minimum"]))
            if "maximum" in node:
                doubt |= _flags(pc.greater(column, node["maximum"]))
        case None if column.type == pa.float64():
            doubt |= _flags(pc.invert(pc.is_finite(column)))
    return doubt


def _restricts(node: Mapping[str, Any]) -> bool:
    """Return whether the schema has rules for a field besides the type."""
    return _name(node) in {None, "object", "array"} or not node.keys().isdisjoint(
        {"enum", "minimum", "maximum", "pattern"}
    )


def _flags(column: pa.Array) -> Flags:
    """Return a column of booleans as an array, with False in place of null."""
    flags: Flags = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags
