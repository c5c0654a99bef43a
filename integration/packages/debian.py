"""The Debian package: a virtual environment below /usr/lib/gf-i2p, with units, manual page and completion.

The same source gives the same bytes: times, modes, owners and the packing are fixed. The package has the extension
modules of one version of Python, and depends on that version: on Debian 12, make the package with Python 3.11.
"""

import gzip
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from integration.packages.programs import ROOT, PackageError, run

SCRIPTS: Final = ("postinst", "prerm", "postrm")
HOME: Final = Path("usr/lib/gf-i2p")
_UNIT: Final = "gf-i2p@.service"
_LEAF_UNIT: Final = "gf-i2p-leaf@.service"
_LEAF_LINES: Final = (
    (r"A server of a farm: gf-i2p@", "A leaf member of a farm: gf-i2p-leaf@"),
    (r"runs the server whose", "runs the member whose"),
    (r"for all servers: systemctl edit gf-i2p@\.", "for all members: systemctl edit gf-i2p-leaf@."),
    (r"systemctl edit gf-i2p@NAME", "systemctl edit gf-i2p-leaf@NAME"),
    (r"Description=Garlic Farm server", "Description=Garlic Farm leaf member"),
    (r"%i/gf-i2p\.toml", "%i/leaf.toml"),
    (r"Type=notify\nNotifyAccess=main\n", "Type=exec\n"),
    (r"gf-i2p run ", "gf-i2p leaf run "),
    (r"ExecReload=.*\n", ""),
    (r"WatchdogSec=.*\nTimeoutStartSec=.*\n", ""),
    (r"# A server tells .*\nTimeoutStopSec=.*\n", ""),
    (r" A server of a busy farm takes some 200 MB\.", ""),
)
"""The lines that differ in the unit of a leaf member, which sends systemd no signs: pattern and new text."""
_PROGRAM: Final = """\
#!/usr/lib/gf-i2p/bin/python3 -I
import sys

from gf_i2p.cli.main import main

sys.exit(main())
"""
_GONE: Final = re.compile(r"^(?:bin|\.\.)/|/direct_url\.json,")
"""Lines of RECORD about files that are not in the package."""
_SETTINGS: Final = "home = /usr/bin\ninclude-system-site-packages = false\n"
_CONTROL: Final = """\
Package: gf-i2p
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Depends: python3 (>= {minor}), python3 (<< {next_minor}), libc6 (>= 2.28), adduser
Suggests: i2pd
Section: net
Priority: optional
Description: Garlic Farm server for I2P
 The routers of one I2P service agree, by Raft, on who is alive and who publishes
 the service's Meta LeaseSet2 (I2P proposal 150).
 .
 The unit gf-i2p@NAME runs the server whose directory is /var/lib/gf-i2p/NAME, and
 gf-i2p-leaf@NAME runs the leaf member there.
"""
_MAINTAINER: Final = "gf-i2p <gf-i2p@localhost>"


def debian_version(version: str) -> str:
    """Return Debian's form of a Python version: what comes before 1.0 sorts before 1.0.

    1.0rc1 and 1.0.dev3 become 1.0~rc1 and 1.0~dev3.
    """
    return re.sub(r"\.?((?:a|b|rc|dev)\d+)", r"~\1", version)


def leaf_unit(unit: str) -> str:
    """Return the unit of a leaf member, made of the unit of a server: both have the same limits and rights."""
    for pattern, text in _LEAF_LINES:
        unit, count = re.subn(pattern, text, unit)
        if count != 1:
            raise PackageError(f"{_UNIT} has {count} lines like {pattern}, not one: change _LEAF_LINES, too")
    return unit


