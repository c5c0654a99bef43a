"""Shared parts of the tests of commands."""

import pytest

from tests.transport.harness import Identity


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """The certificate of a simulated router."""
    return Identity.make(tmp_path_factory.mktemp("identity"), "router")
