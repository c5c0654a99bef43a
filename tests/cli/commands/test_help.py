"""`gf-i2p help`: pages in the terminal."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gf_i2p.cli.main import main

ROOT = Path(__file__).parents[3]


def on_a_terminal(*words: str, columns: int = 60) -> str:
    """Run a command on a terminal of its own, with a pager that shows all; return what the terminal shows."""
    mine, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "PAGER": "cat", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "gf_i2p.cli.main", *words], stdin=its, stdout=its, stderr=its, env=environment, cwd=ROOT
    ) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                part = os.read(mine, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(mine)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")


def test_the_topics_are_listed_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    text = capsys.readouterr().out
    assert "\nReference: all that there is\n" in f"\n{text}"
    assert "Every command of gf-i2p ends with one of these codes.\n" in text
    assert text.endswith("`gf-i2p help TOPIC` shows a page.\n")
    assert main(["help", "--json"]) == 0
    topics = {each["topic"]: each for each in json.loads(capsys.readouterr().out)["topics"]}
    assert topics["exit-codes"]["title"] == "Exit codes"


def test_a_page_comes_plain_through_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "exit-codes"]) == 0
    assert capsys.readouterr().out.startswith("# Exit codes\n\nEvery command of `gf-i2p`")
    assert main(["help", "--json", "reference/exit-codes"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert (page["ok"], page["topic"], page["kind"]) == (True, "exit-codes", "reference")


@pytest.mark.parametrize("words", [["exit-cods", "--json"], ["--json", "exit-cods"]])
def test_an_unknown_topic_suggests_the_nearest(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["help", *words])
    except SystemExit as end:
        code = int(str(end.code))
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["ok"]) == (2, False)
    assert answer["error"].endswith("there is no topic 'exit-cods': did you mean `gf-i2p help exit-codes`?")


def test_a_terminal_shows_the_page_in_its_width() -> None:
    shown = on_a_terminal("help", "exit-codes")
    assert "Exit codes" in shown
    assert "# Exit codes" not in shown
    assert "| --- |" not in shown
    assert max(len(line) for line in _plain(shown).splitlines()) <= 60


def test_commands_on_a_page_stay_in_one_line() -> None:
    shown = _plain(on_a_terminal("help", "commands-members", columns=40))
    assert "\n    gf-i2p members invite DIR|FILE [--code] ID=ENDPOINT [--into DIR]" in shown


def _plain(shown: str) -> str:
    """Return the text without the terminal's control sequences."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def test_other_commands_read_no_pages() -> None:
    """A command's start must not wait for pages and for what shows them."""
    code = (
        "import sys; from gf_i2p.cli.main import _parser; _parser(['completion', 'bash']);"
        "assert not [m for m in sys.modules if '.help_' in m or m.startswith(('rich', 'markdown_it'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.slow  # builds two wheels
def test_an_installed_package_has_the_pages_and_an_editable_one_reads_the_repositorys(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a build writes the version into the source
    for name in ("gf_i2p", "bridges", "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"
    for kind in ("build_wheel", "build_editable"):
        (tmp_path / kind).mkdir()
        subprocess.run([sys.executable, "-c", build, kind, str(tmp_path / kind)], check=True, cwd=source)
    wheel = zipfile.ZipFile(next((tmp_path / "build_wheel").glob("*.whl")))
    assert "gf_i2p/docs/reference/exit-codes.md" in wheel.namelist()
    assert not [name for name in wheel.namelist() if name.endswith("docs/conf.py") or "docs/design" in name]
    wheel.extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-m", "gf_i2p.cli.main", "help", "exit-codes"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
    )
    assert done.stdout.startswith("# Exit codes\n")
    editable = zipfile.ZipFile(next((tmp_path / "build_editable").glob("*.whl")))
    assert not [name for name in editable.namelist() if "docs/" in name]
    paths = next(name for name in editable.namelist() if name.endswith(".pth"))
    assert editable.read(paths).decode().strip() == str(source)
