"""The base image without a registry: Debian as debootstrap installs it, under the name that Dockerfiles use."""

import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from integration.containers.engine import Engine, EngineError, run

SUITES: Final = {"12": "bookworm", "13": "trixie"}
"""Debian's releases by number."""
_BASE: Final = re.compile(r"^ARG BASE=(?P<name>(?:\S+/)?debian:(?P<release>\d+)\S*)$", re.MULTILINE)
_ARCHIVE: Final = "http://deb.debian.org/debian"
_SECURITY: Final = "http://deb.debian.org/debian-security"
_URI: Final = re.compile(r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(https?://\S+)", re.MULTILINE)
_TOO_MUCH: Final = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/lib/apt/lists",
    "var/cache/apt",
    "var/log",
)
"""Directories that Debian's slim image lacks, too; here the directories stay, but empty."""
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_SECONDS: Final = 900.0


def needed(dockerfiles: Iterable[Path]) -> dict[str, str]:
    """Give the base images of some Dockerfiles, `ARG BASE=NAME`, and Debian's suite for each."""
    found = {}
    for file in dockerfiles:
        match = _BASE.search(file.read_text())
        if match is None or match["release"] not in SUITES:
            raise EngineError(f"{file}: no line ARG BASE=debian:RELEASE with a release out of {', '.join(SUITES)}")
        found[match["name"]] = SUITES[match["release"]]
    return found


def ensure(engine: Engine, name: str, suite: str, cache: Path) -> float:
    """Make the image if `cache` lacks it, and import it; return the seconds that this took."""
    began = time.monotonic()
    try:
        engine.run("image", "inspect", name)
    except EngineError:
        archive = cache / f"{suite}-{platform.machine()}.tar"
        if not archive.exists():
            make_archive(suite, archive)
        engine.run("import", "--quiet", str(archive), name, seconds=_SECONDS)
    return time.monotonic() - began


def make_archive(suite: str, archive: Path) -> None:
    """Make Debian's release `suite` as a tar archive; raises `EngineError`."""
    uris = list(dict.fromkeys(_URI.findall("\n".join(_sources()))))
    main = next((uri for uri in uris if uri.rstrip("/").endswith("/debian")), _ARCHIVE)
    security = next((uri for uri in uris if uri.rstrip("/").endswith("/debian-security")), _SECURITY)
    with tempfile.TemporaryDirectory(prefix="gf-i2p-base-") as directory:
        root = Path(directory) / "root"
        run(["debootstrap", "--variant=minbase", suite, str(root), main], os.environ, seconds=_SECONDS)
        for each in _TOO_MUCH:
            for entry in (root / each).iterdir():
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (root / "etc/apt/sources.list").write_text(
            f"deb {main} {suite} main\ndeb {main} {suite}-updates main\ndeb {security} {suite}-security main\n"
        )
        if _CERTIFICATES.exists():  # a machine behind its own proxy trusts the proxy's certificate; so must pip
            bundle = root / "etc/ssl/this-machine.crt"
            bundle.parent.mkdir(exist_ok=True)
            shutil.copy(_CERTIFICATES, bundle)
            (root / "etc/pip.conf").write_text("[global]\ncert = /etc/ssl/this-machine.crt\n")
        unfinished = archive.with_suffix(".part")
        run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(unfinished), "."], os.environ, seconds=_SECONDS)
        unfinished.rename(archive)


def _sources() -> Iterator[str]:
    """Yield the machine's own lists of apt sources."""
    apt = Path("/etc/apt")
    for file in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.*"))):
        if file.suffix in {".list", ".sources"} and file.is_file():
            yield file.read_text(errors="replace")


def image_size(engine: Engine, name: str) -> int:
    """Return the size of an image in bytes."""
    return int(engine.run("image", "inspect", "--format", "{{.Size}}", name))
