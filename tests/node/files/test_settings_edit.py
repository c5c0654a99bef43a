"""Settings that a command changes: what the operator wrote stays, and a file is never left invalid."""

from pathlib import Path

import pytest

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.files.settings_edit import SettingChange, change_settings, known_keys
from gf_i2p.wire.endpoint import Endpoint


@pytest.fixture
def node(tmp_path: Path) -> Path:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4150)}, cluster="blue", profile="lan", clients=[])
    return tmp_path / "server-1"


def text(node: Path) -> str:
    return (node / CONFIG_FILE).read_text()


def test_a_changed_setting_keeps_all_comments_and_the_files_mode(node: Path) -> None:
    before, mode = text(node).splitlines(), (node / CONFIG_FILE).stat().st_mode
    (change,) = change_settings(node, {"logging.level": "debug"})
    assert change == SettingChange("logging.level", "info", "debug")
    after = text(node).splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 1
    assert "# debug, info, warning, error" in changed[0][1]
    assert Config.load(node).logging.level == "debug"
    assert (node / CONFIG_FILE).stat().st_mode == mode


def test_the_failover_mode_of_the_readme_in_one_command(node: Path) -> None:
    changes = {
        "router.i2cp": "127.0.0.1:7654",
        "publish.mode": "failover",
        "publish.service.target": "127.0.0.1:8080",
        'publish.service.session."inbound.length"': "1",
    }
    change_settings(node, changes)
    config = Config.load(node)
    assert config.publish.mode == "failover"
    assert config.publish.service is not None
    assert config.publish.service.session == {"inbound.length": "1"}, "a number becomes text where text is wanted"
    assert config.servers[0].id == 1


def test_a_new_setting_stands_with_the_others_of_its_table(node: Path) -> None:
    change_settings(node, {"history.rotate_mib": "32", "timing.heartbeat": "0.2", "logging.level": None})
    lines = text(node).splitlines()
    table = next(number for number, line in enumerate(lines) if line.startswith("[timing]"))
    heartbeat = next(number for number, line in enumerate(lines) if line.startswith("heartbeat = 0.2"))
    profile = next(number for number, line in enumerate(lines) if line.startswith("profile ="))
    assert table < profile < heartbeat == profile + 1, "and not behind the comments of the next table"
    (node / CONFIG_FILE).write_text(text(node) + '\n[publish]\n# mode = "off"\n\n# A comment of no table.\n')
    change_settings(node, {"publish.mode": "off"})
    assert '[publish]\nmode = "off"\n# mode' in text(node)


def test_a_link_is_not_replaced(node: Path, tmp_path: Path) -> None:
    target = (node / CONFIG_FILE).rename(tmp_path / "target.toml")
    (node / CONFIG_FILE).symlink_to(target)
    with pytest.raises(ConfigError, match="is a link"):
        change_settings(node, {"logging.level": "debug"})
    assert (node / CONFIG_FILE).is_symlink()


def test_numbers_booleans_and_lists_are_toml(node: Path) -> None:
    change_settings(node, {"timing.heartbeat": "0.25", "history.enabled": "false", "history.keep_days": "30"})
    config = Config.load(node)
    assert (config.timing.heartbeat, config.history.enabled, config.history.keep_days) == (0.25, False, 30)


def test_a_removed_setting_has_its_default_again(node: Path) -> None:
    change_settings(node, {"monitoring.listen": "127.0.0.1:9150"})
    assert Config.load(node).monitoring.address == ("127.0.0.1", 9150)
    assert change_settings(node, {"monitoring.listen": None, "publish.leaf": None}) == [
        SettingChange("monitoring.listen", "127.0.0.1:9150", None),
        SettingChange("publish.leaf", None, None),
    ]
    assert Config.load(node).monitoring.listen is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"publish.mod": "meta"}, "publish.mod: no such key; check the spelling: did you mean publish.mode?"),
        ({"loging.level": "info"}, "loging: no such key"),
        ({"logging.level": "loud"}, "logging.level"),
        ({"logging.level": "debug", "timing.heartbeat": "fast"}, "timing.heartbeat"),
        ({"servers": "1"}, "servers is a list of tables: `gf-i2p members`"),
        ({"publish.leaves": "1"}, "publish.leaves is a list of tables"),
        ({"logging": "1"}, "logging is a table: name one of its settings"),
        ({"logging.level.deep": "1"}, "logging.level is a value and no table"),
        ({"a b": "1"}, "is no key of a setting"),
        ({"a\n[b]\nc": "1"}, "is no key of a setting"),
        ({"": "1"}, "is no key of a setting"),
    ],
)
def test_a_wrong_change_changes_nothing(node: Path, changes: dict[str, str], fault: str) -> None:
    before = text(node)
    with pytest.raises(ConfigError) as caught:
        change_settings(node, changes)
    assert fault in str(caught.value)
    assert text(node) == before


def test_a_fault_that_is_there_already_is_told_as_it_is(node: Path) -> None:
    (node / CONFIG_FILE).write_text(text(node) + "\n[nonsense]\n")
    with pytest.raises(ConfigError, match="nonsense: no such key"):
        change_settings(node, {"logging.level": "debug"})


def test_a_value_cannot_bring_in_other_settings(node: Path) -> None:
    value = '"x"\n[logging]\nlevel = "debug"'
    with pytest.raises(ConfigError):
        change_settings(node, {"timing.profile": value})
    change_settings(node, {"history.max_mib": "16384"})
    assert Config.load(node).logging.level == "info"


def test_all_settings_are_known() -> None:
    keys = set(known_keys())
    assert {"node.id", "publish.mode", "publish.service.target", "router.sam", "monitoring.listen"} <= keys
    assert all(not key.startswith("servers.") or key.count(".") == 1 for key in keys)
