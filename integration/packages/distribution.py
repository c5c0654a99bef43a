"""`make dist`: wheel, source, Debian package, SBOM, constraints and SHA256SUMS, from this source tree.

Files of a clean clone are those of its commit. When a file of the tree differs from the commit, the version ends with
"+changed": nobody takes one for the other.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration.packages.debian import install, make_package
from integration.packages.programs import ROOT, PackageError, run
from integration.packages.release import NotReleasableError, changed_files

CHANGED: Final = "+changed"
_OURS: Final = ("gf_i2p-*", "gf-i2p_*.deb", "SHA256SUMS")
_COMMENT: Final = re.compile(r"^\s*#.*\n", re.MULTILINE)
_EXTRAS: Final = re.compile(r"\[[^\]]*\]==")
_PIN: Final = re.compile(r"^([A-Za-z0-9][^\s\\]*==[^\s\\]+(?: ; [^\\]+?)?) *\\?$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Make the files; return 0 when all are made."""
    parser = argparse.ArgumentParser(prog="integration.packages.distribution", description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="where the files are written; older files of `make dist` there are removed"
    )
    parser.add_argument("--only", choices=["python"], help="python: wheel and source, and no other file")
    options = parser.parse_args(arguments)
    try:
        files = make(options.folder.absolute(), python_only=options.only == "python")
    except PackageError as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    for file in files:
        print(f"{file.stat().st_size:>12,} bytes  {file.name}")
    return 0


def make(folder: Path, *, python_only: bool = False) -> list[Path]:
    """Make the files in `folder`, without its older ones; return their paths. Raises `PackageError`."""
    clear(folder)
    epoch = source_epoch()
    files = build_python(folder, epoch)
    if python_only:
        return files
    wheel = next(file for file in files if file.suffix == ".whl")
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory(prefix="gf-i2p-dist-") as directory:
        site = Path(directory) / "site"
        _say("installing the locked packages")
        install(wheel, site)
        _say("writing the list of parts (SBOM)")
        files.append(_parts(site, version, folder / f"gf_i2p-{version}.cdx.json"))
        _say("packing for Debian")
        files.append(make_package(site, version, folder, epoch))
    files.append(folder / f"gf_i2p-{version}-constraints.txt")
    files[-1].write_text(constraints((ROOT / "requirements/run.txt").read_text()))
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{digest(file)}  {file.name}\n" for file in sorted(files)))
    return [*files, sums]


def clear(folder: Path) -> None:
    """Make the folder, or remove what an earlier `make dist` has left there. All other files stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in _OURS:
        for file in folder.glob(pattern):
            file.unlink()


def source_epoch() -> int:
    """Return the time of the source in seconds since 1970: SOURCE_DATE_EPOCH, or the time of the last commit."""
    if (given := os.environ.get("SOURCE_DATE_EPOCH")) is not None:
        return int(given)
    return int(run(["git", "log", "-1", "--format=%ct"]))


def marked_version(tree: Path) -> str:
    """Return the version of a tree, with a local part (PEP 440) when a file differs from the commit.

    A tree without git has its version, too: nobody knows whether a file there has changed.
    """
    version = run([sys.executable, "-m", "hatchling", "version"], tree).strip()
    try:
        changed = changed_files(tree)
    except NotReleasableError:
        return version
    if changed:
        _say(f"these files differ from the commit, so the version is marked:\n{changed}")
        return version + CHANGED
    return version


def build_python(folder: Path, epoch: int) -> list[Path]:
    """Build wheel and source in `folder`. Neither has files that git ignores."""
    version = marked_version(ROOT)
    _say(f"building wheel and source of {version}")
    before = os.umask(0o022)  # an archive has the modes of the files
    try:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
        run(command, SOURCE_DATE_EPOCH=str(epoch), SETUPTOOLS_SCM_PRETEND_VERSION=version)
    finally:
        os.umask(before)
    return sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])


def constraints(lock: str) -> str:
    """Return the versions of a lock for `pip install --constraint`, which takes neither hashes nor extras."""
    return "".join(f"{_EXTRAS.sub('==', pin)}\n" for pin in _PIN.findall(_COMMENT.sub("", lock)))


def digest(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _parts(site: Path, version: str, file: Path) -> Path:
    """Write the parts of an installed program as CycloneDX."""
    with tempfile.TemporaryDirectory() as directory:
        venv = Path(directory)
        (venv / "bin").mkdir()
        (venv / "bin/python").symlink_to(sys.executable)
        settings = f"home = {Path(sys.base_prefix) / 'bin'}\ninclude-system-site-packages = false\n"
        (venv / "pyvenv.cfg").write_text(settings)
        packages = venv / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        packages.parent.mkdir(parents=True)
        packages.symlink_to(site)
        command = [
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            "--output-reproducible",
            "--output-format",
            "JSON",
        ]
        run([*command, "--pyproject", "pyproject.toml", "--output-file", str(file), str(venv)], PYTHONPATH="")
    parts = json.loads(file.read_text())
    parts["metadata"]["component"]["version"] = version  # pyproject.toml has none
    file.write_text(json.dumps(parts, indent=1) + "\n")
    return file


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
