"""Server side of JSON-RPC 2: one request for each body, named parameters (i2pcontrol, API 1)."""

import json
import re
from dataclasses import dataclass
from typing import Final

from bridges.i2pcontrol.extension import Code
from bridges.i2pcontrol.strict_json import Json, JsonError, NoObjectError, parse_object

MAX_ID_CHARACTERS: Final = 64
"""Most characters of an id that is a text. The answer repeats the id, so the id must be short."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}")

Id = str | int | float | None


class CallError(Exception):
    """A call that gets an error object. `str()` goes to the caller, and must tell a stranger nothing secret."""

    def __init__(self, code: Code, message: str, *, call_id: Id = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = call_id


@dataclass(frozen=True, slots=True)
class Call:
    """One JSON-RPC request of a caller, checked for its form."""

    id: Id
    method: str
    params: dict[str, Json]
    token: Json
    """The token, taken out of `params`."""


def read_call(body: bytes) -> Call:
    """Read a request. Raises `CallError`."""
    try:
        request = parse_object(body)
    except NoObjectError as error:
        raise CallError(Code.REQUEST, "a request is one object; a list of requests is not taken") from error
    except JsonError as error:
        raise CallError(Code.PARSE, f"this is no request, because {error}") from error
    call_id = _id(request)
    method, params = request.get("method"), request.get("params", {})
    if request.get("jsonrpc") != "2.0":
        raise CallError(Code.REQUEST, 'jsonrpc must be "2.0"', call_id=call_id)
    if not isinstance(method, str) or not _NAME.fullmatch(method):
        raise CallError(Code.REQUEST, "method must be a name", call_id=call_id)
    if not isinstance(params, dict):
        raise CallError(Code.PARAMETERS, "params must be an object: parameters have names here", call_id=call_id)
    token = params.pop("Token", None)
    return Call(call_id, method, params, token)


def reply(call_id: Id, result: Json) -> bytes:
    """Encode an answer."""
    return json.dumps({"id": call_id, "jsonrpc": "2.0", "result": result}, separators=(",", ":")).encode()


def error_reply(call_id: Id, code: int, message: str) -> bytes:
    """Encode an answer with an error."""
    error = {"code": code, "message": message}
    return json.dumps({"error": error, "id": call_id, "jsonrpc": "2.0"}, separators=(",", ":")).encode()


def _id(request: dict[str, Json]) -> Id:
    """Return the request's id. Raises `CallError` for an illegal or missing id: a notification gets no answer."""
    call_id = request.get("id", ...)
    if call_id is None or (isinstance(call_id, int | float) and not isinstance(call_id, bool)):
        return call_id
    if isinstance(call_id, str) and len(call_id) <= MAX_ID_CHARACTERS:
        return call_id
    raise CallError(Code.REQUEST, f"id must be a number, or a text of up to {MAX_ID_CHARACTERS} characters")
