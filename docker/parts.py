"""Writes the list of all parts of an image as CycloneDX 1.6: docker/Dockerfile runs this while an image is built.

    parts.py ENVIRONMENT PYPROJECT STATUS OS_RELEASE FILE

ENVIRONMENT  the image's Python packages, as a virtual environment: each with its licence
PYPROJECT    pyproject.toml of gf-i2p
STATUS       /var/lib/dpkg/status of the image: Debian's packages, which tell dpkg no licence
OS_RELEASE   /usr/lib/os-release of the image
FILE         where the list is written
"""

import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator
from packageurl import PackageURL

PROGRAM = "gf-i2p"


def python_parts(environment: Path, pyproject: Path) -> dict[str, Any]:
    """Return the list of an environment's packages, with the program as its subject."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--sv", "1.6"]
    options = ["--of", "JSON", "-o", "-", "--pyproject", str(pyproject), str(environment)]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True)
    parts: dict[str, Any] = json.loads(done.stdout)
    places = [str(each) for each in environment.glob("lib/python*/site-packages")]
    (program,) = distributions(name=PROGRAM, path=places)
    parts["metadata"]["component"]["version"] = program.version  # pyproject.toml has none
    return parts


def debian_parts(status: str, os_release: str) -> list[dict[str, Any]]:
    """Return Debian itself and its installed packages as components."""
    lines = [line.partition("=") for line in os_release.splitlines() if "=" in line]
    system = {name: value.strip('"') for name, _, value in lines}
    name, version = system["ID"], system.get("VERSION_ID", "unstable")  # an unreleased Debian has no number
    parts = [{"type": "operating-system", "bom-ref": f"{name}-{version}", "name": name, "version": version}]
    for paragraph in status.split("\n\n"):
        fields = {key: value.strip() for key, _, value in (line.partition(":") for line in paragraph.splitlines())}
        if fields.get("Status", "").split()[-1:] != ["installed"]:
            continue
        # The fault lists of Debian name source packages: upstream, as other makers of such lists write it.
        qualifiers = {"arch": fields["Architecture"], "distro": f"{name}-{version}"}
        if "Source" in fields:
            qualifiers["upstream"] = fields["Source"].partition(" ")[0]
        url = PackageURL("deb", name, fields["Package"], fields["Version"], qualifiers).to_string()
        one = {"type": "library", "bom-ref": url, "name": fields["Package"], "version": fields["Version"], "purl": url}
        parts.append(one)
    return parts


def main(environment: str, pyproject: str, status: str, os_release: str, file: str) -> None:
    """Write the list. Raises `ValueError` when the list does not follow the schema."""
    parts = python_parts(Path(environment), Path(pyproject))
    parts["components"] += debian_parts(Path(status).read_text(), Path(os_release).read_text())
    text = json.dumps(parts, indent=1) + "\n"
    if (error := make_schemabased_validator(OutputFormat.JSON, SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"the list of parts is no CycloneDX: {error}")
    Path(file).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
