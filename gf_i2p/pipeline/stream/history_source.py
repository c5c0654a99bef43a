"""A source of histories for Spark's streams: reads on where files have grown, and finds new files and directories.

Spark's offset, in the stream's checkpoint, tells how far the source has read: for each directory and file, a
`ReadPosition`. The first entry identifies a file, so that a plain file and the packed file count as one. When a file
has ended and the next file is there, the offset keeps only the file's range of entries, joined with adjoining ranges.
So an offset grows with the number of directories, and not with the number of files.

A row is a line. Rows come by pieces of files. A piece begins with a row without `at`: a first line that tells the next
entry, as if the piece were a whole file. A row with a `problem` tells an error of a file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gf_i2p.pipeline.read.history_files import first_index, listed
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.read.stored_file import Lines, Overlong, file_system, packing_of
from gf_i2p.pipeline.stream.growing_file import ChangedError, Content, ReadPosition, going_on, look

FORMAT: Final = "gf-i2p-history"
DEFAULT_BYTES: Final = 32 << 20
LINES: Final = pa.schema(
    {
        "path": pa.string(),
        "at": pa.int64(),  # the byte of the file's content at which the line begins
        "line": pa.binary(),
        "length": pa.int64(),  # of an overlong line; `line` is its beginning
        "digest": pa.string(),
        "strict": pa.bool_(),  # whether no checksum vouches for the file: see `line_walk.Walk`
        "problem": pa.string(),
    }
)
_EVERYTHING: Final = 1 << 62
_PARTITION_BYTES: Final = 4 << 20
"""Bytes that one task reads, unless a single piece is larger."""
_BATCH_ROWS: Final = 2_000
_BATCH_BYTES: Final = 8 << 20
_NO_END: Final = "its last line is missing"


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a file was read, and its state."""

    place: ReadPosition = field(default_factory=ReadPosition)
    anew: int = 0
    """Number of times that the source began the file anew, because bytes had changed."""
    problem: str | None = None

    @classmethod
    def parse(cls, state: Mapping[str, Any]) -> "Reading":
        """Read the state from Spark's offset."""
        values = dict(state)
        return cls(anew=values.pop("anew", 0), problem=values.pop("problem", None), place=ReadPosition(**values))

    def encode(self) -> dict[str, Any]:
        """Return the state for Spark's offset."""
        values = {**asdict(self.place), "anew": self.anew, "problem": self.problem}
        return {name: value for name, value in values.items() if value not in {None, 0}}


@dataclass(slots=True)
class Directory:
    """How far the files of a directory were read."""

    done: list[tuple[int, int]] = field(default_factory=list)
    """First and last entries of files that were read to their end, joined where one file goes on after another."""
    files: dict[int, Reading] = field(default_factory=dict)
    """The other files, by their first entry."""

    @classmethod
    def parse(cls, state: Mapping[str, Any]) -> "Directory":
        """Read the state from Spark's offset."""
        spans = [each.split("-") for each in state["done"].split(",") if each]
        return cls(
            [(int(first), int(last)) for first, last in spans],
            {int(first): Reading.parse(each) for first, each in state["files"].items()},
        )

    def encode(self) -> dict[str, Any]:
        """Return the state for Spark's offset."""
        return {
            "done": ",".join(f"{first}-{last}" for first, last in self.done),
            "files": {str(first): self.files[first].encode() for first in sorted(self.files)},
        }

    def is_done(self, first: int) -> bool:
        """Return whether the file that begins with this entry has ended and was read."""
        return any(low <= first <= high for low, high in self.done)

    def forget_lost(self, present: Iterable[int]) -> None:
        """Forget files that have ended or are gone, if the history was begun anew: new files may have their names.

        `present`: the first entries of the present files. Indexes only rise, the newest file has not ended, and a node
        removes the oldest files first. So the history was begun anew if the newest present file counts as ended, or if
        the newest file that was read is gone although an older file is there. A file that is there keeps its position,
        because the checksum shows whether the file is another one.
        """
        names = set(present)
        newest = max(self.files, default=0)
        if names and (self.is_done(max(names)) or (newest not in names and min(names) < newest)):
            self.done = []
            self.files = {first: each for first, each in self.files.items() if first in names}

    def forget_ended(self, present: Iterable[int]) -> None:
        """Move each file that has ended, and whose next file is in `present`, from `files` to the ranges of `done`."""
        names = set(present)
        ended = {first: each.place.last for first, each in self.files.items() if each.problem is None}
        for first, last in sorted(ended.items()):
            if last is not None and first <= last and last + 1 in names:
                del self.files[first]
                self.done.append((first, last))
        merged: list[tuple[int, int]] = []
        for first, last in sorted(self.done):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        self.done = merged


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a file that one batch reads."""

    path: str
    begin: ReadPosition
    end: ReadPosition
    problem: str | None = None
    """A new error of the file."""


class Pieces(InputPartition):
    """The pieces that one task reads."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = tuple(pieces)


