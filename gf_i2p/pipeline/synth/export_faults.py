"""Makes an invented farm whose exports have every fault that `ingest` must survive, and a list of the faults."""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gf_i2p.pipeline.synth.farm_life import SynthLife
from gf_i2p.simulator.life.farm import BEGAN_MS
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.history_lines import Header, header_line, record_line, servers_line, trailer_line
from gf_i2p.storage.history_reader import plain_name
from gf_i2p.storage.packed_files import GZIP

FAULTY: Final = "faulty"
"""Name of the farm with faults."""
_UNIT: Final = 100
"""Entries of a file. The farm has at most five times as many."""
_IN_1970: Final = 86_400_000
"""The time that a clock tells after its battery was empty, in ms since the epoch: 1970-01-02."""
_GZIP: Final = 31


@dataclass(slots=True)
class _Line:
    """An entry of the farm."""

    index: int
    term: int
    leader: int
    received_ms: int
    servers: tuple[int, ...]
    record: dict[str, Any] | None
    """None for Configurations."""

    def encode(self) -> bytes:
        """Return the entry's line in an export file."""
        if self.record is None:
            return servers_line(self.index, self.term, self.received_ms, self.servers, self.leader)
        return record_line(self.index, self.term, self.received_ms, json.dumps(self.record).encode())


def write_faults(directory: Path, life: SynthLife, began_ms: int) -> dict[str, Any]:
    """Write the farm's exports into a new directory; return the facts about them. Raises `OSError`.

    `entries`: number of different entries that can be read. `misfits`: indexes of the entries that no job should
    believe, by error. `files`: the file with each error. The good entries of a damaged file are in another file, too.
    """
    unit = min(_UNIT, len(life.entries) // 5)
    lines = [_line(life, index, began_ms) for index in range(1, 5 * unit + 1)]
    status = [line for line in lines[: 2 * unit] if line.record is not None and "router" in line.record]
    cut, text_up, text_id, early, received_early, *_ = status[unit // 2 :]
    assert text_up.record is not None
    assert text_id.record is not None
    assert early.record is not None
    text_up.record["router"]["up"] = "yes"
    text_id.record["id"] = str(text_id.record["id"])
    early.record["date"] = _IN_1970
    received_early.received_ms = _IN_1970

    first_file = directory / "server-1" / (plain_name(1) + GZIP)
    packed = zlib.compress(_file(lines, 1, 1, 2 * unit, cut=cut.index), 6, _GZIP)
    copy = directory / "copy-of-server-1" / (plain_name(1) + GZIP)
    torn = directory / "server-1" / plain_name(2 * unit + 1)
    spoilt = directory / "server-2" / (plain_name(4 * unit + 1) + GZIP)
    good = directory / "server-3" / plain_name(4 * unit + 1)
    saved = unit * 3 // 5
    for path, data in (
        (first_file, packed),
        (copy, packed),
        (torn, _file(lines, 1, 2 * unit + 1, 3 * unit, ends=False)[:-20]),
        (spoilt, _spoil(_file(lines, 2, 4 * unit + 1, 5 * unit), saved + 1)),
        (good, _file(lines, 3, 4 * unit + 1, 5 * unit, ends=False)),
    ):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)

    def name(path: Path) -> str:
        return path.relative_to(directory.parent).as_posix()

    return {
        "entries": 4 * unit - 2,  # without the cut line and the torn line
        "misfits": {
            "router.up is text": [text_up.index],
            "id is text": [text_id.index],
            "its date is in 1970": [early.index],
            "it was received in 1970": [received_early.index],
        },
        "files": {
            "a line is cut in the middle": {"path": name(first_file), "index": cut.index},
            "a duplicate": {"path": name(copy), "of": name(first_file)},
            "torn at its end, which is no fault": {"path": name(torn), "index": 3 * unit},
            "gzip is corrupt": {"path": name(spoilt), "entriesBefore": saved, "goodCopy": name(good)},
        },
    }


def _line(life: SynthLife, index: int, began_ms: int) -> _Line:
    entry = life.entries[index - 1]
    record: dict[str, Any] | None = None
    if entry.kind != "servers":
        record = json.loads(entry.text.replace(f'"cluster":"{CLUSTER}"'.encode(), f'"cluster":"{FAULTY}"'.encode(), 1))
        record["date"] += began_ms - BEGAN_MS
        meta = record.get("meta", {})
        if meta.get("lastPublishedTime"):
            meta["lastPublishedTime"] += began_ms - BEGAN_MS
    received_ms = began_ms + int(entry.seconds * 1000) + 50
    return _Line(index, entry.term, entry.leader, received_ms, entry.servers, record)


def _file(lines: list[_Line], server: int, first: int, last: int, *, cut: int = 0, ends: bool = True) -> bytes:
    """Return the bytes of an export file with the entries from index `first` to index `last`.

    `cut`: index of an entry whose line is cut in the middle; 0: no line is cut. `ends`: whether the file has its
    closing line.
    """
    parts = [header_line(Header(FAULTY, server, first, lines[first - 1].received_ms))]
    for line in lines[first - 1 : last]:
        data = line.encode()
        parts.append(data[: len(data) // 2] + b"\n" if line.index == cut else data)
    return b"".join([*parts, *([trailer_line(last)] if ends else [])])


def _spoil(data: bytes, lines: int) -> bytes:
    """Pack the data, and make all lines after the first `lines` unreadable, by a block type that deflate lacks."""
    middle = sum(map(len, data.splitlines(keepends=True)[:lines]))
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    before = packer.compress(data[:middle]) + packer.flush(zlib.Z_FULL_FLUSH)
    after = packer.compress(data[middle:]) + packer.flush()
    return before + b"\xff" * 64 + after[64:]
