"""Entries as columns: the kind of each entry, and a status record's fields with their types.

Almost all entries are status records without errors. Arrow parses a batch of such records at once. Then this module
checks the other rules of the schema by columns. A record with a possible error is parsed again alone, by the nodes' own
code (`StatusRecord.parse`), and that result counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from gf_i2p.farm.record.status_record import MAX_OPENINGS, MAX_RECORD_BYTES, StatusRecord
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.read.line_walk import FoundLine, Is, servers_of
from gf_i2p.pipeline.read.record_schema import Flags, RecordSchema
from gf_i2p.storage.history_lines import ConfigurationLine, read_json

EARLIEST_MS: Final = 1_577_836_800_000
"""2020-01-01: no farm is older. A clock that was never set says 1970."""
LATEST_MS: Final = 7_258_118_400_000
"""2200-01-01. Some tables have a row for each hour up to a farm's last record, so the last record needs a limit."""
MAX_APART_MS: Final = DAY_MS
"""Most time between a record's date and the exporter's reception of the record."""
_LAST_DAY: Final = 2_932_896
"""9999-12-31, in days since the epoch."""
_ONE_BY_ONE: Final = 16
"""Most records that are parsed one by one, when Arrow cannot parse them together."""
_STATUS: Final = {"id", "date", "router"}
_ADMIN: Final = {"action", "by"}

Odd = tuple[str, dict[str, Any] | None, str | None]
"""Kind, record (a row of the column) and misfit of an entry that was parsed alone."""


def entries_schema(schema: RecordSchema) -> pa.Schema:
    """Return the columns of the table `entries`.

    A row of kind "servers" with a `value` is not an entry: the row names the servers after a gap, and `value` is the
    line.
    """
    return pa.schema(
        {
            "farm": pa.string(),
            "day": pa.string(),
            "index": pa.int64(),
            "term": pa.int64(),
            "received_ms": pa.int64(),
            "exporter": pa.int64(),
            "kind": pa.string(),
            "value": pa.string(),
            "raw": pa.binary(),
            "servers": pa.list_(pa.int64()),
            "leader": pa.int64(),
            "misfit": pa.string(),
            "record": schema.type,
        }
    )


