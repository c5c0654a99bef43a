"""The sentence about the owner of a path."""

import os
import pwd
from pathlib import Path

from gf_i2p.cli.shared.file_owner import other_owner

NOBODY = 65534


def test_a_path_of_somebody_else(tmp_path: Path) -> None:
    """The path itself is not there, or is hidden: the sentence is about the directory above."""
    me, other = pwd.getpwuid(os.geteuid()).pw_name, pwd.getpwuid(NOBODY).pw_name
    assert other_owner(tmp_path / "server-1/gf-i2p.toml", NOBODY) == (
        f"{tmp_path} belongs to the user {me}, and this command runs as {other}: name another path, or run the command "
        f"as {me}."
    )


def test_a_path_of_the_user_is_no_reason(tmp_path: Path) -> None:
    assert other_owner(tmp_path / "server-1", os.geteuid()) is None


def test_a_user_without_a_name_has_a_number(tmp_path: Path) -> None:
    nameless = max(each.pw_uid for each in pwd.getpwall()) + 1
    assert f"this command runs as #{nameless}:" in (other_owner(tmp_path, nameless) or "")
