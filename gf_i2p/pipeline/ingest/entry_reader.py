"""Reads the wanted entries from files, as rows of the table `entries`."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from gf_i2p.pipeline.ingest.plan import WantedEntries
from gf_i2p.pipeline.read.entry_columns import Typer
from gf_i2p.pipeline.read.line_walk import FoundLine, Is, Walk
from gf_i2p.pipeline.read.stored_file import Lines, UnpackedFile, open_stored, packing_of

BATCH_ROWS: Final = 4_000
BATCH_BYTES: Final = 8 << 20
CHANGED: Final = "was changed while it was read"


def taken(schema_text: str, plans: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the planned entries. For `mapInArrow`: takes rows of `PLAN`, and yields rows of `entries`.

    `schema_text`: the status record's JSON Schema. Raises `RuntimeError` when a file has lost entries since the survey.
    """
    typer = Typer(schema_text)
    for batch in plans:
        for plan in batch.to_pylist():
            count = 0
            for lines in _batches(plan):
                count += len(lines)
                yield typer.rows(plan["farm"], plan["exporter"], lines)
            if count != plan["entries"]:
                raise RuntimeError(f"{plan['path']} {CHANGED}: {count} of {plan['entries']} entries are there")


def _batches(plan: dict[str, Any]) -> Iterator[list[FoundLine]]:
    wanted = WantedEntries(plan)
    batch: list[FoundLine] = []
    size = 0
    try:
        file, path = open_stored(plan["path"])
    except FileNotFoundError:
        raise RuntimeError(f"{plan['path']} {CHANGED}: it is gone") from None
    with file, closing(iter(Walk(Lines(UnpackedFile(file, packing_of(path))), strict=plan["strict"]))) as walk:
        for line in walk:
            if line.what is Is.BAD or not wanted.takes(line.at, line.term):
                if wanted.done:
                    break
                continue
            batch.append(line)
            size += len(line.text)
            if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
