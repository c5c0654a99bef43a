"""Rows of entries and errors from lines that arrive: pipeline/stream/stream_rows.py."""

import pyarrow as pa

from gf_i2p.farm.schema import text as schema_text
from gf_i2p.pipeline.read.line_walk import MAX_BAD_LINES
from gf_i2p.pipeline.stream.history_source import LINES
from gf_i2p.pipeline.stream.stream_rows import arrived
from tests.pipeline.made_up_exports import content, lines


def test_many_bad_lines_of_a_piece_give_few_rows_that_count_all_of_them() -> None:
    body = [*lines([1]), *[b"x\n"] * (MAX_BAD_LINES + 500), *lines([2])]
    first, *others = content(body).splitlines()
    rows = [{"path": "entries-00000000000000000001.jsonl", "line": first, "strict": True}]
    rows += [rows[0] | {"at": number, "line": line} for number, line in enumerate(others, 100)]
    batches = arrived(schema_text(), iter([pa.RecordBatch.from_pylist(rows, LINES)]))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [row["index"] for row in found if row["what"] is None] == [1, 2]
    wrong = [row for row in found if row["what"] == "line"]
    assert len(wrong) == MAX_BAD_LINES + 1
    assert wrong[-1]["reason"] == "500 more bad lines of the file have no rows of their own"
    assert wrong[-1]["length"] == 2 * 500
