"""The lines of the history's files: one JSON object each, in UTF-8, compact, keys sorted, no raw line break inside.

    {"cluster":"farm","first":1,"format":2,"opened":1790000000000,"server":2}  the first line of a file
    {"index":1,"leader":2,"received":1790000000123,"servers":[1,2],"term":1}   a Configuration entry: see `Servers`
    {"index":2,"received":1790000000123,"record":{"id":1,...},"term":1}        an Application entry, its value as JSON
    {"base64":"/w==","index":3,"received":1790000000123,"term":1}              one whose value is not JSON: its bytes
    {"other":[4,5]}                                                            entries of other kinds: not exported
    {"gap":[6,900],"servers":[1,2]}                                            missing entries: see `Gap`
    {"restored":[1,800],"servers":[1,2],"term":268435460}                      missing entries: see `Restored`
    {"last":900}                                                               the last line of a rotated file

Every index from "first" on is in exactly one line, in order, and the next file goes on after "last". So a missing entry
shows, and is not taken for an entry of another kind. "opened" and "received" are milliseconds since the epoch, by the
clock of the exporting server: when the file was begun, and when that server applied the entry. "leader" is null, and
the "servers" of a gap are left out, where that server did not know.

A line that begins with a space begins a batch that was written and synced at once; everything before that line was on
the disk by then. JSON allows the space; only the search for the torn end of a file uses it.

The numbers of a record are those of JSON (RFC 8259, 6): whole numbers of up to `MAX_DIGITS` are kept unchanged, all
others as the nearest double.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from gf_i2p.wire.limits import MAX_ID, MAX_INTEGER, MAX_NAME_BYTES, MAX_SERVERS, MAX_VALUE_BYTES

FORMAT: Final = 2
"""Format of every file. Format 1, from before gf-i2p 0.1.0, had no Configurations: it is refused."""
MAX_LINE_BYTES: Final = 2 << 20
"""A value of 1 MiB takes 1.4 MiB in base64. JSON that its numbers make longer (1e15) than this becomes base64, too."""
MAX_DEPTH: Final = 100
"""Depth of lists and objects. Parsers differ in their limits, and some end the process."""
MAX_DIGITS: Final = 32
"""Digits of a whole number. Python's limit depends on the environment, and other programs fall back to a double."""
MAX_TIME_MS: Final = 2**53 - 1
"""The largest whole number that JSON's numbers hold exactly everywhere."""

_SPACE: Final = " \t\n\r"
# JSON needs no escape for these characters, but many programs take them for the end of a line.
_LINE_BREAKS: Final = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class LineError(ValueError):
    """The bytes are no line of a history, or not the next line; `str()` says why."""


class FormatError(LineError):
    """The first line of a file names a format that this program does not know."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a file."""

    cluster: str
    server: int
    first: int
    """Index with which the file begins."""
    opened_ms: int


@dataclass(slots=True)  # not frozen: to make frozen objects would take most of the time of reading
class Record:
    """An Application entry."""

    index: int
    term: int
    received_ms: int
    """Time when the exporting server applied the entry."""
    value: Any
    """The value as JSON; None also when `raw` has the value."""
    raw: bytes | None = None
    """The value's bytes, if the value is not JSON."""


@dataclass(frozen=True, slots=True)
class Servers:
    """A Configuration entry."""

    index: int
    term: int
    received_ms: int
    """Time when the exporting server applied the entry."""
    servers: tuple[int, ...]
    """Ids of the servers, in the Configuration's order; at most `MAX_SERVERS`."""
    leader: int | None
    """Leader of `term` by the exporting server's knowledge; None: not known. The leader may be outside `servers`."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries that this server's log did not have when the history came there; other servers' histories may have them.

    A snapshot stood for these entries. It came from another server, or the log was shortened before the history came.
    """

    first: int
    last: int
    servers: tuple[int, ...] | None = field(default=None, kw_only=True)
    """Ids of the servers by the Configuration that counts at `last`; None: not known."""


@dataclass(frozen=True, slots=True)
class Restored(Gap):
    """A gap where the farm began anew from a snapshot of the entry `last`, in a term above all terms before.

    The farm has forgotten the entries of an older history after `last`: other entries have these indexes now.
    """

    term: int


