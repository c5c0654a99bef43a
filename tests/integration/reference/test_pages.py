"""The generated pages are those of the code of today."""

import pytest

from gf_i2p.cli.main import COMMANDS, CommandEntry
from gf_i2p.node.files.config import LoggingTable
from integration.reference import commands, log_events, settings
from integration.reference.pages import DIRECTORY, texts


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages as the code makes them now."""
    return texts()


def test_each_committed_page_is_as_the_code_makes_it(made: dict[str, str]) -> None:
    old = [name for name, text in made.items() if (DIRECTORY / name).read_text(encoding="utf-8") != text]
    assert not old, "run: make reference"


def test_a_reload_takes_over_what_the_node_says_that_it_does(made: dict[str, str]) -> None:
    rows = [line.split(" | ") for line in made["settings.md"].splitlines() if line.startswith("| `")]
    effects = {row[0].strip("| `"): row[4].strip("| ") for row in rows if len(row) == 5}
    assert (effects["level"], effects["heartbeat"], effects["fingerprint"]) == ("reload", "reload", "reload")
    assert (effects["rotate_mib"], effects["endpoint"], effects["founder"]) == ("restart", "restart", "restart")
    assert (effects["key"], effects["password"], effects["join"]) == ("reload", "restart", "first start")


def test_a_setting_without_a_description_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "of_fields", lambda model: dict.fromkeys(model.model_fields, ""))
    with pytest.raises(ValueError, match=r"LoggingTable\.level has no description"):
        list(settings._chapters(LoggingTable, ()))


def test_a_command_that_no_page_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "dance", CommandEntry("dance", "gf_i2p.cli.commands.post"))
    with pytest.raises(ValueError, match="dance: add the command to a page"):
        commands._commands.__wrapped__()


def test_each_command_has_its_arguments_and_says_whether_a_node_must_run(made: dict[str, str]) -> None:
    assert "```text\ngf-i2p members add DIR|FILE ID=ENDPOINT\n```" in made["commands-members.md"]
    assert "| `--days D` | days until the key ends (default: 90, up to 365) |" in made["commands-members.md"]
    needs = {
        line.split("`")[1]: line.split(" | ")[-1].strip(" |")
        for line in made["commands.md"].splitlines()
        if "](" in line and "`gf-i2p" in line
    }
    assert (needs["gf-i2p status"], needs["gf-i2p recover"], needs["gf-i2p init"]) == ("running", "stopped", "-")


def test_figures_have_their_labels(made: dict[str, str]) -> None:
    lines = made["metrics.md"].splitlines()
    assert "| `gf_i2p_peer_round_trip_seconds` | Round trip to a peer. | gauge | `peer`, `quantile` |" in lines
    assert any(
        line.startswith("| `gf_i2p_posts_refused_total` |") and "| counter | `reason` |" in line for line in lines
    )
    assert any(line.startswith("| `process_open_fds` |") for line in lines)


def test_log_events_have_level_and_fields(made: dict[str, str]) -> None:
    lines = made["log-events.md"].splitlines()
    assert "| no connection | warning | `reason` |" in lines
    assert "| this node stops by itself | critical | `error` |" in lines
    assert len(set(log_events._events())) > 100


def test_each_request_has_a_role(made: dict[str, str]) -> None:
    lines = made["api.md"].splitlines()
    assert "| `GET` | `/v1/status` | administrator, viewer | the node's status |" in lines
    assert "| `POST` | `/v1/stepdown` | administrator | the leader hands over |" in lines
    assert any(line.startswith("| `GET` | `/v1/snapshot` | operator on the server's machine |") for line in lines)


def test_limits_have_units(made: dict[str, str]) -> None:
    lines = made["limits.md"].splitlines()
    assert any(line.startswith("| `max_entries_bytes` | 16 MiB |") for line in lines)
    assert any(line.startswith("| `handshake_seconds` | 10 s |") for line in lines)
    assert any(line.startswith("| `max_skipped_bytes_per_second` | 16 MiB a second |") for line in lines)
