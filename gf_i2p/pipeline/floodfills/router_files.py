"""Finds the files of routers' netDbs and peer profiles by pyarrow, and reads them in Spark's workers.

i2pd and Java I2P have the same layout (HashedStorage, PersistentDataStore): netDb/rX/routerInfo-HASH.dat, where X is
the first letter of the hash. Java keeps all files in one directory if router.networkDatabase.flat says so. A profile is
peerProfiles/pX/profile-HASH.txt in i2pd, and peerProfiles/pX/profile-HASH.txt.gz in Java. A hash is in I2P's base64.
"""

import base64
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import pyarrow as pa
from pyarrow import fs

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.limits import MAX_ROUTER_INFO_BYTES
from gf_i2p.netdb.router_info import RouterInfo
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.floodfills.peer_profiles import PeerProfile, parse_i2pd, parse_java
from gf_i2p.pipeline.lake.paths import absolute
from gf_i2p.pipeline.read.record_schema import columns
from gf_i2p.pipeline.read.stored_file import file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_FILE_BYTES: Final = MAX_ROUTER_INFO_BYTES
"""A larger file is neither a RouterInfo nor a profile, and is not read."""
MAX_FILES: Final = 1_000_000
"""Most files of one run, because the driver keeps the list. The live netDb has some fifty thousand routers."""
NETDB, PROFILES = "netDb", "peerProfiles"
"""Names of the directories inside a router's own directory."""
QUARANTINED_BYTES: Final = 4096
"""Characters of a broken file that the quarantine keeps."""
_FILES_A_TASK: Final = 2_000
_OUT_ROWS: Final = 500
"""Rows of a batch that a worker gives back: at most 2 MiB, even if the worker quarantines all rows."""
_SUBDIRECTORY: Final = re.compile(r"[rp][A-Za-z0-9~-]")
_HASH: Final = r"(?P<hash>[A-Za-z0-9~-]{43}=)"
_NAMES: Final = {
    "router": re.compile(rf"routerInfo-{_HASH}\.dat"),
    "profile": re.compile(rf"profile-{_HASH}\.txt(?:\.gz)?"),
}

_FOUND: Final = pa.schema(
    [("root", pa.string()), ("path", pa.string()), ("length", pa.int64()), ("kind", pa.string())]
)  # fmt: skip
_TYPES: Final[dict[Any, pa.DataType]] = {
    str: pa.string(),
    int | None: pa.int64(),
    bool | None: pa.bool_(),
    float | None: pa.float64(),
}
_PROFILE: Final = pa.struct([(name, _TYPES[kind]) for name, kind in get_type_hints(PeerProfile).items()])
_READ: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("file", pa.string()),
        ("length", pa.int64()),
        ("hash", pa.string()),
        ("published_ms", pa.int64()),
        ("caps", pa.string()),
        ("floodfill", pa.bool_()),
        ("version", pa.string()),
        ("net_id", pa.int32()),
        ("addresses", pa.int32()),
        ("verified", pa.bool_()),
        ("profile", _PROFILE),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("digest", pa.string()),
    ]
)
"""Columns with a row for each file. Only the row of a broken file has a `reason`, and `text` and `digest` if the file
was read."""
_MAX_MS: Final = 2**63 - 1


def find_router_files(netdbs: list[str], profiles: list[str]) -> pa.Table:
    """Find the files of RouterInfos and profiles; return the files' roots, paths, lengths in bytes, and kinds.

    `netdbs`, `profiles`: netDb and peerProfiles directories, or routers' directories that contain them; as paths, or as
    addresses that pyarrow knows. In a router's directory in `netdbs`, the router's profiles are found, too. Raises
    `PipelineError` for a directory that is missing, or has no such file.
    """
    rows: list[tuple[str, str, int, str]] = []
    for address in netdbs:
        if not (_add_files(address, NETDB, "router", rows) or _add_files(address, "", "router", rows)):
            raise PipelineError(
                f"{address} has no routerInfo-….dat: give a netDb directory, or a router's directory with a netDb"
            )
        _add_files(address, PROFILES, "profile", rows)
    for address in profiles:
        if not (_add_files(address, PROFILES, "profile", rows) or _add_files(address, "", "profile", rows)):
            raise PipelineError(
                f"{address} has no profile-….txt or profile-….txt.gz: give a peerProfiles directory, or a router's "
                "directory with peerProfiles"
            )
    rows = sorted(set(rows))
    values = list(zip(*rows, strict=True))
    return pa.table([pa.array(column, each.type) for column, each in zip(values, _FOUND, strict=True)], schema=_FOUND)


