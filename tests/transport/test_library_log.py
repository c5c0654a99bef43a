"""The log of the library's client in a program that imports the client."""

import asyncio
from pathlib import Path

import pytest
import structlog

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.transport.library_log import library_logger
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import NotCommittedError


async def _posts_in_vain(directory: Path) -> None:
    """Post to a farm of which no server runs, so that the client logs a warning."""
    make_farm(directory, {1: Endpoint("127.0.0.1", 1)}, cluster="farm", profile="lan", clients=["app"])
    async with ClientFile.load(directory / "client-app.toml").open() as farm:
        with pytest.raises(NotCommittedError):
            await farm.post([b"x"], timeout=1.0)


def test_the_client_leaves_standard_output_to_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    asyncio.run(_posts_in_vain(tmp_path))
    output, error = capsys.readouterr()
    assert output == ""
    assert "no connection" in error


def test_only_faults_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    library_logger("library").info("connected")
    assert capsys.readouterr() == ("", "")


def test_the_programs_own_configuration_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: True)
    with structlog.testing.capture_logs() as lines:
        library_logger("library").bind(peer="tcp://a:1").info("connected")
    assert lines == [{"peer": "tcp://a:1", "event": "connected", "log_level": "info"}]
    assert capsys.readouterr() == ("", "")
