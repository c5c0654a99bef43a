"""A node's key file: the contents, the uses of the keys, and until when the keys are valid."""

from pathlib import Path
from typing import Final

import pytest

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.errors import NetDbError, SignatureError, StructureError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import META_OPTIONS, SERVICE_OPTIONS, SessionConfig, session_config
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.publish.publishing_keys import (
    HANDOVER_SECONDS,
    MAX_FILE_BYTES,
    PublishingKeys,
    Purpose,
    Stage,
    load_publishing_keys,
)
from tests.netdb.strategies import DELEGATED, KEYS, NOW, entropy

DAY: Final = 86_400
OTHER: Final = DestinationKeys.generate(entropy(3))
MADE: Final = PublishingKeys.delegate(KEYS, NOW + 90 * DAY, NOW, server=2)


def text(**changes: str | None) -> bytes:
    """The file of `MADE` with changes; None leaves a line out."""
    lines = MADE.encode().decode().splitlines()
    head = [line for line in lines if line.startswith("#") or ": " not in line]
    values = dict(line.split(": ", 1) for line in lines if line not in head)
    values |= {name: value for name, value in changes.items() if value is not None}
    body = [f"{name}: {value}" for name, value in values.items() if changes.get(name, "") is not None]
    return "\n".join([*head, *body, ""]).encode()


def write(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


# The file -----------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "keys", MADE.encode())
    assert load_publishing_keys(path).encode() == MADE.encode()
    assert PublishingKeys.parse(text()).encode() == MADE.encode()
    head, end, rest = text().partition(b"\n")
    assert PublishingKeys.parse(head + end + rest.replace(b"\n", b"\r\n")).encode() == MADE.encode()
    assert PublishingKeys.parse(text(server=None)).server is None


@pytest.mark.parametrize("keys", [KEYS, DELEGATED], ids=["own", "delegated"])
def test_routers_own_files_are_read(keys: DestinationKeys) -> None:
    read = PublishingKeys.parse(keys.encode())
    assert (read.signed, read.server, read.delegated_at) == ({}, None, None)
    assert read.encode() == keys.encode()


def test_the_masters_own_key_is_not_in_a_delegated_file_and_nothing_secret_in_its_repr() -> None:
    for data in (MADE.encode(), MADE.keys.encode()):
        assert KEYS.key.private not in data
        assert to_base64(KEYS.key.private)[:40].encode() not in data
    assert MADE.keys.base64 in MADE.encode().decode()
    shown = repr(MADE)
    assert MADE.keys.key.private.hex() not in shown
    assert repr(MADE.keys.key.private) not in shown
    assert MADE.keys.base64 not in shown
    with pytest.raises(SignatureError):
        MADE.keys.delegate(NOW + DAY)


def test_the_configs_are_those_that_i2pd_takes() -> None:
    for purpose, options in ((Purpose.META, META_OPTIONS), (Purpose.SERVICE, SERVICE_OPTIONS)):
        data = MADE.signed_session(purpose)
        assert data is not None
        config = SessionConfig.parse(data)
        config.verify()
        assert not config.delegated
        assert (config.destination, config.options, config.date_ms) == (KEYS.destination, options, NOW * 1000)
        fresh = SessionConfig.parse(MADE.fresh_session(purpose, NOW * 1000 + 5))
        assert fresh.delegated
        assert fresh.date_ms == NOW * 1000 + 5
        with pytest.raises(SignatureError):
            fresh.verify()
        own = PublishingKeys(KEYS)
        assert own.signed_session(purpose) is None
        SessionConfig.parse(own.fresh_session(purpose, NOW * 1000)).verify()


def swapped(data: str) -> str:
    return ("A" if data[-9] != "A" else "B").join((data[:-9], data[-8:]))


META: Final = to_base64(MADE.signed[Purpose.META])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"keys": None}, "the line 'keys' is missing: was the file copied"),
        ({"service": None}, "the line 'service' is missing"),
        ({"meta": None}, "the line 'meta' is missing"),
        ({"another": "x"}, r"line \d+ is unknown, or comes twice$"),
        ({"server": "-1"}, "does not hold a server's id"),
        ({"server": "4294967295"}, "does not hold a server's id"),
        ({"server": "9" * 5000}, "does not hold a server's id"),
        ({"keys": KEYS.base64}, "it has the master's own key"),
        ({"keys": OTHER.delegate(NOW + DAY).base64}, "is for .* and its keys are for"),
        ({"meta": swapped(META)}, "not by this key"),
        ({"meta": to_base64(MADE.fresh_session(Purpose.META, NOW))}, "not by this key"),
        ({"meta": to_base64(MADE.signed[Purpose.SERVICE])}, "has the options of another session"),
        ({"service": META}, "has the options of another session"),
        ({"service": to_base64(session_config(KEYS, NOW, {}))}, "has the options of another session"),
        ({"meta": "A" * 12_000}, "longer than"),
        ({"meta": "?"}, "base64"),
    ],
)
def test_files_that_are_wrong(changes: dict[str, str | None], why: str) -> None:
    with pytest.raises(NetDbError, match=why):
        PublishingKeys.parse(text(**changes))


