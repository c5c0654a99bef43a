"""The description of the administration API for other programs, as an OpenAPI 3.1 document.

The limits in it are those of the handlers. A test sends requests that the document allows, and others, to a real node,
and compares the answers with the document (tests/admin/test_openapi.py).
"""

from typing import Any, Final

from gf_i2p import __version__
from gf_i2p.admin.local_socket import DEFAULT_TIMEOUT, MAX_PAGE, MAX_TIMEOUT, MAX_WAIT
from gf_i2p.farm.record_series import MOST
from gf_i2p.wire.limits import MAX_ENDPOINT_BYTES, MAX_ENTRIES, MAX_ID, MAX_INTEGER, MAX_VALUE_BYTES

_Json = dict[str, Any]
_COUNT: Final[_Json] = {"type": "integer", "minimum": 0}
_ERROR: Final[_Json] = {
    "type": "object",
    "required": ["error", "outcome"],
    "properties": {
        "error": {"type": "string", "description": "a sentence for people, which says what to do"},
        "outcome": {
            "type": "string",
            "enum": ["no", "unknown"],
            "description": "no: nothing was changed; unknown: the change may have been made, or may come",
        },
        "leader": {"type": "integer", "description": "the only server that takes the request: ask there"},
    },
    "additionalProperties": False,
}
_ENTRY: Final[_Json] = {
    "type": "object",
    "required": ["index", "term", "type"],
    "properties": {
        "index": {"type": "integer", "minimum": 1},
        "term": _COUNT,
        "type": {"type": "string"},
        "value": {"type": "string", "description": "the text of an application's entry that is valid UTF-8"},
        "base64": {"type": "string", "description": "the bytes of any other entry"},
    },
    "additionalProperties": False,
}
_EVENT: Final[_Json] = {
    "type": "object",
    "required": ["number", "date", "index", "text"],
    "properties": {
        "number": {"type": "integer", "minimum": 1},
        "date": {"type": ["integer", "null"], "description": "ms since the epoch"},
        "index": _COUNT,
        "text": {"type": "string", "description": "a sentence"},
    },
    "additionalProperties": False,
}
_STATUSES: Final = {
    "400": "the request is none of the API",
    "403": "this user may not do this",
    "404": "no such path, or this user may not use it",
    "409": "not here, or not now: the sentence says where and when",
    "410": "the log begins later",
    "413": "the body is too large",
    "415": "the body is not declared as JSON",
    "429": "this user asks too often",
    "500": "a fault of the disk, or of this program",
    "503": "no leader, or nothing is known to be committed",
    "504": "no answer in time: the outcome is unknown",
}


