"""A directory of another user, seen by root, for tests that any user runs."""

import os
from pathlib import Path

import pytest

from gf_i2p.storage.ownership import user_name

_NOBODY = 65534


def as_root_elsewhere(directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a directory to another user, and be root from now on; return the user's name.

    Root gives the directory away. Any other user stays its owner, and the code under test takes the user for root.
    """
    directory.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        os.chown(directory, _NOBODY, _NOBODY)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    return user_name(directory.stat().st_uid)
