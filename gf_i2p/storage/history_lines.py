"""The lines of the history's files: one JSON object each, in UTF-8, compact, keys sorted, no raw line break inside.

    {"cluster":"farm","first":1,"format":2,"opened":1790000000000,"server":2}  the first line of a file
    {"index":1,"leader":2,"received":1790000000123,"servers":[1,2],"term":1}   a Configuration entry
    {"index":2,"received":1790000000123,"record":{"id":1,...},"term":1}        an Application entry, its value as JSON
    {"base64":"/w==","index":3,"received":1790000000123,"term":1}              the same with a value that is not JSON
    {"other":[4,5]}                                                            entries of other kinds: not exported
    {"gap":[6,900],"servers":[1,2]}                                            missing entries: see `Gap`
    {"restored":[1,800],"servers":[1,2],"term":268435460}                      missing entries: see `Restored`
    {"last":900}                                                               the last line of a rotated file

Every index from "first" on is in exactly one line, in order, and the next file goes on after "last". So a reader
can tell a missing entry from an entry of a kind that is not exported. "opened" and "received" are milliseconds
since the epoch, by the clock of the exporting server: when the file was begun, and when that server applied the entry.
"leader" is null where that server did not know the leader. A gap has no "servers" where that server did not know the
servers.

A line that begins with a space begins a batch that was written and synced at once; everything before that line was on
the disk by then. JSON allows the space; only the search for the torn end of a file uses the space.

The numbers of a record are those of JSON (RFC 8259, 6): whole numbers of up to `MAX_DIGITS` digits are kept unchanged;
all other numbers become the nearest double.
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
"""Most bytes of a line. A value of 1 MiB takes 1.4 MiB in base64. JSON can grow when written anew (1e15 becomes
1000000000000000.0): if a record's line would exceed this limit, the value is written as base64, too."""
MAX_DEPTH: Final = 100
"""Most levels of nested lists and objects. Other parsers have other limits, and some end the process beyond them."""
MAX_DIGITS: Final = 32
"""Most digits of a whole number. Python's limit depends on the environment, and other programs read a double."""
MAX_TIME_MS: Final = 2**53 - 1
"""The largest whole number that every JSON parser reads exactly."""

_SPACE: Final = " \t\n\r"
# JSON needs no escape for these characters, but many programs take them for the end of a line.
_LINE_BREAKS: Final = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class LineError(ValueError):
    """The bytes are not a line of a history, or the line does not follow the line before; `str()` says why."""


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


@dataclass(slots=True)  # not frozen: a reader would spend most of its time on making frozen objects
class ApplicationLine:
    """An Application entry."""

    index: int
    term: int
    received_ms: int
    """Time when the exporting server applied the entry."""
    value: Any
    """The value, parsed from JSON. None: the value is JSON's null, or `raw` has the value."""
    raw: bytes | None = None
    """The value's bytes, if the value is not JSON."""


@dataclass(frozen=True, slots=True)
class ConfigurationLine:
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
    """Entries that the log no longer had when the export reached them; other servers' histories may have these entries.

    The log had a snapshot instead. Another server sent the snapshot, or the log was compacted before the export.
    """

    first: int
    last: int
    servers: tuple[int, ...] | None = field(default=None, kw_only=True)
    """Ids of the servers in the Configuration in force at `last`; None: not known."""


@dataclass(frozen=True, slots=True)
class Restored(Gap):
    """A gap where an operator restored the farm from a snapshot up to the entry `last`.

    The new `term` is above all earlier terms. The farm has lost the entries that an older history has after `last`:
    other entries have these indexes now.
    """

    term: int