class HistorySource(DataSource):
    """A source with the options `directories`, `maxBytesPerTrigger` and `ending`.

    `directories`: a JSON list of paths or addresses. `maxBytesPerTrigger`: approximate size of a batch, in bytes.
    `ending`: a path or an address; while a file or directory exists there, the source gives nothing new.
    """

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Columns of the rows."""
        return columns(LINES)

    def streamReader(self, schema: StructType) -> "HistoryReader":  # noqa: ARG002, N802 -- Spark's interface
        """Make the reader that Spark asks for offsets and partitions."""
        return HistoryReader(self.options)


class HistoryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the driver, finds how far files have grown; in the workers, reads the lines."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """`options`: see `HistorySource`."""
        self._roots: list[str] = json.loads(options["directories"])
        self._most = int(options.get("maxBytesPerTrigger", DEFAULT_BYTES))
        self._ending = options.get("ending")
        self._target: dict[str, dict[int, tuple[str, int]]] | None = None
        # Sizes of the packed files that were read, and of their content.
        self._packed_sizes: dict[str, tuple[int, int]] = {}

    # Spark's interface -----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset of a stream that has read nothing yet."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a batch, in bytes; a batch keeps the limit only roughly."""
        return ReadMaxBytes(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit this run to the present files at their present sizes."""
        self._target = self._list()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset at which the next batch ends; without new bytes, `start`.

        All directories with new bytes have the same share of the batch.
        """
        present = self._target if self._target is not None else self._list()
        directories = {directory: Directory.parse(each) for directory, each in start.items()}
        most = _EVERYTHING if isinstance(limit, ReadAllAvailable) else self._most
        for directory in present.keys() & directories.keys():
            directories[directory].forget_lost(present[directory])
        news = False
        ahead = [
            directory for directory in sorted(present) if self._has_more(directories.get(directory), present[directory])
        ]
        for directory in ahead:
            state = directories.setdefault(directory, Directory())
            news |= self._advance(state, present[directory], max(1, most // len(ahead)))
        if not news or self._is_ending():  # asked last, when the batch is about to begin
            return start
        for directory in present.keys() & directories.keys():
            before = Directory.parse(start[directory]) if directory in start else Directory()
            unread = {
                first: each for first, each in directories[directory].files.items() if before.files.get(first) != each
            }
            state = directories[directory]
            state.files = {first: each for first, each in state.files.items() if first not in unread}
            state.forget_ended(present[directory])
            state.files |= unread
        return {directory: directories[directory].encode() for directory in sorted(directories)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the pieces between two offsets."""
        pieces = []
        for directory, each in end.items():
            before = Directory.parse(start[directory]) if directory in start else Directory()
            for first, reading in Directory.parse(each).files.items():
                last_reading = before.files.get(first, Reading())
                if last_reading == reading:
                    continue
                begin = last_reading.place if last_reading.anew == reading.anew else ReadPosition()
                path = f"{directory}/entries-{first:020}.jsonl"
                problem = reading.problem if reading.problem != last_reading.problem else None
                pieces.append(Piece(path, begin, reading.place, problem))
        return _grouped(pieces)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the lines of a partition's pieces; return rows of `LINES`."""
        assert isinstance(partition, Pieces)
        return read_pieces(partition.pieces)

    # How far files go ------------------------------------------------------------------------------------------------

    def _is_ending(self) -> bool:
        if self._ending is None:
            return False
        system, path = file_system(self._ending)
        return bool(system.get_file_info(path).type != pafs.FileType.NotFound)

    def _list(self) -> dict[str, dict[int, tuple[str, int]]]:
        """Return path and size of each history file, by directory and the file's first entry.

        Of a plain file and its packed form, only the plain file is returned.
        """
        directories: dict[str, dict[int, tuple[str, int]]] = {}
        roots = pa.RecordBatch.from_pydict({"path": self._roots})
        for batch in listed(iter([roots])):
            for file in batch.to_pylist():
                if file["error"] is not None and file["path"] not in self._roots:
                    continue  # `ingest` puts such a directory into the quarantine
                if file["error"] is not None:
                    raise OSError(f"{file['path']}: {file['error']}")
                directory, _, name = file["path"].rpartition("/")
                first = first_index(name)
                assert first is not None
                files = directories.setdefault(directory, {})
                if first not in files or not packing_of(file["path"]):
                    files[first] = file["path"], file["size"]
        return directories

    def _has_more(self, state: Directory | None, files: Mapping[int, tuple[str, int]]) -> bool:
        return any(self._is_news(state, first, *file) for first, file in files.items())

    def _is_news(self, state: Directory | None, first: int, path: str, size: int) -> bool:
        """Return whether a file may have unread bytes."""
        if state is None:
            return True
        if state.is_done(first):
            return False
        reading = state.files.get(first, Reading())
        if packing_of(path):
            return reading.place.last is None and self._packed_sizes.get(path) != (size, reading.place.bytes)
        return size != reading.place.bytes

    def _advance(self, state: Directory, files: Mapping[int, tuple[str, int]], most: int) -> bool:
        """Advance the read positions of a directory's files by about `most` bytes; return whether anything is new."""
        news = False
        for first in sorted(files):
            path, size = files[first]
            if most <= 0:
                break
            if not self._is_news(state, first, path, size):
                continue
            before = state.files.get(first, Reading())
            after = self._next_reading(before, path, size, most)
            if after != before:
                begin = before.place.bytes if after.anew == before.anew else 0
                most -= after.place.bytes - begin
                state.files[first] = after
                news = True
        return news

    def _next_reading(self, before: Reading, path: str, size: int, most: int) -> Reading:
        limit = None if self._target is None or packing_of(path) else size
        begin, anew = before.place, before.anew
        for _ in range(2):
            try:
                with Content(path) as content:
                    place, is_end = look(content, begin, most, limit)
                    damage = content.damage
            except ChangedError:
                begin, anew = ReadPosition(), anew + 1
                continue
            except FileNotFoundError:  # the node has deleted the file, because the file was too old
                return before
            except OSError as error:
                return Reading(before.place, before.anew, f"it cannot be read: {error}")
            if content.packing and before.problem is not None and 0 < begin.bytes < place.bytes:
                begin, anew = ReadPosition(), anew + 1  # the file was incomplete before, and ended in half a line
                continue
            if is_end:
                self._packed_sizes[path] = size, place.bytes
            if is_end and damage is None and place.last is None:
                damage = _NO_END if place.next is None else f"{_NO_END}, after entry {place.next - 1}"
            return Reading(place, anew, damage if is_end else None)
        return before  # the file changes all the time


def _grouped(pieces: Iterable[Piece]) -> list[Pieces]:
    """Group pieces into tasks of about `_PARTITION_BYTES`."""
    tasks: list[Pieces] = []
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += piece.end.bytes - piece.begin.bytes
        if size >= _PARTITION_BYTES:
            tasks.append(Pieces(group))
            group, size = [], 0
    return [*tasks, Pieces(group)] if group else tasks


# Reading --------------------------------------------------------------------------------------------------------------


def read_pieces(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Read the lines of pieces; yield rows of `LINES`. A file that cannot be read any more leads to a `problem`."""
    rows: list[dict[str, Any]] = []
    size = 0
    for piece in pieces:
        for row in _rows(piece):
            rows.append(row)
            size += len(row.get("line") or b"")
            if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield pa.RecordBatch.from_pylist(rows, LINES)
                rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, LINES)


def _rows(piece: Piece) -> Iterator[dict[str, Any]]:
    if piece.problem is not None:
        yield {"path": piece.path, "problem": piece.problem}
    if piece.begin == piece.end:
        return
    try:
        yield from _lines(piece, piece.begin)
    except ChangedError:  # the file was cut since the planning: the present file is read, and no entry is added twice
        yield from _lines(piece, ReadPosition())
    except OSError as error:
        yield {"path": piece.path, "problem": f"it cannot be read any more: {error}"}


def _lines(piece: Piece, begin: ReadPosition) -> Iterator[dict[str, Any]]:
    if begin.bytes:
        with Content(piece.path) as content:
            header = next(iter(Lines(content.pieces(0))), b"")
    with Content(piece.path) as content:
        following = content.after(begin)
        next(following)
        lines = Lines(_up_to(following, piece.end.bytes - begin.bytes))
        at = begin.bytes
        path = content.path
        strict = not content.packing or piece.problem is not None
        if begin.bytes:
            yield {"path": path, "strict": strict, **_line(header, begin)}
        for line in lines:
            yield {"path": path, "strict": strict, "at": at or None, **_line(line)}
            at += (line.length if isinstance(line, Overlong) else len(line)) + 1
        if lines.rest and content.packing:
            yield {"path": path, "strict": strict, "at": at or None, **_line(lines.rest)}


def _line(line: bytes | Overlong, place: ReadPosition | None = None) -> dict[str, Any]:
    if isinstance(line, Overlong):
        return {"line": line.head, "length": line.length, "digest": line.digest}
    return {"line": line if place is None else going_on(line, place)}


def _up_to(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:most]
        most -= len(piece)
        if most <= 0:
            return
