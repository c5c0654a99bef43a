"""Writes invented histories fast: a life's lines have holes for index, term and times, and each day fills the holes."""

import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from gf_i2p.pipeline.synth.farm_life import SynthEntry, SynthLife
from gf_i2p.simulator.life.farm import BEGAN_MS
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.history_lines import Header, header_line, trailer_line
from gf_i2p.storage.history_reader import BATCH_BYTES, plain_name
from gf_i2p.storage.packed_files import GZIP

ROTATE_BYTES: Final = 64 << 20
"""Bytes at which a file ends, as in `history_writer.Rotation`.

A node also begins a file after a day. This module does not, because a year of many farms would have too many files.
"""
_INDEX, _TERM, _TIME = range(3)
_GZIP: Final = 31
_LONG: Final = 300.0
"""Seconds of absence after which a server may have got a snapshot instead of the entries."""
_LATE: Final = (0.02, 0.4)
"""Range of seconds from an entry's commit until a server has applied the entry."""
_TIMES: Final = re.compile(
    r'("(?:date|lastPublishedTime|attemptedTime|sentTime|foundTime|confirmedTime|lastVersion)":)([0-9]{13})(?=[,}])'
)
_OF_CLUSTER: Final = f'"cluster":"{CLUSTER}"'


@dataclass(slots=True)
class _DayPattern:
    """Lines that are written at once, with a %d for each number that changes from day to day."""

    text: list[str] = field(default_factory=lambda: [" "])
    kinds: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, text: str, *holes: tuple[int, int]) -> None:
        """Add a line with a %d for each hole. `holes`: kind (`_INDEX`, `_TERM`, `_TIME`) and value of each number."""
        self.text.append(text)
        self.size += len(text) + 6 * len(holes)  # a number has about eight digits
        for kind, value in holes:
            self.kinds.append(kind)
            self.values.append(value)

    def fill(self, bases: tuple[int, int, int]) -> bytes:
        """Return the lines for one day. `bases`: for each of the three kinds, the number to add to each value."""
        numbers = tuple([value + bases[kind] for kind, value in zip(self.kinds, self.values, strict=True)])
        return ("".join(self.text) % numbers).encode("ascii")


@dataclass(slots=True)
class Template:
    """The export of a life by one server of one farm. A template makes any number of days."""

    pieces: list[_DayPattern]
    present: frozenset[int]
    """Entries that the export has, counted from 1; the others are gaps."""
    kinds: Counter[str]
    """Number of these entries, by kind."""
    gaps: int
    """Number of lines that tell a gap."""
    entries: int
    """Entries of the life: each day raises the index by this number."""
    terms: int
    """Terms of the life: each day raises the term by this number."""

    @classmethod
    def make(cls, life: SynthLife, server: int, farm: str) -> "Template":
        """Make the template of one server's export.

        `server`: the exporter, one of the life's servers. `farm`: the farm's name, of letters, digits and "-".
        """
        assert farm.isascii()
        chance = Random(f"synth export {life.shape} {life.seed} {server}")  # noqa: S311 -- must be repeatable
        missing = _missing(life, server, chance)
        maker = _Maker(f'"cluster":"{farm}"')
        applied = 0.0
        for index, entry in enumerate(life.entries, 1):
            if index in missing:
                maker.miss(index, entry)
                continue
            applied = max(applied, _applied(life, server, entry, chance))
            maker.entry(index, entry, int(applied * 1000) + entry.errors_ms[server - 1])
        maker.end(len(life.entries))
        return cls(
            maker.pieces,
            frozenset(range(1, len(life.entries) + 1)) - missing,
            maker.kinds,
            maker.gaps,
            len(life.entries),
            life.last_term,
        )


def _missing(life: SynthLife, server: int, chance: Random) -> set[int]:
    """Draw at random the entries that this server never got: never a day's first entry, which is a Configuration."""
    missing: set[int] = set()
    for since, until in life.away[server]:
        if until - since >= _LONG and chance.random() < 0.5:
            missing.update(i for i, entry in enumerate(life.entries, 1) if i > 1 and since < entry.seconds < until - 20)
    return missing


def _applied(life: SynthLife, server: int, entry: SynthEntry, chance: Random) -> float:
    """Return the second of the day at which a server has applied an entry."""
    second = entry.seconds + chance.uniform(*_LATE)
    for since, until in life.away[server]:
        if since < second < until:
            return until + chance.uniform(*_LATE)
    return second


