"""How a server is started."""

from pathlib import Path

import pytest

from gf_i2p.node.files.start_command import leaf_start_command, start_command


@pytest.mark.parametrize(
    ("directory", "command"),
    [
        ("state/server-1", "sudo systemctl enable --now gf-i2p@server-1"),
        ("state/farm/server-1", "gf-i2p run state/farm/server-1"),
        ("my-farm/server-1", "gf-i2p run my-farm/server-1"),
        ("state/my server", "gf-i2p run 'state/my server'"),
        ("state/a;b", "gf-i2p run 'state/a;b'"),
    ],
)
def test_the_unit_runs_what_lies_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gf-i2p@.service").touch()
    assert start_command(Path(directory), state=tmp_path / "state", units=tmp_path) == command


def test_without_the_unit_a_terminal_runs_the_server(tmp_path: Path) -> None:
    directory = tmp_path / "state/server-1"
    assert start_command(directory, state=directory.parent, units=tmp_path) == f"gf-i2p run {directory}"


def test_a_leaf_member_has_a_unit_of_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "state/leaf-7"
    (tmp_path / "gf-i2p@.service").touch()
    assert leaf_start_command(directory, state=directory.parent, units=tmp_path) == f"gf-i2p leaf run {directory}"
    (tmp_path / "gf-i2p-leaf@.service").touch()
    assert leaf_start_command(directory, state=directory.parent, units=tmp_path) == (
        "sudo systemctl enable --now gf-i2p-leaf@leaf-7"
    )


def test_a_leaf_members_file_is_no_name_for_a_unit(tmp_path: Path) -> None:
    file = tmp_path / "leaf.toml"
    file.touch()
    (tmp_path / "gf-i2p-leaf@.service").touch()
    assert leaf_start_command(file, state=tmp_path, units=tmp_path) == f"gf-i2p leaf run {file}"
