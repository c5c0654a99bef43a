"""Every asynchronous test runs on both event loops, and none may leave an exception to the loop's handler."""

from pathlib import Path

import pytest

from tests.loops import pytest_asyncio_loop_factories, unhandled
from tests.transport.harness import Identity

__all__ = ["pytest_asyncio_loop_factories", "unhandled"]


@pytest.fixture(scope="session")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Certificates by name, made once: "node", "other", "expired" (for localhost), "named" (localhost, 127.0.0.1)."""
    directory: Path = tmp_path_factory.mktemp("identities")
    return {
        "node": Identity.make(directory, "node"),
        "other": Identity.make(directory, "other"),
        "named": Identity.make(directory, "named", hosts=("localhost", "127.0.0.1")),
        "expired": Identity.make(directory, "expired", hosts=("localhost",), days=-1),
    }


@pytest.fixture
def node(identities: dict[str, Identity]) -> Identity:
    return identities["node"]