@dataclass(frozen=True, slots=True)
class Other:
    """Consecutive entries of kinds that are not exported."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Trailer:
    """The last line of a file that is rotated."""

    last: int


Line = Header | ApplicationLine | ConfigurationLine | Gap | Other | Trailer


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
    """Encode an Application entry. `value`: up to `MAX_VALUE_BYTES`, the limit of every log."""
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
    return _dump({"gap": [first, last]} | _servers_field(servers))


def restored_line(first: int, last: int, term: int, servers: Collection[int] | None = None) -> bytes:
    """Encode a `Restored`: the farm went on from a snapshot up to `last`; this history lacks `first` to `last`.

    `servers`: the ids in the snapshot's Configuration, if known.
    """
    return _dump({"restored": [first, last], "term": term} | _servers_field(servers))


def _servers_field(servers: Collection[int] | None) -> dict[str, Any]:
    return {} if servers is None else {"servers": [*servers]}


def other_line(first: int, last: int) -> bytes:
    """Encode an `Other`: the entries from `first` to `last` are of kinds that are not exported."""
    return b'{"other":[%d,%d]}\n' % (first, last)


def trailer_line(last: int) -> bytes:
    """Encode the last line of a rotated file, whose last entry is `last`."""
    return b'{"last":%d}\n' % last


def _limited_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("too many digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name twice")
    return members


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_DECODE: Final = json.JSONDecoder(
    parse_int=_limited_int, object_pairs_hook=_object, parse_constant=_no_number
).raw_decode
# No NaN: so a number beyond the doubles, which Python reads as infinity, fails here.
_ENCODE: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


def _normal(value: bytes) -> bytes | None:
    """Return the value as compact JSON; None when the value is not JSON, or when two parsers could read two values."""
    try:
        text = value.decode("utf-8").strip(_SPACE)
        content, end = _DECODE(text)
        if end < len(text):
            return None
        if value.count(b"[") + value.count(b"{") > MAX_DEPTH and json_depth(content) > MAX_DEPTH:
            return None
        text = _ENCODE(content)
        if not text.isascii():
            for character, escape in _LINE_BREAKS.items():
                text = text.replace(character, escape)
        return text.encode("utf-8")
    except (ValueError, RecursionError):  # also for a lone surrogate, which JSON can write and UTF-8 cannot
        return None


def json_depth(value: Any) -> int:
    """Return the number of levels of nested lists and objects in a JSON value."""
    levels, values = 0, [value]
    while values := [each for each in values if isinstance(each, list | dict)]:
        levels += 1
        values = [child for each in values for child in (each.values() if isinstance(each, dict) else each)]
    return levels


def _dump(value: Mapping[str, Any]) -> bytes:
    return _ENCODE(value).encode("utf-8") + b"\n"


# Reading --------------------------------------------------------------------------------------------------------------

_READ: Final = json.JSONDecoder(parse_constant=_no_number).decode
match_record: Final = re.compile(
    rb' ?\{"index":([0-9]{1,18}),"received":([0-9]{1,15}),"record":(.+),"term":([0-9]{1,18})\}\n?',
    re.DOTALL,  # no line contains a line break, so the pattern need not look for one
).fullmatch
"""Match almost every line of a record, with or without line break. The groups are index, time, value and term.

