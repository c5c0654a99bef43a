"""Shared parts of several modules of these tests."""

import pytest

from tests.storage.disk_after_crash import why_no_strace


@pytest.fixture
def strace() -> None:
    """Skip the test where strace cannot be used."""
    if (reason := why_no_strace()) is not None:
        pytest.skip(reason)