class Typer:
    """Makes rows of the table `entries` from lines of histories."""

    def __init__(self, schema_text: str) -> None:
        """`schema_text`: the JSON Schema of the status record."""
        self._schema = RecordSchema(schema_text)
        self.schema = entries_schema(self._schema)
        self._read_as = pajson.ParseOptions(
            explicit_schema=pa.schema({"i": pa.int64(), "r": self._schema.type}), unexpected_field_behavior="ignore"
        )

    def rows(self, farm: str, exporters: Sequence[int] | pa.Array, lines: Sequence[FoundLine]) -> pa.RecordBatch:
        """Return the rows for entries of one farm. `lines`: no lines of kind `Is.BAD`.

        `exporters`: for each line the server that exported it.
        """
        count = len(lines)
        whats, indexes, terms, times, texts, *_ = zip(*lines, strict=True) if lines else [()] * len(FoundLine._fields)
        received = np.array(times, dtype=np.int64)
        likely = [
            place
            for place, (what, text) in enumerate(zip(whats, texts, strict=True))
            if what is Is.RECORD
            and text[:1] == b"{"
            and b'"router"' in text
            # Arrow reads NaN and Infinity as numbers. These are no JSON, and the nodes refuse them.
            and b"NaN" not in text
            and b"Inf" not in text
        ]
        odd: dict[int, Odd] = {}
        quick: list[tuple[list[int], pa.StructArray]] = []
        self._parse_together(farm, lines, likely, quick, odd)
        if sum(len(places) for places, _ in quick) + len(odd) < count:
            fits = {place for places, _ in quick for place in places}
            for place, line in enumerate(lines):
                if place not in fits and place not in odd:
                    odd[place] = self._parse_alone(farm, line)
        arrays = [
            pa.repeat(farm, count),
            _days(received),
            pa.array(indexes, pa.int64()),
            pa.array(terms, pa.int64()),
            pa.array(received),
            exporters if isinstance(exporters, pa.Array) else pa.array(exporters, pa.int64()),
            *(self._odd_columns(lines, odd) if odd else self._usual_columns(texts)),
            self._records(count, quick, odd),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _usual_columns(self, texts: Sequence[bytes]) -> list[pa.Array]:
        """Return the columns from `kind` to `misfit` for a batch of status records without errors."""
        count = len(texts)
        return [
            pa.repeat("status", count),
            pa.array(texts, pa.binary()).cast(pa.string()),
            *(pa.nulls(count, self.schema.field(name).type) for name in ("raw", "servers", "leader", "misfit")),
        ]

    def _odd_columns(self, lines: Sequence[FoundLine], odd: Mapping[int, Odd]) -> list[pa.Array]:
        """Return the columns from `kind` to `misfit` for a batch of any entries.

        `odd`: the entries that were parsed alone, by their place in `lines`.
        """
        count = len(lines)
        kinds: list[str] = ["status"] * count
        misfits: list[str | None] = [None] * count
        servers: list[Sequence[int] | None] = [None] * count
        leaders: list[int | None] = [None] * count
        values: list[bytes | None] = [line.text for line in lines]
        raws: list[bytes | None] = [None] * count
        for place, (kind, _, misfit) in odd.items():
            kinds[place], misfits[place] = kind, misfit
            what, text = lines[place].what, lines[place].text
            if kind == "servers":
                configuration = servers_of(text)
                servers[place] = configuration.servers
                leaders[place] = configuration.leader if isinstance(configuration, ConfigurationLine) else None
            if what is Is.RAW or misfit == _NOT_JSON:
                raws[place] = text
            if what in {Is.RAW, Is.SERVERS} or misfit == _NOT_JSON:
                values[place] = None
        return [
            pa.array(kinds, pa.string()),
            pa.array(values, pa.binary()).cast(pa.string()),
            pa.array(raws, pa.binary()),
            pa.array(servers, pa.list_(pa.int64())),
            pa.array(leaders, pa.int64()),
            pa.array(misfits, pa.string()),
        ]

    def _parse_together(
        self,
        farm: str,
        lines: Sequence[FoundLine],
        places: list[int],
        quick: list[tuple[list[int], pa.StructArray]],
        odd: dict[int, Odd],
    ) -> None:
        """Parse the entries at `places`: add good entries to `quick` as columns, and doubtful entries to `odd`."""
        if not places:
            return
        texts = [lines[place].text for place in places]
        joined = b"".join([b'{"i":%d,"r":%b}\n' % each for each in enumerate(texts)])
        records = self._columns(joined, len(texts))
        if records is None:
            if len(places) <= _ONE_BY_ONE:
                odd |= {place: self._parse_alone(farm, lines[place]) for place in places}
                return
            middle = len(places) // 2
            self._parse_together(farm, lines, places[:middle], quick, odd)
            self._parse_together(farm, lines, places[middle:], quick, odd)
            return
        doubt = self._schema.doubtful(records) | _doubtful(texts, joined)
        dates = records.field("date").to_numpy(zero_copy_only=False)
        received = np.array([lines[place].received_ms for place in places], dtype=np.int64)
        with np.errstate(invalid="ignore"):
            for times in (dates, received):
                doubt |= ~((times >= EARLIEST_MS) & (times < LATEST_MS))
            doubt |= ~(np.abs(dates - received) <= MAX_APART_MS)
        doubt |= ~pc.fill_null(pc.equal(records.field("cluster"), farm), False).to_numpy(zero_copy_only=False)
        if not doubt.any():
            quick.append((places, records))
            return
        odd |= {
            places[number]: self._parse_alone(farm, lines[places[number]]) for number in np.flatnonzero(doubt).tolist()
        }
        sure = np.flatnonzero(~doubt)
        if len(sure):
            quick.append(([places[number] for number in sure.tolist()], records.take(pa.array(sure))))

    def _columns(self, joined: bytes, count: int) -> pa.StructArray | None:
        """Parse lines, each with a number and a record; return the records. None: Arrow cannot parse some record.

        `joined`: the lines, numbered from 0 on. `count`: number of lines.
        """
        try:
            table = pajson.read_json(
                pa.BufferReader(joined),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(joined) + 1),
                parse_options=self._read_as,
            )
        except pa.ArrowInvalid:
            return None
        if not np.array_equal(table.column("i").to_numpy(), np.arange(count)):
            return None
        records = table.column("r")
        return records.chunk(0) if records.num_chunks == 1 else pa.concat_arrays(records.chunks)

    def _parse_alone(self, farm: str, line: FoundLine) -> Odd:
        """Parse one entry of any kind alone; return its kind, record and misfit."""
        if line.what is not Is.RECORD:
            return ("servers" if line.what in {Is.SERVERS, Is.GAP} else "other"), None, None
        try:
            value = read_json(line.text)
        except (ValueError, RecursionError):
            return "other", None, _NOT_JSON
        if not isinstance(value, dict):
            return "other", None, None
        is_status = value.keys() >= _STATUS
        misfit, row = self._status(farm, line, value) if is_status else (None, None)
        if row is None and value.keys() >= _ADMIN:
            return "admin", None, None
        return ("status" if is_status else "other"), row, misfit

    def _status(self, farm: str, line: FoundLine, value: Mapping[str, Any]) -> tuple[str | None, dict[str, Any] | None]:
        if reason := self._schema.misfit(value):
            return reason, None
        try:
            record = StatusRecord.parse(line.text)
            row = self._schema.row(value)
        except RecordError as error:
            return str(error), None
        except ValueError:
            return "it has text that is no Unicode", None
        if record.cluster != farm:
            return "it is of another farm", None
        if record.date_ms < EARLIEST_MS:
            return "its date is before 2020", None
        if line.received_ms < EARLIEST_MS:
            return "the exporter's clock said that it was before 2020", None
        if record.date_ms >= LATEST_MS:
            return "its date is after 2199", None
        if line.received_ms >= LATEST_MS:
            return "the exporter's clock said that it was after 2199", None
        if abs(record.date_ms - line.received_ms) > MAX_APART_MS:
            return "its date is more than a day away from when the exporter took it in", None
        return None, row

    def _records(
        self, count: int, quick: list[tuple[list[int], pa.StructArray]], odd: Mapping[int, Odd]
    ) -> pa.StructArray:
        if len(quick) == 1 and len(quick[0][0]) == count:
            return quick[0][1]
        alone = [(place, row) for place, (_, row, _) in odd.items() if row is not None]
        parts = [records for _, records in quick]
        parts.append(pa.array([row for _, row in alone], self._schema.type))
        order = np.full(count, -1, dtype=np.int64)
        order[[place for places, _ in quick for place in places] + [place for place, _ in alone]] = np.arange(
            sum(map(len, parts))
        )
        return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0))


_NOT_JSON: Final = "it is not JSON"


def _doubtful(texts: Sequence[bytes], joined: bytes) -> Flags:
    """Return, for each record, whether the text may have an error that the parsed columns do not show.

    `joined`: the lines of all records, each with the record's number.
    """
    raw = np.frombuffer(joined, dtype=np.uint8)
    ends = np.flatnonzero(raw == ord("\n"))
    openings = np.flatnonzero(raw | 0x20 == ord("{"))  # "[" and "{" differ by this bit
    doubt = np.diff(np.searchsorted(openings, ends), prepend=0) - 1 > MAX_OPENINGS  # one opening is the line's own
    doubt |= np.diff(ends, prepend=0) > MAX_RECORD_BYTES
    if b"null" in joined or not joined.isascii():
        doubt |= np.array([b"null" in text or not text.isascii() for text in texts])
    return doubt


def _days(received_ms: npt.NDArray[np.int64]) -> pa.Array:
    days = np.minimum(received_ms // DAY_MS, _LAST_DAY).astype("datetime64[D]")
    if len(days) and (days == days[0]).all():
        return pa.repeat(str(days[0]), len(days))
    return pa.array(days.astype(str), pa.string())
