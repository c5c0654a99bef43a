"""Log lines on standard error, as text and as JSON."""

import json

import pytest
import structlog

from gf_i2p.cli.shared.logs import configure


def log_an_exception(form: str) -> None:
    configure("info", form)
    password = "correct horse"
    try:
        int("x" * len(password))
    except ValueError:
        structlog.get_logger().exception("it failed", peer=2)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_shows_where_and_what_but_no_variables(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log_an_exception(form)
    output, error = capsys.readouterr()
    assert output == ""
    assert "it failed" in error
    assert "test_logs.py" in error
    assert "xxxxxxxxxxxxx" in error
    assert "correct horse" not in error


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_an_exception("json")
    (line,) = capsys.readouterr().err.splitlines()
    record = json.loads(line)
    assert (record["event"], record["level"], record["peer"]) == ("it failed", "error", 2)


def test_less_than_the_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning", "json")
    structlog.get_logger().info("chatter")
    structlog.get_logger().warning("trouble")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "trouble"