def test_every_truncated_file_is_refused() -> None:
    data = MADE.encode()
    for cut in range(len(data) - 1):  # without the last line end the file is whole
        with pytest.raises(NetDbError):
            PublishingKeys.parse(data[:cut])


def test_a_file_of_a_later_format_and_one_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(StructureError, match=r"of format 2, .* install a newer gf-i2p"):
        PublishingKeys.parse(MADE.encode().replace(b"keys 1", b"keys 2", 1))
    data = MADE.encode() + b"#" * MAX_FILE_BYTES
    path = write(tmp_path / "keys", data)
    with pytest.raises(ConfigError, match=f"longer than the {MAX_FILE_BYTES} bytes"):
        load_publishing_keys(path)
    write(path, MADE.encode() + MADE.encode().partition(b"\n")[2])
    with pytest.raises(ConfigError, match="comes twice"):
        load_publishing_keys(path)


def test_files_that_others_can_read_or_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "keys", MADE.encode())
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_publishing_keys(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_publishing_keys(tmp_path / "none")
    (tmp_path / "directory").mkdir(mode=0o700)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_publishing_keys(tmp_path / "directory")


# The end of the keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "left", "stage"),
    [
        (90, 14 * DAY, Stage.GOOD),
        (90, 14 * DAY - 1, Stage.ENDING),
        (8, 2 * DAY, Stage.GOOD),  # a quarter of the lifetime
        (8, 2 * DAY - 1, Stage.ENDING),
        (90, HANDOVER_SECONDS + 1, Stage.ENDING),
        (90, HANDOVER_SECONDS, Stage.ENDED),
        (90, -DAY, Stage.ENDED),
    ],
)
def test_stages(days: int, left: int, stage: Stage) -> None:
    keys = PublishingKeys.delegate(KEYS, NOW + days * DAY, NOW)
    assert keys.ends is not None
    assert keys.stage(keys.ends - left) is stage
    assert ("expired" in keys.described(keys.ends - left)) is (left <= 0)


def test_keys_of_unknown_age_and_the_masters_own() -> None:
    made = PublishingKeys(KEYS.delegate(NOW + DAY))
    assert made.delegated_at is None
    assert made.stage(NOW) is Stage.ENDING
    assert PublishingKeys(KEYS).stage(2**40) is Stage.LASTING
    assert "do not expire" in PublishingKeys(KEYS).described(NOW)


def test_which_router_takes_which() -> None:
    plain = PublishingKeys(DELEGATED)
    assert "gf-i2p keys delegate" in (plain.objection("i2pd") or "")
    assert [keys.objection("i2pd") for keys in (MADE, PublishingKeys(KEYS))] == [None, None]
    assert [keys.objection(kind) for keys in (MADE, plain) for kind in ("java", "auto")] == [None] * 4