@dataclass(frozen=True, slots=True)
class Other:
    """Entries of other kinds, which are not exported."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Trailer:
    """The last line of a file that is rotated."""

    last: int


Line = Header | Record | Servers | Gap | Other | Trailer


# Writing --------------------------------------------------------------------------------------------------------------


def header_line(header: Header) -> bytes:
    """Encode the first line of a file."""
    return _dump(
        {
            "cluster": header.cluster,
            "first": header.first,
            "format": FORMAT,
            "opened": header.opened_ms,
            "server": header.server,
        }
    )


def record_line(index: int, term: int, received_ms: int, value: bytes) -> bytes:
    """Encode an Application entry with any value of up to `MAX_VALUE_BYTES`, the limit of every log."""
    assert len(value) <= MAX_VALUE_BYTES
    record = _normal(value)
    if record is not None:
        line = b'{"index":%d,"received":%d,"record":%b,"term":%d}\n' % (index, received_ms, record, term)
        if len(line) <= MAX_LINE_BYTES:
            return line
    return b'{"base64":"%b","index":%d,"received":%d,"term":%d}\n' % (b64encode(value), index, received_ms, term)


def servers_line(index: int, term: int, received_ms: int, servers: Collection[int], leader: int | None) -> bytes:
    """Encode a Configuration entry with these servers, at most `MAX_SERVERS`, and its term's leader, if known."""
    assert len(servers) <= MAX_SERVERS
    return _dump({"index": index, "leader": leader, "received": received_ms, "servers": [*servers], "term": term})


def gap_line(first: int, last: int, servers: Collection[int] | None = None) -> bytes:
    """Encode a gap from `first` to `last`, with the servers after the gap, if known."""
    return _dump({"gap": [first, last]} | _known(servers))


def restored_line(first: int, last: int, term: int, servers: Collection[int] | None = None) -> bytes:
    """Encode that the farm went on from a snapshot of the entry `last`, and that earlier entries are missing here.

    `servers`: those of the snapshot's Configuration, if known.
    """
    return _dump({"restored": [first, last], "term": term} | _known(servers))


def _known(servers: Collection[int] | None) -> dict[str, Any]:
    return {} if servers is None else {"servers": [*servers]}


def other_line(first: int, last: int) -> bytes:
    """Encode that the entries from `first` to `last` are of other kinds."""
    return b'{"other":[%d,%d]}\n' % (first, last)