The value is not checked. A walk over 100,000 lines of status records (88 MiB) takes 0.15 s of CPU with this pattern,
and 0.62 s with a parser.
"""
_RECORD: Final = {"index", "received", "record", "term"}
_RAW: Final = {"base64", "index", "received", "term"}
_SERVERS: Final = {"index", "leader", "received", "servers", "term"}
_RESTORED: Final = {"restored", "term"}
_HEADER: Final = {"cluster", "first", "format", "opened", "server"}


def read_json(text: bytes) -> Any:
    """Read JSON in UTF-8. Raises `ValueError` and `RecursionError`.

    `json.loads` of bytes would guess the encoding, and would accept lone surrogates.
    """
    return _READ(text.decode("utf-8"))


def parse_line(data: bytes) -> Line:
    """Read a line, with or without its line break. Raises `LineError`."""
    try:
        fields = read_json(data)
    except (ValueError, RecursionError):
        raise LineError("it is not JSON in UTF-8") from None
    if not isinstance(fields, dict):
        raise LineError("it is not a JSON object")
    names = fields.keys()
    if names == _RECORD:
        return ApplicationLine(*_entry_place(fields), fields["record"])
    if names == _RAW:
        return ApplicationLine(*_entry_place(fields), None, _bytes(fields["base64"]))
    if names == _SERVERS:
        return ConfigurationLine(*_entry_place(fields), _servers(fields["servers"]), _leader(fields["leader"]))
    if names == {"last"}:
        return Trailer(_number(fields["last"], 0, MAX_INTEGER, "last"))
    if names == {"other"}:
        return Other(*_span(fields, "other"))
    if "format" in names:
        return _header(fields)
    servers = _servers(fields.pop("servers")) if "servers" in names else None
    if names == {"gap"}:
        return Gap(*_span(fields, "gap"), servers=servers)
    if names == _RESTORED:
        term = _number(fields["term"], 1, MAX_INTEGER, "term")
        return Restored(*_span(fields, "restored"), term, servers=servers)
    raise LineError("its kind is unknown")


def _header(fields: Mapping[str, Any]) -> Header:
    version = _number(fields["format"], 1, MAX_INTEGER, "format")
    if version != FORMAT:
        program = "a version before gf-i2p 0.1.0" if version < FORMAT else "a newer gf-i2p"
        raise FormatError(
            f"its format {version} is that of {program}; this program reads only format {FORMAT}: use that version"
        )
    if fields.keys() == _HEADER:
        cluster = fields["cluster"]
        if not isinstance(cluster, str) or len(cluster) > MAX_NAME_BYTES:
            raise LineError(f"cluster is a name of at most {MAX_NAME_BYTES} characters")
        return Header(
            cluster,
            _number(fields["server"], 0, MAX_ID, "server"),
            _number(fields["first"], 1, MAX_INTEGER, "first"),
            _number(fields["opened"], 0, MAX_TIME_MS, "opened"),
        )
    raise LineError("its kind is unknown")


def _entry_place(fields: Mapping[str, Any]) -> tuple[int, int, int]:
    return (
        _number(fields["index"], 1, MAX_INTEGER, "index"),
        _number(fields["term"], 0, MAX_INTEGER, "term"),
        _number(fields["received"], 0, MAX_TIME_MS, "received"),
    )


def _span(fields: Mapping[str, Any], name: str) -> tuple[int, int]:
    span = fields[name]
    if not isinstance(span, list) or len(span) != 2:
        raise LineError(f"{name} is a first and a last index")
    first = _number(span[0], 1, MAX_INTEGER, name)
    return first, _number(span[1], first, MAX_INTEGER, name)


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
    raise LineError("its base64 cannot be decoded")


class Sequence:
    """Checks that each line of one file follows the line before, from the first line on."""

    def __init__(self, first: int) -> None:
        """`first`: the index with which the file should begin."""
        self.last_index = first - 1
        """The last index that the lines so far account for."""
        self.header: Header | None = None
        self.closed = False
        """Whether the file's last line, a `Trailer`, was taken."""
        self.last_term: tuple[int, int] | None = None
        """Index and term of the last entry with a known term."""

    def take(self, line: Line) -> None:
        """Check the next line. Raises `LineError`."""
        if self.closed:
            raise LineError("it comes after the file's last line")
        if self.header is None:
            if not isinstance(line, Header):
                raise LineError("the file's first line is missing")
            if line.first != self.last_index + 1:
                raise LineError(f"the file begins with entry {line.first}, but its name says otherwise")
            self.header = line
            return
        match line:
            case ApplicationLine(index, term) | ConfigurationLine(index, term):
                first = last = index
                self.last_term = index, term
            case Gap(first, last) | Other(first, last):
                pass
            case Trailer(last):
                if last != self.last_index:
                    raise LineError(f"it ends the file with entry {last}, but the entry before is {self.last_index}")
                self.closed = True
                return
            case Header():
                raise LineError("it is a first line in the middle of a file")
        if first != self.last_index + 1:
            raise LineError(f"after entry {self.last_index} comes entry {first}")
        self.last_index = last
