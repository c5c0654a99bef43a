"""How a server is started."""

from pathlib import Path

import pytest

from gf_i2p.node.files.start_command import start_command


@pytest.mark.parametrize(
    ("directory", "command"),
    [
        ("state/server-1", "sudo systemctl enable --now gf-i2p@server-1"),
        ("state/farm/server-1", "gf-i2p run state/farm/server-1"),
        ("my-farm/server-1", "gf-i2p run my-farm/server-1"),
    ],
)
def test_the_unit_runs_what_lies_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    unit = tmp_path / "gf-i2p@.service"
    unit.touch()
    assert start_command(Path(directory), state=tmp_path / "state", unit=unit) == command


def test_without_the_unit_a_terminal_runs_the_server(tmp_path: Path) -> None:
    directory = tmp_path / "state/server-1"
    assert start_command(directory, state=directory.parent, unit=tmp_path / "none") == f"gf-i2p run {directory}"
