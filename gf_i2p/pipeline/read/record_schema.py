"""The status record's JSON Schema as columns: gives the type of each field, and finds records that do not fit.

Types: whole numbers are long, text is string, objects are structs, lists are arrays. The schema gives no type to a
router's figures, because routers differ. Such a field is a double, or a string if the field's name is in
`_OPEN_TEXTS`. In such a field, a value of another type becomes null, without a misfit. A new field of the schema makes
a new column, which is null in older files. All fields are nullable.

Of JSON Schema, this module knows the keywords in `status.json`: type, properties, required, items, maxItems, minimum,
maximum, enum and pattern.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]

_OPEN_TEXTS: Final = frozenset({"version", "reachability", "lastPublishedRI"})
_SPARK: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
}
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

    @property
    def ddl(self) -> str:
        """Type of the column in the syntax of Spark's DDL."""
        return ddl(self.type)

    def misfit(self, found: object) -> str | None:
        """Return the reason why a value, parsed by Python's `json`, breaks the schema; None: the value fits."""
        return _misfit(self._root, found, "the record")

    def row(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record without `misfit` as a value of `type`. Raises `ValueError` for text that is not Unicode."""
        made: dict[str, Any] = _row(self._root, found, "")
        return made

    def doubtful(self, records: pa.StructArray) -> Flags:
        """Return, for each record, whether required fields, ranges, patterns or numbers of items may break the schema.

        `records`: a column of `type`, so the types are right. A field that is null counts as missing.
        """
        return _doubtful(self._root, records)


def ddl(kind: pa.DataType) -> str:
    """Return Spark's name of an Arrow type.

    Known: string, long, double, boolean, binary, and structs and lists of these.
    """
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'`{field.name}`: {ddl(field.type)}' for field in kind.fields)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl(kind.value_type)}>"
    return "binary" if kind == pa.binary() else _SPARK[kind]


def columns(schema: pa.Schema) -> str:
    """Return the columns of a table in the syntax of Spark's DDL."""
    return ", ".join(f"`{field.name}` {ddl(field.type)}" for field in schema)


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


def _misfit(node: Mapping[str, Any], found: object, where: str) -> str | None:
    kind = _name(node)
    if kind is None or (found is None and "null" in node.get("type", ())):
        return None
    if type(found) is not _PYTHON[kind]:
        return f"{where} must be of type {kind}"
    if "enum" in node and found not in node["enum"]:
        return f"{where} must be one of {node['enum']}"
    if isinstance(found, dict):
        for name in node.get("required", ()):
            if name not in found:
                return f"{where} has no {name}"
        for name, below in node["properties"].items():
            if name in found and (reason := _misfit(below, found[name], name)):
                return reason
    elif isinstance(found, list):
        if len(found) > node.get("maxItems", len(found)):
            return f"{where} may have up to {node['maxItems']} items"
        for each in found:
            if reason := _misfit(node["items"], each, f"an item of {where}"):
                return reason
    elif isinstance(found, str):
        if "pattern" in node and not re.search(node["pattern"], found):
            return f"{where} is not of the form {node['pattern']}"
    elif isinstance(found, int) and not node.get("minimum", found) <= found <= node.get("maximum", found):
        return f"{where} must be from {node.get('minimum')} to {node.get('maximum')}"
    return None


def _row(node: Mapping[str, Any], found: Any, name: str) -> Any:
    if found is None:
        return None
    match _name(node):
        case "object":
            return {each: _row(below, found.get(each), each) for each, below in node["properties"].items()}
        case "array":
            return [_row(node["items"], each, name) for each in found]
        case None if name not in _OPEN_TEXTS:
            return float(found) if type(found) in {int, float} else None
        case None if not isinstance(found, str):
            return None
    if isinstance(found, str):
        found.encode()
    return found


def _doubtful(node: Mapping[str, Any], found: pa.Array) -> Flags:
    doubt = np.zeros(len(found), dtype=np.bool_)
    if found.null_count == len(found):
        return doubt
    match _name(node):
        case "object":
            required = node.get("required", ())
            for name, below in node["properties"].items():
                field = found.field(name)
                if name in required:
                    doubt |= _flags(field.is_null())
                if _restricts(below):
                    doubt |= _doubtful(below, field)
            return doubt & _flags(found.is_valid())
        case "array":
            if "maxItems" in node:
                doubt |= _flags(pc.greater(pc.list_value_length(found), node["maxItems"]))
            if _restricts(node["items"]):
                inside = _doubtful(node["items"], found.flatten())
                if inside.any():
                    doubt[pc.list_parent_indices(found).to_numpy()[inside]] = True
        case "string" if "pattern" in node:
            doubt |= _flags(pc.invert(pc.match_substring_regex(found, _SURE.get(node["pattern"], node["pattern"]))))
        case "integer" if "enum" in node:
            doubt |= _flags(pc.invert(pc.is_in(found, pa.array(node["enum"], found.type)))) & _flags(found.is_valid())
        case "integer":
            if "minimum" in node:
                doubt |= _flags(pc.less(found, node["minimum"]))
            if "maximum" in node:
                doubt |= _flags(pc.greater(found, node["maximum"]))
        case None if found.type == pa.float64():
            doubt |= _flags(pc.invert(pc.is_finite(found)))
    return doubt


def _restricts(node: Mapping[str, Any]) -> bool:
    """Return whether the schema has rules for a field besides the type."""
    return _name(node) in {None, "object", "array"} or not node.keys().isdisjoint(
        {"enum", "minimum", "maximum", "pattern"}
    )


def _flags(found: pa.Array) -> Flags:
    """Return a column of booleans as an array, with False in place of null."""
    made: Flags = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return made