def trailer_line(last: int) -> bytes:
    """Encode the last line of a rotated file, whose last entry is `last`."""
    return b'{"last":%d}\n' % last


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("too many digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_DECODE: Final = json.JSONDecoder(parse_int=_whole, object_pairs_hook=_object, parse_constant=_no_number).raw_decode
# No NaN: so a number beyond the doubles, which Python reads as infinity, fails here.
_ENCODE: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


def _normal(value: bytes) -> bytes | None:
    """Return the JSON for a line; None when the value is no JSON, or when parsers would read the value differently."""
    try:
        text = value.decode("utf-8").strip(_SPACE)
        found, end = _DECODE(text)
        if end < len(text):
            return None
        if value.count(b"[") + value.count(b"{") > MAX_DEPTH and depth(found) > MAX_DEPTH:
            return None
        text = _ENCODE(found)
        if not text.isascii():
            for character, escape in _LINE_BREAKS.items():
                text = text.replace(character, escape)
        return text.encode("utf-8")
    except (ValueError, RecursionError):  # also for a lone surrogate, which JSON can write and UTF-8 cannot
        return None


def depth(value: Any) -> int:
    """Return the depth of lists and objects in a JSON value."""
    found, level = 0, [value]
    while level := [each for each in level if isinstance(each, list | dict)]:
        found += 1
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    return found


def _dump(value: Mapping[str, Any]) -> bytes:
    return _ENCODE(value).encode("utf-8") + b"\n"


# Reading --------------------------------------------------------------------------------------------------------------

_READ: Final = json.JSONDecoder(parse_constant=_no_number).decode
match_record: Final = re.compile(
    rb' ?\{"index":([0-9]{1,18}),"received":([0-9]{1,15}),"record":(.+),"term":([0-9]{1,18})\}\n?',
    re.DOTALL,  # no line contains a line break, so the pattern need not look for one
).fullmatch
"""Match almost all lines of records, with or without the end: index, time, value and term. The value is not checked."""
_RECORD: Final = {"index", "received", "record", "term"}
_RAW: Final = {"base64", "index", "received", "term"}
_SERVERS: Final = {"index", "leader", "received", "servers", "term"}
_RESTORED: Final = {"restored", "term"}
_HEADER: Final = {"cluster", "first", "format", "opened", "server"}


def read_json(text: bytes) -> Any:
    """Read JSON in UTF-8. Raises `ValueError` and `RecursionError`.

    From bytes, `json` would guess the encoding, and would accept lone surrogates.
    """
    return _READ(text.decode("utf-8"))


def parse_line(data: bytes) -> Line:
    """Read a line, with or without its end. Raises `LineError`."""
    try:
        found = read_json(data)
    except (ValueError, RecursionError):
        raise LineError("it is not JSON in UTF-8") from None
    if not isinstance(found, dict):
        raise LineError("it is no object")
    names = found.keys()
    if names == _RECORD:
        return Record(*_place(found), found["record"])
    if names == _RAW:
        return Record(*_place(found), None, _bytes(found["base64"]))
    if names == _SERVERS:
        return Servers(*_place(found), _servers(found["servers"]), _leader(found["leader"]))
    if names == {"last"}:
        return Trailer(_number(found["last"], 0, MAX_INTEGER, "last"))
    if names == {"other"}:
        return Other(*_span(found, "other"))
    if "format" in names:
        return _header(found)
    servers = _servers(found.pop("servers")) if "servers" in names else None
    if names == {"gap"}:
        return Gap(*_span(found, "gap"), servers=servers)
    if names == _RESTORED:
        term = _number(found["term"], 1, MAX_INTEGER, "term")
        return Restored(*_span(found, "restored"), term, servers=servers)
    raise LineError("it is of no kind that there is")


def _header(found: Mapping[str, Any]) -> Header:
    number = _number(found["format"], 1, MAX_INTEGER, "format")
    if number != FORMAT:
        who = "a version before gf-i2p 0.1.0" if number < FORMAT else "a newer gf-i2p"
        raise FormatError(f"its format {number} is that of {who}, and this program knows {FORMAT}: use the former")
    if found.keys() == _HEADER:
        cluster = found["cluster"]
        if not isinstance(cluster, str) or len(cluster) > MAX_NAME_BYTES:
            raise LineError("cluster is a name")
        return Header(
            cluster,
            _number(found["server"], 0, MAX_ID, "server"),
            _number(found["first"], 1, MAX_INTEGER, "first"),
            _number(found["opened"], 0, MAX_TIME_MS, "opened"),
        )
    raise LineError("it is of no kind that there is")


def glance_line(data: bytes) -> Line:
    """Read a line as `parse_line` does, but not a record's value: much faster. Zero bytes in a value are noticed."""
    if (match := match_record(data)) and b"\0" not in data:
        index, received_ms, term = map(int, match.group(1, 2, 4))
        return Record(index, term, received_ms, None)
    return parse_line(data)


def _place(found: Mapping[str, Any]) -> tuple[int, int, int]:
    return (
        _number(found["index"], 1, MAX_INTEGER, "index"),
        _number(found["term"], 0, MAX_INTEGER, "term"),
        _number(found["received"], 0, MAX_TIME_MS, "received"),
    )


def _span(found: Mapping[str, Any], name: str) -> tuple[int, int]:
    value = found[name]
    if not isinstance(value, list) or len(value) != 2:
        raise LineError(f"{name} is a first and a last index")
    first = _number(value[0], 1, MAX_INTEGER, name)
    return first, _number(value[1], first, MAX_INTEGER, name)


def _servers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > MAX_SERVERS:
        raise LineError(f"servers is a list of at most {MAX_SERVERS} ids")
    ids = tuple(_number(each, 0, MAX_ID - 1, "a server's id") for each in value)
    if len(set(ids)) < len(ids):
        raise LineError("servers has an id twice")
    return ids


def _leader(value: object) -> int | None:
    return None if value is None else _number(value, 0, MAX_ID - 1, "leader")


def _number(value: object, low: int, high: int, name: str) -> int:
    if type(value) is not int or not low <= value <= high:
        raise LineError(f"{name} is a whole number from {low} to {high}")
    return value


def _bytes(text: object) -> bytes:
    try:
        if isinstance(text, str):
            return b64decode(text, validate=True)
    except ValueError:
        pass
    raise LineError("base64 is none")


class Sequence:
    """The check that lines follow each other in one file, from the first on."""

    def __init__(self, first: int) -> None:
        """`first`: the index with which the file should begin."""
        self.last_index = first - 1
        """The last index that the lines so far account for."""
        self.header: Header | None = None
        self.closed = False
        """Whether the file has its last line."""
        self.last_term: tuple[int, int] | None = None
        """Index and term of the last entry with a known term."""

    def take(self, line: Line) -> None:
        """Check the next line. Raises `LineError`."""
        if self.closed:
            raise LineError("it stands behind the file's last line")
        if self.header is None:
            if not isinstance(line, Header):
                raise LineError("it should be the file's first line")
            if line.first != self.last_index + 1:
                raise LineError(f"the file says that it begins with {line.first}, and its name says otherwise")
            self.header = line
            return
        match line:
            case Record(index, term) | Servers(index, term):
                first = last = index
                self.last_term = index, term
            case Gap(first, last) | Other(first, last):
                pass
            case Trailer(last):
                if last != self.last_index:
                    raise LineError(f"it ends with {last}, after {self.last_index}")
                self.closed = True
                return
            case Header():
                raise LineError("it is a first line in the middle of a file")
        if first != self.last_index + 1:
            raise LineError(f"after {self.last_index} comes {first}")
        self.last_index = last
