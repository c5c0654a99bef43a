"""No archive in the repository brings in what no other file may have, above all no secret."""

import bz2
import gzip
import io
import lzma
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.packed_files import MAX_BYTES, MAX_DEPTH, packed_files
from tests.test_repository import FORBIDDEN, contents, is_text

SECRET = b"-----BEGIN PRIVATE KEY-----"
MADE_FOR_THE_RECORD = re.compile(
    r"tests/upgrades/recorded/[\w.]+/files\.tar\.xz!!"
    r"(?:(?:admin|client|viewer)-\w+\.toml|leaf-\d+/leaf\.toml|server-\d+/(?:key\.pem|secrets\.toml))"
)
"""Files whose keys `integration.upgrades.record` makes for a record. These keys open nothing else."""


def found(files: dict[str, bytes]) -> list[str]:
    """Return what no file may have, of all files in these archives. A program's bytes are searched for secrets only."""
    patterns = {what: re.compile(pattern) for what, pattern in FORBIDDEN.items()}
    return [
        f"{name}: {what}"
        for path, data in files.items()
        for name, content in packed_files(path, data)
        for what, pattern in patterns.items()
        if is_text(content) or what == "a secret"
        if not (what == "a secret" and MADE_FOR_THE_RECORD.fullmatch(name))
        if any(pattern.search(line) for line in content.decode("latin-1").splitlines())
    ]


def test_no_archive_contains_what_no_file_may() -> None:
    archives = {path: data for path, data in contents().items() if not is_text(data)}
    assert any(path.startswith("tests/upgrades/recorded/") for path in archives)
    assert found(archives) == []


def tar(name: str, content: bytes, mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("archive", "name"),
    [
        (tar("key", SECRET), "x!key"),
        (tar("key", SECRET, "w:gz"), "x!!key"),
        (tar("key", SECRET, "w:xz"), "x!!key"),
        (tar("key", SECRET, "w:bz2"), "x!!key"),
        (zstandard.compress(tar("key", SECRET)), "x!!key"),
        (gzip.compress(SECRET), "x!"),
        (lzma.compress(SECRET), "x!"),
        (bz2.compress(SECRET), "x!"),
        (zipped("a.whl", zipped("key", SECRET)), "x!a.whl!key"),
        (tar("more.tar.gz", tar("key", b"\0\n" + SECRET, "w:gz")), "x!more.tar.gz!!key"),
    ],
    ids=["tar", "tar.gz", "tar.xz", "tar.bz2", "tar.zst", "gz", "xz", "bz2", "zip in zip", "tar.gz in tar"],
)
def test_a_secret_in_an_archive_is_found(archive: bytes, name: str) -> None:
    assert found({"x": archive}) == [f"{name}: a secret"]


def test_a_secret_in_a_package_of_debian_is_found(tmp_path: Path) -> None:
    if (program := shutil.which("dpkg-deb")) is None:
        pytest.skip("dpkg-deb is not installed")
    (tmp_path / "package/DEBIAN").mkdir(parents=True)
    control = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: n <n@x.invalid>\nDescription: x\n"
    (tmp_path / "package/DEBIAN/control").write_text(control)
    (tmp_path / "package/key").write_bytes(SECRET)
    command = [program, "--build", str(tmp_path / "package"), str(tmp_path / "x.deb")]
    subprocess.run(command, check=True, capture_output=True)
    (line,) = found({"x": (tmp_path / "x.deb").read_bytes()})
    assert re.fullmatch(r"x!data\.tar\.\w+!!\./key: a secret", line)


def test_a_record_has_secrets_in_its_own_files_only() -> None:
    record = "tests/upgrades/recorded/1.0.0/files.tar.xz"
    assert found({record: tar("server-1/secrets.toml", SECRET, "w:xz")}) == []
    assert found({record: tar("server-1/notes.txt", SECRET, "w:xz")}) == [f"{record}!!server-1/notes.txt: a secret"]


def test_a_file_that_is_no_archive_has_no_files() -> None:
    assert list(packed_files("x", SECRET)) == []


def test_archives_in_archives_end_somewhere() -> None:
    data = SECRET
    for _ in range(MAX_DEPTH + 1):
        data = gzip.compress(data)
    with pytest.raises(ValueError, match="more than 8 archives"):
        list(packed_files("x", data))


def many_entries() -> bytes:
    """A small archive whose files are together too large, none of them alone."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "b", "c"):
            archive.writestr(name, bytes(MAX_BYTES // 2))
    return packed.getvalue()


def sparse() -> bytes:
    """An archive of a few bytes, whose file is said to be huge: the old form of GNU tar, a hole up to the end."""
    entry = bytearray(tar("x", b"")[:512])
    size = b"%011o\0" % (1 << 32)
    entry[156:157] = b"S"
    entry[257:265] = b"ustar  \0"
    entry[386:410] = size + b"%011o\0" % 0
    entry[483:495] = size
    entry[148:156] = b" " * 8
    entry[148:156] = b"%06o\0 " % sum(entry)
    return bytes(entry) + bytes(1024)


@pytest.mark.parametrize(
    "archive",
    [
        lambda: gzip.compress(bytes(MAX_BYTES + 1), 1),
        lambda: lzma.compress(bytes(MAX_BYTES + 1), preset=0),
        lambda: bz2.compress(bytes(MAX_BYTES + 1), 1),
        lambda: zstandard.compress(bytes(MAX_BYTES + 1)),
        many_entries,
        sparse,
    ],
    ids=["gz", "xz", "bz2", "zst", "zip", "sparse tar"],
)
def test_a_small_archive_that_unpacks_to_much_is_refused(archive: Callable[[], bytes]) -> None:
    data = archive()
    with pytest.raises(ValueError, match=r"x: more than \d+ bytes when unpacked"):
        list(packed_files("x", data))
