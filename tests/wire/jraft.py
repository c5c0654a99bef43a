"""The vectors that JRaft's own classes wrote: `vectors/jraft-wire.json`."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import MessageType, Request, Response


@cache
def _vectors() -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads(
        (Path(__file__).parent / "vectors" / "jraft-wire.json").read_text("utf-8")
    )
    return vectors


def parameters(kind: str) -> pytest.MarkDecorator:
    """Run a test once for every vector of a kind, with the arguments `fields` and `data` (the bytes)."""
    chosen = [vector for vector in _vectors() if vector["kind"] == kind]
    assert chosen, f"no vector is of the kind {kind}"
    return pytest.mark.parametrize(
        ("fields", "data"),
        [pytest.param(vector["fields"], bytes.fromhex(vector["hex"]), id=vector["name"]) for vector in chosen],
    )


def messages(kind: str) -> list[bytes]:
    """Give all requests, or all responses."""
    return [bytes.fromhex(vector["hex"]) for vector in _vectors() if vector["kind"] == kind]


def kinds() -> set[str]:
    """Every kind of vector in the file."""
    return {vector["kind"] for vector in _vectors()}


def entries(fields: list[dict[str, Any]]) -> tuple[Entry, ...]:
    """The entries as a vector's fields describe them."""
    return tuple(
        Entry(each["term"], ValueType(each["value_type"]), bytes.fromhex(each["value_hex"])) for each in fields
    )


def request(fields: dict[str, Any]) -> Request:
    """The request with a vector's fields."""
    return Request(**{**fields, "type": MessageType(fields["type"]), "entries": entries(fields["entries"])})


def response(fields: dict[str, Any]) -> Response:
    """The response with a vector's fields."""
    return Response(**{**fields, "type": MessageType(fields["type"])})
