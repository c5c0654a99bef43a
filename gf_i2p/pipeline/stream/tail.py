"""Reads the newest status records of histories in this process, while the histories grow, for the alerts.

The tables are not made of these records. So a line that is read twice, or a file that is lost before it is read, only
matters to the present alerts: `ingest.batch` alone answers for each entry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from gf_i2p.farm.choice.candidates import PUBLISHES
from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.health.status_reports import MEMORY_MS
from gf_i2p.pipeline.read.entry_columns import Typer
from gf_i2p.pipeline.read.history_files import listed, not_listed
from gf_i2p.pipeline.read.line_walk import FoundLine, Is
from gf_i2p.pipeline.read.stored_file import Lines, UnpackedFile, open_stored, packing_of
from gf_i2p.storage.history_lines import ConfigurationLine, Gap, Header, LineError, Restored, match_record, parse_line

_BATCH_LINES: Final = 2_000
_PIECE_BYTES: Final = 256 << 10
_IDLE: Final = ("off", "dry-run")
"""Modes in which nobody publishes."""


@dataclass(frozen=True, slots=True)
class Report:
    """A status record without `misfit`."""

    farm: str
    index: int
    term: int
    received_ms: int
    server: int
    up: bool
    """Whether the server's router is up."""
    ahead_ms: int
    """How far the server's clock was ahead of the exporter's."""
    publishing: bool
    would: bool
    """Whether the server is configured to publish."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The servers of a farm from an entry on, or behind a gap. A gap has the term 0, or that of a restored farm."""

    farm: str
    index: int
    term: int
    servers: tuple[int, ...]


@dataclass(slots=True)
class _File:
    """A plain file, and how far it was read, or a packed file that was read."""

    header: Header | None = None
    place: int = 0
    """Bytes up to the end of the last line that was read."""
    packed: bool = False


class HistoryTail:
    """The newest part of histories under directories; each call of `read` gives what has come since the call before.

    An export that cannot be listed is an error of the first call only: later it may be away for a moment.
    """

    def __init__(self, exports: Sequence[str]) -> None:
        """`exports`: absolute paths, or addresses."""
        self._exports = exports
        self._files: dict[str, _File] = {}  # by the path of the plain file
        self._typer = Typer(schema_text())
        self._is_begun = False
        self.changed = False
        """Whether any file was new, had grown, or had become another one since this was last set to false."""

    def read(self) -> Iterator[Report | Configuration]:
        """Yield the new reports and Configurations of each file in turn. An entry may come more than once.

        Of a directory that is new, the newest files come that hold the last day. Raises `PipelineError`.
        """
        directories: dict[str, list[tuple[str, int]]] = {}
        for path, size in self._listing():
            directories.setdefault(path.rpartition("/")[0], []).append((path, size))
        self._is_begun = True
        for files in directories.values():
            files.sort(key=lambda each: each[0], reverse=True)
            is_new = not any(_plain(path) in self._files for path, _ in files)
            newest_ms = 0
            for path, size in files:
                oldest_ms = 0
                for each in self._news(path, size, skips=is_new and newest_ms < 0):
                    if isinstance(each, Report):
                        oldest_ms = oldest_ms or each.received_ms
                        newest_ms = max(newest_ms, each.received_ms)
                    yield each
                if oldest_ms and oldest_ms < newest_ms - MEMORY_MS:
                    newest_ms = -1  # older files have nothing of the last day

    def _listing(self) -> Iterator[tuple[str, int]]:
        for batch in listed(iter([pa.RecordBatch.from_pydict({"path": list(self._exports)})])):
            for file in batch.to_pylist():
                if file["error"] is None:
                    yield file["path"], file["size"]
                elif file["path"] in self._exports and not self._is_begun:
                    raise not_listed(file["error"])

    def _news(self, path: str, size: int, *, skips: bool) -> Iterator[Report | Configuration]:
        packing = packing_of(path)
        file = self._files.get(_plain(path))
        if file is not None and (file.packed or (not packing and file.place == size)):
            return
        self.changed = True
        if file is None or (not packing and size < file.place):  # a node that was killed has cut the file
            file = _File()
        if skips:
            self._files[_plain(path)] = _File(place=size, packed=bool(packing))
            return
        lines: list[FoundLine] = []
        try:
            stored, opened = open_stored(path, seekable=True)
            with stored:
                if packing_of(opened):
                    file = _File(packed=True)
                    content = Lines(UnpackedFile(stored, packing_of(opened)))
                else:
                    stored.seek(file.place)
                    content = Lines(iter(lambda: stored.read(_PIECE_BYTES), b""))
                for line in content:
                    if not isinstance(line, bytes):
                        continue
                    if file.header is None:
                        file.header = _header(line)
                        if file.header is None:
                            break
                        continue
                    found = _found(file.header.cluster, line)
                    if isinstance(found, Configuration):
                        yield found
                    elif found is not None:
                        lines.append(found)
                    if len(lines) == _BATCH_LINES:
                        yield from self._reports(file.header, lines)
                        lines = []
                rest = content.rest if isinstance(content.rest, bytes) else b""
                file.place += content.bytes - len(rest)
        except OSError:  # the node has removed the file, or has just packed it: the next look finds the packed file
            return
        self._files[_plain(path)] = file
        if file.header is not None:
            yield from self._reports(file.header, lines)

    def _reports(self, header: Header, lines: list[FoundLine]) -> Iterator[Report]:
        if not lines:
            return
        rows = self._typer.rows(header.cluster, [header.server] * len(lines), lines)
        values = zip(
            *(rows.column(name).to_pylist() for name in ("index", "term", "received_ms", "record")), strict=True
        )
        for index, term, received_ms, record in values:
            if record is None:
                continue
            meta, mode = record["meta"] or {}, (record["config"] or {}).get("mode") or "meta"
            yield Report(
                header.cluster,
                index,
                term,
                received_ms,
                record["id"],
                bool(record["router"]["up"]),
                record["date"] - received_ms,
                bool(meta.get("publishing")),
                meta.get("publishConfig") in PUBLISHES and mode not in _IDLE,
            )


def _plain(path: str) -> str:
    return path.removesuffix(packing_of(path))


def _header(line: bytes) -> Header | None:
    try:
        header = parse_line(line)
    except LineError:
        return None
    return header if isinstance(header, Header) else None


def _found(farm: str, line: bytes) -> FoundLine | Configuration | None:
    """Return a record or a Configuration; None for all other lines."""
    if match := match_record(line):
        index, received_ms, text, term = match.groups()
        return FoundLine(Is.RECORD, int(index), int(term), int(received_ms), text)
    try:
        entry = parse_line(line)
    except LineError:
        return None
    if isinstance(entry, ConfigurationLine):
        return Configuration(farm, entry.index, entry.term, entry.servers)
    if isinstance(entry, Gap) and entry.servers is not None:
        return Configuration(farm, entry.last, entry.term if isinstance(entry, Restored) else 0, entry.servers)
    return None
