"""A switch that several tests of the stream use."""

import pytest

from gf_i2p.pipeline.stream import batch


@pytest.fixture
def without_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the health tables and the servers' alerts out of each batch, because both take most of the batch's time."""
    monkeypatch.setattr(batch.Taking, "_judge", lambda *_: 0)