def document() -> _Json:
    """Return the document. Paths are relative to the API's address, which docs/how-to/administration.md gives."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gf-i2p administration API",
            "version": __version__,
            "description": "One node of a Garlic Farm. No GET changes anything. Administrators change, viewers see.",
        },
        "paths": _paths(),
        "components": {
            "schemas": {"Error": _ERROR, "Entry": _ENTRY, "Event": _EVENT},
            "securitySchemes": {"digest": {"type": "http", "scheme": "digest"}},
        },
        "security": [{"digest": []}, {}],
    }


def _paths() -> _Json:
    return {
        "/v1/status": {"get": _question("the node's status", ["cluster"])},
        "/v1/explain": {"get": _question("the farm's choice of publisher and leaves, with reasons", [])},
        "/v1/administration": {"get": _question("the administrators' settings, and their effect", [])},
        "/v1/record": {
            "get": _operation(
                "the newest record of a server or leaf member, and its numbers over the last day",
                {"type": "object", "required": ["server"]},
                (),
                parameters=[
                    _query("server", "id of the server or leaf member", {**_id(), "default": 0}),
                    _query(
                        "samples", "most samples", {"type": "integer", "minimum": 1, "maximum": MOST, "default": 300}
                    ),
                ],
            )
        },
        "/v1/openapi": {"get": _question("this document", ["openapi", "paths"])},
        "/v1/entries": {
            "get": _operation(
                "committed entries; without `first` the newest",
                _object(
                    {
                        "entries": _list("Entry"),
                        "commit": _COUNT,
                        "newest": {
                            "type": "boolean",
                            "description": "true: nothing newer was committed when this was asked; false: not known",
                        },
                    }
                ),
                ("409", "410", "503"),
                parameters=[
                    _query(
                        "first", "index of the first entry", {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER}
                    ),
                    _query(
                        "limit", "most entries", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 100}
                    ),
                    _query(
                        "stale",
                        "0: refuse unless nothing newer was committed; 1: what this server knows, at once; without: "
                        "the newest if this server leads, else what it knows",
                        {"type": "string", "enum": ["0", "1"]},
                    ),
                    _query("wait", "seconds to wait for the first entry", _seconds(0, MAX_WAIT, 0)),
                ],
            ),
            "post": _operation(
                "append entries; the answer comes when a majority has them on the disk",
                _object({"index": {"type": "integer", "minimum": 1, "description": "of the last entry"}}),
                ("403", "409", "413", "503", "504"),
                parameters=[
                    _query("timeout", "most seconds", _seconds(0.001, MAX_TIMEOUT, DEFAULT_TIMEOUT)),
                ],
                body=_object(
                    {
                        "values": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": MAX_ENTRIES,
                            "items": {"type": "string", "maxLength": MAX_VALUE_BYTES},
                        }
                    },
                    closed=False,
                ),
            ),
        },
        "/v1/events": {
            "get": _operation(
                "events of the farm as sentences",
                _object(
                    {
                        "events": _list("Event"),
                        "began": {
                            "type": "string",
                            "description": "changes when the node restarts: numbers begin anew",
                        },
                    }
                ),
                (),
                parameters=[_query("after", "number of an event", {**_COUNT, "maximum": MAX_INTEGER, "default": 0})],
            )
        },
        "/v1/servers": {
            "post": _operation(
                "the leader begins to add or to remove a server",
                _object({"begun": {"const": True}, "leader": _COUNT, "term": _COUNT}),
                ("403", "409", "503", "504"),
                body={
                    "anyOf": [
                        _object(
                            {
                                "add": _object(
                                    {"id": _id(), "endpoint": {"type": "string", "maxLength": MAX_ENDPOINT_BYTES}},
                                    closed=False,
                                )
                            },
                            closed=False,
                        ),
                        _object({"remove": _id()}, closed=False),
                    ]
                },
            )
        },
        "/v1/stepdown": {
            "post": _operation(
                "the leader hands over",
                _object({"leader": {"type": ["integer", "null"]}}),
                ("403", "409", "503"),
                body={},
            )
        },
    }


def _question(summary: str, required: list[str]) -> _Json:
    return _operation(summary, {"type": "object", "required": required}, ())


def _operation(
    summary: str,
    answer: _Json,
    errors: tuple[str, ...],
    *,
    parameters: list[_Json] | None = None,
    body: _Json | None = None,
) -> _Json:
    statuses = {"400", "404", "429", "500", *errors, *(() if body is None else ("415",))}
    operation: _Json = {
        "summary": summary,
        "responses": {
            "200": {"description": "the answer", "content": {"application/json": {"schema": answer}}},
            **{
                status: {
                    "description": _STATUSES[status],
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for status in sorted(statuses)
            },
        },
    }
    if parameters is not None:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _object(properties: _Json, *, closed: bool = True) -> _Json:
    return {
        "type": "object",
        "required": sorted(properties),
        "properties": properties,
        **({"additionalProperties": False} if closed else {}),
    }


def _list(name: str) -> _Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


def _query(name: str, description: str, schema: _Json) -> _Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _seconds(least: float, most: float, default: float) -> _Json:
    return {"type": "number", "minimum": least, "maximum": most, "default": default}


def _id() -> _Json:
    return {"type": "integer", "minimum": 0, "maximum": MAX_ID - 1}
