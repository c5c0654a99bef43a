"""The survey reads each file once, and notes the runs of entries that the file has, without the entries themselves.

So the job knows which file has which entries, before the job takes any entry. If several nodes exported an entry, the
job can take one copy.
"""

from collections.abc import Iterator
from hashlib import md5
from typing import Any, Final

import pyarrow as pa

from gf_i2p.pipeline.read.entry_columns import EARLIEST_MS, LATEST_MS
from gf_i2p.pipeline.read.history_files import first_index
from gf_i2p.pipeline.read.line_walk import Is, Walk
from gf_i2p.pipeline.read.stored_file import HEAD_BYTES, Lines, Overlong, UnpackedFile, open_stored, packing_of

LATE_MS: Final = 600_000
"""Milliseconds from a record's date until the exporter applied the entry. Above these, the entry is late."""
_LASTING: Final = 16
"""An exporter counts as late after this many late entries in a row, until as many timely entries follow in a row.

Fewer entries would prove nothing, because one server's clock may be wrong.
"""
_ROWS: Final = 512

SURVEYED: Final = pa.schema(
    {
        "part": pa.string(),  # "file", "run" or "bad"
        "path": pa.string(),
        "farm": pa.string(),
        "exporter": pa.int64(),
        # a run: entries with consecutive indexes in one term
        "first": pa.int64(),
        "last": pa.int64(),
        "term": pa.int64(),
        "worth": pa.int64(),  # the exporter: 0: up to date; 1: late; 2: wrong clock
        "bytes": pa.int64(),
        # a file
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "sha256": pa.string(),
        "lines": pa.int64(),
        "entries": pa.int64(),
        "bad": pa.int64(),
        "strict": pa.bool_(),
        # a file with a problem, or a bad line
        "reason": pa.string(),
        "text": pa.string(),
        "length": pa.int64(),
        "digest": pa.string(),
    }
)


def surveyed(files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Survey files. For `mapInArrow`: takes rows of `history_files.LISTED`, and yields rows of `SURVEYED`."""
    rows: list[dict[str, Any]] = []
    for batch in files:
        for file in batch.to_pylist():
            for row in survey_file(file["path"], file["size"], file["mtime_ms"]):
                rows.append(row)
                if len(rows) == _ROWS:
                    yield pa.RecordBatch.from_pylist(rows, SURVEYED)
                    rows = []
    yield pa.RecordBatch.from_pylist(rows, SURVEYED)


def survey_file(path: str, size: int, mtime_ms: int) -> Iterator[dict[str, Any]]:
    """Survey one file; yield rows of `SURVEYED`: for bad lines, then for runs, then for the file.

    The first `MAX_BAD_LINES` bad lines have a row each, and the others have one row together.
    """
    try:
        packed = bool(packing_of(path))
        file_survey = _FileSurvey(path, strict=not packed)
        yield from file_survey
        if packed and file_survey.stored.damage:
            # No checksum holds, so each record must be parsed. Bad lines come twice.
            file_survey = _FileSurvey(path, strict=True)
            yield from file_survey
    except OSError as error:
        zeros = {"lines": 0, "entries": 0, "bad": 0, "bytes": 0, "strict": False}
        yield _row("file", path, size=size, mtime_ms=mtime_ms, reason=f"it cannot be read: {error}", **zeros)
        return
    if (rest := file_survey.walk.unlisted) is not None:
        yield _bad_row(path, rest.text, rest.reason, rest.overlong)
    header = file_survey.walk.header
    owner = {} if header is None else {"farm": header.cluster, "exporter": header.server}
    for run in file_survey.runs:
        yield _row("run", path, **owner, **run)
    yield _row(
        "file",
        path,
        **owner,
        size=size,
        mtime_ms=mtime_ms,
        sha256=file_survey.stored.sha256,
        lines=file_survey.walk.lines,
        entries=file_survey.entries,
        bad=file_survey.walk.bad,
        bytes=file_survey.lines.bytes,
        strict=file_survey.strict,
        reason=file_survey.problem(),
    )


class _FileSurvey:
    """A walk through one file: an iterator of rows for bad lines. Afterwards the attributes have the other findings."""

    def __init__(self, path: str, *, strict: bool) -> None:
        self.path = path
        self.strict = strict
        self.runs: list[dict[str, int]] = []
        self.entries = 0
        self.stored: UnpackedFile
        self.lines: Lines
        self.walk: Walk

    def __iter__(self) -> Iterator[dict[str, Any]]:
        file, path = open_stored(self.path)
        with file:
            self.stored = UnpackedFile(file, packing_of(path))
            self.lines = Lines(self.stored)
            self.walk = Walk(self.lines, strict=self.strict)
            late = _Lateness().worth
            run: dict[str, int] = {}
            last = run_term = run_worth = -1
            size = 0  # bytes of the run's values
            for what, index, term, received_ms, text, reason, overlong in self.walk:
                if what is Is.BAD:
                    yield _bad_row(self.path, text, reason, overlong)
                    continue
                worth = late(text, received_ms) if EARLIEST_MS <= received_ms < LATEST_MS else 2
                if index != last + 1 or term != run_term or worth != run_worth:
                    run |= {"last": last, "bytes": size}
                    run = {"first": index, "term": term, "worth": worth}
                    self.runs.append(run)
                    run_term, run_worth, size = term, worth, 0
                last = index
                size += len(text)
            run |= {"last": last, "bytes": size}
            self.entries = sum(each["last"] - each["first"] + 1 for each in self.runs)
            self.stored.finish()

    def problem(self) -> str | None:
        """Return the error of the file as a whole; None: the file has no such error."""
        if self.walk.header is None:
            return self.stored.damage if self.stored.damage and not self.lines.bytes else self.walk.problem
        if self.stored.damage:
            return f"{self.stored.damage}, by byte {self.stored.damaged_at}; saved up to entry {self.walk.last_index}"
        if self.walk.problem:
            return f"{self.walk.problem}, at byte {self.walk.problem_at} of its content"
        if first_index(self.path) != self.walk.header.first:
            return f"it begins with entry {self.walk.header.first}, and its name says otherwise"
        if packing_of(self.path) and not self.walk.closed:
            return f"its last line is missing, after entry {self.walk.last_index}, at byte {self.lines.bytes}"
        return None


class _Lateness:
    """Tells whether an exporter applied entries long after the entries' dates, because the exporter had been away."""

    def __init__(self) -> None:
        self._late = 0
        self._contrary = 0  # entries in a row that say otherwise

    def worth(self, text: bytes, received_ms: int) -> int:
        """Take in the next entry; return 1 when the exporter is late, otherwise 0. `text`: the entry's value."""
        at = text.find(b'"date":', 0, 256)
        date = text[at + 7 : at + 20] if at >= 0 else b""
        if date.isdigit():
            if (received_ms - int(date) > LATE_MS) == bool(self._late):
                self._contrary = 0
            else:
                self._contrary += 1
                if self._contrary == _LASTING:
                    self._late, self._contrary = 1 - self._late, 0
        return self._late


def _bad_row(path: str, text: bytes, reason: str, overlong: Overlong | None) -> dict[str, Any]:
    length, digest = (
        (overlong.length, overlong.digest)
        if overlong is not None
        else (len(text), md5(text, usedforsecurity=False).hexdigest())
    )
    shown = text[:HEAD_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd")
    return _row("bad", path, reason=reason, text=shown, length=length, digest=digest)


def _row(part: str, path: str, **values: Any) -> dict[str, Any]:
    return {"part": part, "path": path, **values}