def install(wheel: Path, site: Path) -> None:
    """Fill the folder `site` with the wheel and its dependencies, by the lock `requirements/run.txt`.

    Nothing there depends on the place of `site` or on the time.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    into = ["--no-build-isolation", "--target", str(site)]
    run([*pip, *into, "--require-hashes", "-r", str(ROOT / "requirements/run.txt")])
    run([*pip, *into, "--no-deps", "--no-index", str(wheel)])
    for path in site.glob("*.dist-info/direct_url.json"):  # the path of the wheel
        path.unlink()
    shutil.rmtree(site / "bin", ignore_errors=True)  # programs with the path of this Python
    for record in site.glob("*.dist-info/RECORD"):
        lines = [line for line in record.read_text().splitlines() if not _GONE.search(line)]
        record.write_text("\n".join(sorted(lines)) + "\n")
    for cache in sorted(site.rglob("__pycache__")):
        shutil.rmtree(cache)


def make_package(site: Path, version: str, folder: Path, epoch: int) -> Path:
    """Make the package of an installed `site` in `folder`; return its path.

    `version`: as Python writes it. `epoch`: time of all files, in seconds since 1970. Raises `PackageError`.
    """
    if shutil.which("dpkg-deb") is None:
        raise PackageError("dpkg-deb not found: it makes the Debian package; on another system there is none")
    architecture = run(["dpkg", "--print-architecture"]).strip()
    package = folder / f"gf-i2p_{debian_version(version)}_{architecture}.deb"
    with tempfile.TemporaryDirectory(prefix="gf-i2p-deb-") as directory:
        stage = Path(directory) / "package"
        _lay_out(stage, site, version, epoch)
        files = [path for path in stage.rglob("*") if path.is_file() and not path.is_symlink()]
        kib = sum(-(-path.stat().st_size // 1024) for path in files)
        major, minor = sys.version_info[:2]
        control = _CONTROL.format(
            version=debian_version(version),
            architecture=architecture,
            maintainer=_MAINTAINER,
            kib=kib,
            minor=f"{major}.{minor}",
            next_minor=f"{major}.{minor + 1}",
        )
        (stage / "DEBIAN").mkdir()
        (stage / "DEBIAN/control").write_text(control)
        for script in SCRIPTS:
            shutil.copy(ROOT / "packaging/debian" / script, stage / "DEBIAN" / script)
        _same_everywhere(stage, epoch)
        run(
            # One thread, for a packing in parallel has other bytes.
            ["dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--threads-max=1", "--build", str(stage), str(package)],
            SOURCE_DATE_EPOCH=str(epoch),
        )
    return package


def _lay_out(stage: Path, site: Path, version: str, epoch: int) -> None:
    """Put all files of the package below `stage`."""
    major, minor = sys.version_info[:2]
    home = stage / HOME
    shutil.copytree(site, home / f"lib/python{major}.{minor}/site-packages", symlinks=True)
    (home / "pyvenv.cfg").write_text(_SETTINGS)
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    unit = (ROOT / "packaging/debian" / _UNIT).read_text()
    texts = {
        "usr/bin/gf-i2p": _PROGRAM,
        f"lib/systemd/system/{_UNIT}": unit,
        f"lib/systemd/system/{_LEAF_UNIT}": leaf_unit(unit),
        "usr/share/doc/gf-i2p/copyright": (ROOT / "LICENSE").read_text(),
    }
    for shell, place in {
        "bash": "usr/share/bash-completion/completions/gf-i2p",
        "zsh": "usr/share/zsh/vendor-completions/_gf-i2p",
    }.items():
        texts[place] = _with(site, ["-m", "gf_i2p.cli.main", "completion", shell])
    for place, text in texts.items():
        (stage / place).parent.mkdir(parents=True, exist_ok=True)
        (stage / place).write_text(text)
    packed = {
        "usr/share/man/man1/gf-i2p.1.gz": _manual(site, version, epoch),
        "usr/share/doc/gf-i2p/changelog.gz": (ROOT / "CHANGELOG.md").read_bytes(),
    }
    for place, content in packed.items():
        (stage / place).parent.mkdir(parents=True, exist_ok=True)
        (stage / place).write_bytes(gzip.compress(content, mtime=0))


def _manual(site: Path, version: str, epoch: int) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "gf-i2p.1"
        run(
            ["make", "--silent", "-o", f"{_venv()}/.test", "man", f"VENV={_venv()}", f"MAN={page}"],
            PYTHONPATH=str(site),
            SOURCE_DATE_EPOCH=str(epoch),
        )
        # `make man` asks this environment for the version; the package can have another version.
        first, rest = page.read_text().split("\n", 1)
        return (re.sub(r'"gf-i2p [^"]*"', f'"gf-i2p {version}"', first) + "\n" + rest).encode()


def _venv() -> Path:
    return Path(sys.prefix)


def _with(site: Path, arguments: list[str]) -> str:
    return run([sys.executable, *arguments], PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1")


def _same_everywhere(stage: Path, epoch: int) -> None:
    """Set the modes and times of all files: what the umask and the clock have made is gone."""
    programs = {stage / "usr/bin/gf-i2p", *(stage / "DEBIAN" / script for script in SCRIPTS)}
    for path in sorted(stage.rglob("*"), reverse=True):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    stage.chmod(0o755)
    os.utime(stage, (epoch, epoch))