class _Maker:
    """Collects the lines of a life's entries and gaps into pieces."""

    def __init__(self, cluster: str) -> None:
        self.pieces = [_DayPattern()]
        self.kinds: Counter[str] = Counter()
        self.gaps = 0
        self._cluster = cluster
        self._missed_from = 0
        self._servers: tuple[int, ...] = ()

    def entry(self, index: int, entry: SynthEntry, received_ms: int) -> None:
        """Add an entry's line. `received_ms`: milliseconds since midnight."""
        self.end(index - 1)
        piece = self.pieces[-1]
        if piece.size >= BATCH_BYTES:
            piece = _DayPattern()
            self.pieces.append(piece)
        self.kinds[entry.kind] += 1
        self._servers = entry.servers or self._servers
        index_hole, received, term = (_INDEX, index), (_TIME, received_ms), (_TERM, entry.term)
        if entry.kind == "servers":
            line = f'{{"index":%d,"leader":{entry.leader},"received":%d,"servers":{_list(entry.servers)},"term":%d}}\n'
            piece.add(line, index_hole, received, term)
            return
        text = entry.text.decode("ascii").replace(_OF_CLUSTER, self._cluster, 1).replace("%", "%%")
        times = [(_TIME, int(value) - BEGAN_MS) for _, value in _TIMES.findall(text)]
        record = _TIMES.sub(r"\1%d", text)
        piece.add(f'{{"index":%d,"received":%d,"record":{record},"term":%d}}\n', index_hole, received, *times, term)

    def miss(self, index: int, entry: SynthEntry) -> None:
        """Leave an entry out; `end` later writes one gap line for all entries left out in a row."""
        self._missed_from = self._missed_from or index
        self._servers = entry.servers or self._servers

    def end(self, last: int) -> None:
        """Write the line of the gap up to `last`, if entries were left out."""
        if self._missed_from:
            line = f'{{"gap":[%d,%d],"servers":{_list(self._servers)}}}\n'
            self.pieces[-1].add(line, (_INDEX, self._missed_from), (_INDEX, last))
            self._missed_from = 0
            self.gaps += 1


def _list(servers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, servers))}]"


class HistoryGenerator:
    """Writes one server's history from entry 1 on. Like a running node, `close` leaves the newest file plain."""

    def __init__(self, directory: Path, farm: str, server: int, *, level: int, rotate: int = ROTATE_BYTES) -> None:
        """Make the directory. `level`: of gzip, 1 to 9. `rotate`: bytes at which a file ends. Raises `OSError`."""
        directory.mkdir(mode=0o700, parents=True)
        self.raw_bytes = 0
        """Bytes of all lines so far, before packing."""
        self.bytes = 0
        """Bytes of all files so far on the disk."""
        self.files: list[Path] = []
        self._directory = directory
        self._farm = farm
        self._server = server
        self._level = level
        self._rotate = rotate
        self._lines: list[bytes] = []
        self._size = 0
        self._first = 1

    def day(self, template: Template, began_ms: int, index: int, term: int) -> None:
        """Add a day. `began_ms`: midnight, in ms since the epoch. `index`, `term`: the last ones before the day.

        Raises `OSError`.
        """
        for piece in template.pieces:
            first, received_ms, *_ = piece.values  # a piece begins with an entry, and never with a gap
            if self._size >= self._rotate:
                self._end(index + first)
            if not self._lines:
                self._add(header_line(Header(self._farm, self._server, self._first, began_ms + received_ms)))
            self._add(piece.fill((index, term, began_ms)))

    def close(self) -> None:
        """Write the newest file, which is not packed yet. Raises `OSError`."""
        self._write(self._directory / plain_name(self._first), b"".join(self._lines))

    def _add(self, data: bytes) -> None:
        self._lines.append(data)
        self._size += len(data)

    def _end(self, next_first: int) -> None:
        self._add(b" " + trailer_line(next_first - 1))
        packed = zlib.compress(b"".join(self._lines), self._level, _GZIP)
        self._write(self._directory / (plain_name(self._first) + GZIP), packed)
        self._lines.clear()
        self._first = next_first

    def _write(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.files.append(path)
        self.raw_bytes += self._size
        self.bytes += len(data)
        self._size = 0