def read_router_files(spark: "SparkSession", files: pa.Table) -> "DataFrame":
    """Read and parse the files; return a row of `_READ` for each file that still exists."""
    tasks = math.ceil(files.num_rows / _FILES_A_TASK)
    return spark.createDataFrame(files).repartition(tasks).mapInArrow(read_batches, columns(_READ))


def read_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read a worker's share of the files, for `mapInArrow`. Memory holds one file, and up to `_OUT_ROWS` rows."""
    systems: dict[str, fs.FileSystem] = {}
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for each in batch.to_pylist():
            root = each["root"]
            if root not in systems:
                systems[root] = _file_system(root)[0]
            row = _read_file(systems[root], each["path"], each["length"], each["kind"])
            if row is not None:
                rows.append(row)
            if len(rows) >= _OUT_ROWS:
                yield pa.RecordBatch.from_pylist(rows, _READ)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, _READ)


def _read_file(system: fs.FileSystem, path: str, length: int, kind: str) -> dict[str, Any] | None:
    row: dict[str, Any] = {"kind": kind, "file": path, "length": length}
    if length > MAX_FILE_BYTES:
        return row | {"reason": f"it has {length} bytes, and was not read: such a file has up to {MAX_FILE_BYTES}"}
    try:
        with system.open_input_stream(path, compression=None) as stream:  # pyarrow would unpack without a bound
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None  # the router has deleted the file since the listing
    except OSError as error:
        return row | {"reason": f"it cannot be read: {error}"}
    row["length"] = len(data)
    try:
        return row | _parse(kind, path, data)
    except NetDbError as error:
        return row | {"reason": str(error), "text": _excerpt(path, data), "digest": _digest(data)}


def _parse(kind: str, path: str, data: bytes) -> dict[str, Any]:
    """Return the columns of `_READ` that follow from a file's content. Raises `NetDbError` for a broken file."""
    name = path.rsplit("/", 1)[-1]
    match = _NAMES[kind].fullmatch(name)
    assert match is not None, "`find_router_files` gives only files with such names"
    if kind == "profile":
        profile: PeerProfile = parse_java(data) if name.endswith(".gz") else parse_i2pd(data)
        return {"hash": match["hash"], "profile": asdict(profile)}
    info = RouterInfo.parse(data)
    hash_ = to_base64(info.hash)
    if hash_ != match["hash"]:
        raise NetDbError(f"the file has another router's name: the RouterInfo is of {hash_}")
    return {
        "hash": hash_,
        "published_ms": min(info.published, _MAX_MS),
        "caps": info.caps,
        "floodfill": info.floodfill,
        "version": info.version,
        "net_id": info.net_id,
        "addresses": len(info.addresses),
        "verified": info.verified,
    }


def _excerpt(path: str, data: bytes) -> str:
    """Return the beginning of a file, as text (….txt) or in base64: up to `QUARANTINED_BYTES` characters."""
    if path.endswith(".txt"):
        return data[:QUARANTINED_BYTES].decode("utf-8", "replace")
    return base64.b64encode(data[: QUARANTINED_BYTES // 4 * 3]).decode("ascii")


def _digest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


# Looking for files ---------------------------------------------------------------------------------------------------


def _file_system(address: str) -> tuple[fs.FileSystem, str]:
    """Return the file system that reads an address, and the path on that file system."""
    try:
        system, path = file_system(absolute(address))
    except (pa.ArrowException, OSError) as error:
        raise PipelineError(f"{address} is not a directory that can be read: {error}") from None
    return system, path.rstrip("/")


def _add_files(address: str, inside: str, kind: str, rows: list[tuple[str, str, int, str]]) -> bool:
    """Add to `rows` the files of a kind in a directory, or in its subdirectory `inside`; return whether any exist."""
    system, base = _file_system(address)
    top = f"{base}/{inside}" if inside else base
    before = len(rows)
    directories = [top]
    while directories:
        directory = directories.pop()
        try:
            infos = system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(
                f"{directory} cannot be read: {error}. Run the job as a user that may read it, or on a copy."
            ) from None
        for info in infos:
            try:
                name = info.base_name
            except UnicodeDecodeError:  # a router's files have ASCII names
                continue
            if info.type == fs.FileType.Directory and directory == top and _SUBDIRECTORY.fullmatch(name):
                directories.append(info.path)
            elif info.type == fs.FileType.File and _NAMES[kind].fullmatch(name):
                rows.append((address, info.path, info.size, kind))
        if len(rows) > MAX_FILES:
            raise PipelineError(
                f"the directories up to {address} have more than {MAX_FILES} files: give fewer at a time"
            )
    return len(rows) > before
