"""The repository keeps its habits: faults that a reviewer would otherwise have to notice."""

import ast
import posixpath
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
MAX_LINES = 600
MAX_ARCHITECTURE_BYTES = 12_000
# No pattern here matches its own text.
FORBIDDEN = {
    "a path of a developer's machine": r"(?<![\w.])/(?:home|Users|root|work)/",
    "a registry's host name": r"\b(?:pypi|pythonhosted|npmjs|golang|maven\.apache|crates|docker|ghcr)\.(?:org|io)\b",
    "an option that names a registry": r"--(?:extra-)?index-url|--find[-]links",
    "a chapter of a file that is not here": r"\bDESIGN[ ]\d|\bjraft[-]facts",
    "a secret": r"-----BEGIN [A-Z ]*PRIVATE[ ]KEY-----(?:\\n|$)|\bprivate:[0-9a-f]{64}\b|\b(?:AKIA[0-9A-Z]{16}"
    r"|gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{35}|[rs]k_live_\w{16,}|eyJ[\w-]{20,}\.eyJ)",
    "an unfinished thought": r"\b(?:TO[D]O|FIX[M]E|XX[X])\b",
}


@cache
def contents() -> dict[str, bytes]:
    """Every file under version control, by path. Vectors come from elsewhere and are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = {path: ROOT / path for path in listed.stdout.split("\0") if path and "/vectors/" not in path}
    return {path: file.read_bytes() for path, file in files.items() if file.is_file()}


def is_text(data: bytes) -> bool:
    return b"\0" not in data


@cache
def texts() -> dict[str, str]:
    """Every text file under version control, by path; no vectors, which are not meant to be read."""
    found = {path: data.decode() for path, data in contents().items() if is_text(data)}
    assert "tests/test_repository.py" in found
    return found


def trees(under: str, ending: str = ".py", having: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Give path and tree of the modules in a folder whose path has this ending, and whose text has this part."""
    for path, text in texts().items():
        if path.startswith(under) and path.endswith(ending) and having in text:
            yield path, ast.parse(text)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("-----BEGIN PRIVATE" + " KEY-----", True),
        ('"-----BEGIN EC PRIVATE' + ' KEY-----\\nMHcCAQ"', True),
        ("-----BEGIN PRIVATE KEY----- begins a file of a key", False),
        ("ed25519-private:" + "0f" * 32, True),
        ("AKIA" + "A" * 16, True),
        ("ghp_" + "a1" * 18, True),
        ("eyJ" + "a" * 30 + "." + "eyJ" + "b" * 9, True),
        ("-----BEGIN CERTIFICATE-----", False),
        ("sha256:" + "0f" * 32, False),
    ],
)
def test_secrets_are_found(text: str, secret: bool) -> None:
    assert bool(re.search(FORBIDDEN["a secret"], text)) is secret


def test_every_file_is_text() -> None:
    """A program or an archive comes in by accident, and stays in every clone for ever.

    The page's compiled translations are none: tests/cli/page/test_catalogues.py compares them with their texts. The
    recorded files of a release are what the release wrote. Pictures of the documentation are made by `make pictures`.
    """
    binary = [path for path, data in contents().items() if not is_text(data)]
    expected = r"gf_i2p/cli/page/languages/.+\.mo|tests/upgrades/recorded/[\w.]+/files\.tar\.xz|docs/pictures/.+\.png"
    assert not [path for path in binary if not re.fullmatch(expected, path)]


def test_no_file_is_longer_than_one_subject() -> None:
    lists = (
        "requirements/",
        "gf_i2p/cli/page/languages/",
    )  # of hashes and of translations, which nobody reads in one go
    read = {path: text for path, text in texts().items() if not path.startswith(lists)}
    assert not {path: lines for path, text in read.items() if (lines := text.count("\n")) > MAX_LINES}


def test_every_package_says_what_it_is_for() -> None:
    packages = dict(trees("", "/__init__.py"))
    assert not [path for path, tree in packages.items() if not ast.get_docstring(tree)]
    directories = {str(Path(path).parent) for path in texts() if path.startswith("gf_i2p/") and path.endswith(".py")}
    assert not [directory for directory in directories if f"{directory}/__init__.py" not in packages]


def fixed_waits(tree: ast.Module) -> Iterator[int]:
    """Lines that wait for a fixed time; `asyncio.sleep` in a `while` polls a condition and is no such line."""
    polling = {node for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="time" | "asyncio", names=names) if "sleep" in {name.name for name in names}:
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="sleep")):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"), args=[ast.Constant(0)]):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep")) if node not in polling:
                yield node.lineno


