"""Targets of the pipeline: histories of any farm, profiles of peers, and the operator's hashes."""

import gzip
import io
from collections.abc import Iterator
from functools import cache
from typing import Final

from gf_i2p.farm import schema
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.netdb.errors import StructureError
from gf_i2p.pipeline.floodfills.given_hashes import parse_target
from gf_i2p.pipeline.floodfills.peer_profiles import parse_i2pd, parse_java
from gf_i2p.pipeline.read.entry_columns import Typer
from gf_i2p.pipeline.read.line_walk import MAX_BAD_LINES, FoundLine, Is, Walk
from gf_i2p.pipeline.read.stored_file import Lines, UnpackedFile
from gf_i2p.storage.packed_files import GZIP, ZSTD
from integration.fuzz import samples
from integration.fuzz.farm_targets import TARGETS as FARM_TARGETS
from integration.fuzz.storage_targets import HISTORY_TOKENS, gzip_history, history_lines, zstd_history
from integration.fuzz.target import PIECE_BYTES, Target

_ROWS: Final = 64
_MOST_UNPACKED: Final = 4 << 20
_I2PD: Final = (
    b"lastupdatetimestamp=1790000000\n[participation]\nagreed=5\ndeclined=1\nnonreplied=0\n[usage]\nconnected=true\n"
)
_JAVA: Final = (
    b"# a comment\nlastHeardFrom=1790000000000\ntunnels.lifetimeAgreedTo=5\nlastSentToSuccessfully=-1\n"
    b"tunnelPeakTunnel1mThroughput=1.5E3\n"
)


def _walk(data: bytes, packing: str) -> None:
    """Go through the beginning of a file; each line that was found can be a row of the table."""
    file = UnpackedFile(io.BytesIO(data), packing)
    lines = Lines(_beginning(file))
    found: list[FoundLine] = []
    walk = Walk(lines, strict=True)
    bad = 0
    for line in walk:
        bad += line.what is Is.BAD
        if line.what is not Is.BAD and len(found) < _ROWS:
            found.append(line)
    assert bad <= MAX_BAD_LINES
    assert (walk.unlisted is None) == (walk.bad == bad)
    if found:
        assert _typer().rows("farm", [1] * len(found), found).num_rows == len(found)


def _beginning(file: UnpackedFile) -> Iterator[bytes]:
    """Give the content up to `PIECE_BYTES`, since the time is limited by the stored bytes; unpack the rest in part."""
    size = 0
    for piece in file:
        if size < PIECE_BYTES:
            yield piece[: PIECE_BYTES - size]
        size += len(piece)
        if size > _MOST_UNPACKED:
            return


@cache
def _typer() -> Typer:
    return Typer(schema.text())


def _columns(data: bytes) -> None:
    """Any value, alone and beside a legal one, becomes a row, and the same row."""
    line = FoundLine(Is.RECORD, 5, 2, samples.NOW_MS, data)
    other = line._replace(at=6, text=_legal())
    alone = _typer().rows("farm", [1], [line]).to_pylist()
    beside = _typer().rows("farm", [1, 1], [line, other]).to_pylist()
    assert repr(alone[0]) == repr(beside[0])
    if alone[0]["kind"] == "status" and alone[0]["misfit"] is None:
        StatusRecord.parse(data)


@cache
def _legal() -> bytes:
    return next(iter(_records()))


def _records() -> Iterator[bytes]:
    for target in FARM_TARGETS:
        if target.name in {"status-record", "admin-entry"}:
            yield from target.seeds()


def _java_profiles() -> Iterator[bytes]:
    yield gzip.compress(_JAVA, mtime=0)
    yield gzip.compress(_JAVA + bytes(1 << 20), mtime=0)


TARGETS: Final = (
    Target(
        "lake-plain",
        lambda data: _walk(data, ""),
        (),
        lambda: (b"".join(history_lines()), b"".join(history_lines()[:-2]) + b'{"tor'),
        HISTORY_TOKENS,
    ),
    Target("lake-gzip", lambda data: _walk(data, GZIP), (), gzip_history, HISTORY_TOKENS),
    Target("lake-zstd", lambda data: _walk(data, ZSTD), (), zstd_history, HISTORY_TOKENS),
    Target(
        "lake-columns",
        _columns,
        (),
        _records,
        (b'"router":{', b'"date":', b"NaN", b'"id":', b"1.5", b"null", b'"up":true', b"[", b"]"),
    ),
    Target(
        "peer-profile-i2pd",
        parse_i2pd,
        (StructureError,),
        lambda: (_I2PD,),
    ),
    Target(
        "peer-profile-java",
        parse_java,
        (StructureError,),
        _java_profiles,
    ),
    Target(
        "given-hash",
        lambda data: parse_target(data.decode("utf-8", "replace")).is_named,
        (StructureError,),
        lambda: (f"{samples.keys().destination.b32} my site".encode(), samples.to_text(bytes(32)).encode()),
    ),
)
