"""Runs the commands of docs/how-to/containers.md, as a reader with podman does.

The page writes `docker`, and says what a user of podman writes instead: the program `docker` of this test does the
same. The reader is user 10001, without a terminal. The containers have the names of the page. On this machine's own
engine the same names may be somebody's farm, so the test runs with podman only.
"""

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.containers.engine import Engine, EngineError, run
from integration.containers.project import PODMAN_BUILD, UP_SECONDS
from integration.pages.page import read_page
from integration.pages.session import Session
from tests.tier import is_everything

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "how-to" / "containers.md"
PATIENCE: Final = 600.0
"""Seconds for a command to print what the page shows: a farm through I2P comes up."""
PROJECTS: Final = {
    "gf-i2p": ("compose.yaml", ["--profile", "more"]),
    "second": ("compose.yaml", []),
    "gf-i2p-node": ("compose.node.yaml", []),
    "server-2": ("compose.node.yaml", []),
    "server-3": ("compose.node.yaml", []),
}
"""The page's projects, each with its file and options of compose."""
DOCKER: Final = """\
#!/bin/bash
# `docker compose` and `docker`, by podman. No command has a terminal: -T.
case $1 in
  compose)
    words=()
    for word in "${{@:2}}"; do
      words+=("$word")
      [[ $word != exec ]] || words+=(-T)
    done
    exec {compose} --podman-build-args={build_argument} "${{words[@]}}" ;;
  build) exec podman build {build} "${{@:2}}" ;;
  *) exec podman "$@" ;;
esac
"""
IDENTITY: Final = "#!/bin/sh\necho 10001\n"


@pytest.fixture
def programs(engine: Engine, tmp_path: Path) -> Iterator[Path]:
    """A folder with `docker` and `id`; at the end no project of the page runs."""
    if not engine.private:
        pytest.skip("the page's containers could be those of a farm on this machine")
    if not is_everything():
        pytest.skip("the page builds the image with Spark, whose steps are there with GF_I2P_TIER=all only")
    folder = tmp_path / "programs"
    folder.mkdir()
    build = " ".join(PODMAN_BUILD)
    docker = DOCKER.format(compose=shlex.join(engine.compose), build=build, build_argument=shlex.quote(build))
    for name, text in {"docker": docker, "id": IDENTITY}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    yield folder
    variables = {**engine.environment, "NODE_DIRECTORY": str(tmp_path)}
    for project, (file, options) in PROJECTS.items():
        command = [*engine.compose, "-p", project, "-f", str(ROOT / "docker" / file), *options, "down", "--volumes"]
        try:
            run(command, variables, seconds=UP_SECONDS)
        except EngineError as error:
            print(error, flush=True)


@pytest.mark.slow  # two networks of routers and a farm in each: up to 15 minutes
@pytest.mark.timeout(2400)
def test_the_page_on_containers(programs: Path, engine: Engine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {**engine.environment, "HOME": str(home), "PATH": f"{programs}:{engine.environment['PATH']}"}
    began = time.monotonic()
    with Session(ROOT, environment, patience=PATIENCE) as session:
        session.run(read_page(PAGE))
    print(f"\n{PAGE.name}: {time.monotonic() - began:.0f} s", flush=True)
    assert (home / "parts.cdx.json").stat().st_size > 0