def test_no_test_waits_for_a_fixed_time() -> None:
    assert not [f"{path}:{line}" for path, tree in trees("tests/", having="sleep") for line in fixed_waits(tree)]


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        ("time.sleep(0)", True),
        ("from time import sleep", True),
        ("from asyncio import sleep", True),
        ("asyncio.sleep(0.1)", True),
        ("asyncio.sleep(delay)", True),
        ("asyncio.sleep(0)", False),
        ("while not done():\n  asyncio.sleep(0.01)", False),
        ("while not done():\n  time.sleep(0.01)", True),
        ("import time, asyncio", False),
    ],
)
def test_fixed_waits_are_found(code: str, waits: bool) -> None:
    assert bool(list(fixed_waits(ast.parse(code)))) is waits


def test_every_limit_has_a_comment_that_says_why() -> None:
    lines = texts()["gf_i2p/wire/limits.py"].splitlines()
    names = [number for number, line in enumerate(lines) if re.match(r"[A-Z]\w+: Final = ", line)]
    assert len(names) > 10
    assert not [lines[number] for number in names if not lines[number - 1].startswith("# ")]


def test_the_hooks_before_a_commit_run_what_make_check_runs() -> None:
    hooks = re.findall(r"^ +entry: (.+)$", texts()[".pre-commit-config.yaml"], flags=re.MULTILINE)
    recipe = re.search(r"^check:.*\n((?:\t.+\n)+)", texts()["Makefile"], flags=re.MULTILINE)
    itself = re.search(r"^ITSELF = (.+)$", texts()["Makefile"], flags=re.MULTILINE)
    assert recipe is not None
    assert itself is not None
    lines = recipe[1].replace("@$(BIN)/", ".venv/bin/").replace("$(ITSELF)", itself[1]).splitlines()
    assert hooks == [line.strip() for line in lines]
    for setting in ("always_run: true", "pass_filenames: false"):  # also for a commit that only deletes files
        assert texts()[".pre-commit-config.yaml"].count(f"{setting}\n") == len(hooks)


def pages() -> list[str]:
    return ["ARCHITECTURE.md", "CONTRIBUTING.md", *(path for path in texts() if path.startswith("docs/design/"))]


@cache
def files_and_folders() -> frozenset[str]:
    """Every file under version control, and every folder of one with a slash behind."""
    folders = (f"{folder}/" for path in texts() for folder in PurePosixPath(path).parents)
    return frozenset((*texts(), *folders))


def dead_paths(page: str, text: str) -> list[str]:
    """Paths that a page names and that do not exist: in code, and as targets of links.

    A path in code begins at the root, in `gf_i2p/` or in the package of the page's name. A name without a folder may be
    anywhere.
    """
    dead = []
    for link in re.findall(r"\]\((?!\w+:)([^)#]+)", text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
        if files_and_folders().isdisjoint({target, f"{target}/"}):
            dead.append(link)
    bases = ("", "gf_i2p/", f"gf_i2p/{PurePosixPath(page).stem}/")
    for word in " ".join(re.findall(r"`[^`\n]+`|^ {4}.+", text, flags=re.MULTILINE)).replace("`", " ").split():
        path = word.partition("::")[0]
        if not re.fullmatch(r"(?:[\w.-]+/)+|(?:[\w.-]+/)*[\w.-]+\.(?:in|md|py|txt|yaml)", path):
            continue
        if any(f"{base}{path}" in files_and_folders() for base in bases):
            continue
        if "/" in path[:-1] or not any(each.endswith(f"/{path}") for each in files_and_folders()):
            dead.append(path)
    return dead


def test_every_path_that_a_page_for_developers_names_exists() -> None:
    assert len(pages()) > 8
    assert not {page: dead for page in pages() if (dead := dead_paths(page, texts()[page]))}


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("`gf_i2p/raft/core.py`, `raft/core.py`, `core.py`, `raft/` and `tests/raft/test_core.py::test_x`", []),
        ("`cluster/checker.py`, `life/` and `.pre-commit-config.yaml`", []),
        (
            "`gf_i2p/raft/hull.py`, `raft/hull.py`, `hull.py` and `hull/`",
            ["gf_i2p/raft/hull.py", "raft/hull.py", "hull.py", "hull/"],
        ),
        ("`consensus/driver.py`", ["consensus/driver.py"]),
        ("run\n\n    python -m pytest tests/raft/test_hull.py -k x\n", ["tests/raft/test_hull.py"]),
        ("[a](jraft.md), [b](../../docs/), [c](hull.md#part) and [d](https://example.org/hull.md)", ["hull.md"]),
        ("Words such as hull.py, `make test`, `Node.reload` and `a/b` are no paths", []),
    ],
)
def test_dead_paths_are_found(text: str, dead: list[str]) -> None:
    assert dead_paths("docs/design/simulator.md", text) == dead


def test_the_architecture_is_read_at_one_sitting() -> None:
    assert len(texts()["ARCHITECTURE.md"].encode()) <= MAX_ARCHITECTURE_BYTES
