"""The page of the files names what the program really makes, with the modes that the files have."""

import contextlib
import fnmatch
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from gf_i2p.cli.main import main
from integration.harness.local_farm import LocalFarm, NotSeenError, until
from integration.reference.files import FileRow, rows_of_a_farm, rows_of_a_node


def modes(directory: Path) -> dict[str, str]:
    """Return the modes of all that is in a directory, and in the directories there."""
    found = {}
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a node has renamed the file meanwhile
            found[str(path.relative_to(directory))] = f"{path.stat().st_mode & 0o7777:04o}"
    return found


def described(rows: Iterable[FileRow], name: str) -> str | None:
    """Return the mode that the page gives; None for a file that the page does not have."""
    return next((row.mode for row in rows if fnmatch.fnmatchcase(name, re.sub(r"[A-Z]{2,}", "*", row.name))), None)


def test_what_init_makes_is_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = ["--client", "a", "--admin", "b", "--viewer", "c"]
    assert main(["init", str(tmp_path), "--server", "1=tcp://127.0.0.1:4150", *users]) == 0
    found = modes(tmp_path)
    beside = {name: mode for name, mode in found.items() if "/" not in name}
    assert beside == {name: described(rows_of_a_farm(), name) for name in beside}
    own = modes(tmp_path / "server-1")
    assert len(own) > 4
    assert own == {name: described(rows_of_a_node(), name) for name in own}


@pytest.mark.slow  # starts a node
async def test_what_a_node_makes_is_on_the_page(tmp_path: Path) -> None:
    unlike: dict[str, str] = {}

    async def is_as_described() -> bool:
        """A file that the node writes anew has another name for a moment."""
        found = {name: mode for name, mode in modes(farm.node(1)).items() if name != "node.log"}
        unlike.clear()
        unlike.update({name: mode for name, mode in found.items() if mode != described(rows_of_a_node(), name)})
        return {"node.sock", "log.sqlite-wal", "history"} <= found.keys() and not unlike

    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.calm()
        try:
            await until("only files of the page", 30.0, is_as_described)
        except NotSeenError:
            pytest.fail(f"not on the page, or with another mode: {unlike}")
