"""The sealed part of a farm's file: it opens with the passphrase only, whole and for one farm, and costs little."""

import math
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.node.files import sealed
from gf_i2p.node.files.checked_read import ConfigError, table_of
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.node.files.sealed import MAX_BYTES, MAX_N, MAX_P, MIN_N, SealedTable

DATA = b"the plain secret of a farm"
WORDS = "correct horse batteries"
REFUSED = "the passphrase is wrong, or the file is damaged"


@pytest.fixture(scope="module")
def table() -> SealedTable:
    return SealedTable.seal(DATA, WORDS, "farm", n=MIN_N)


@pytest.fixture(scope="module")
def key(table: SealedTable) -> bytes:
    return table.key(WORDS)


def refuses(table: SealedTable, key: bytes, cluster: str = "farm") -> bool:
    with pytest.raises(ConfigError, match=f"^{REFUSED}"):
        table.open(key, cluster)
    return True


def test_what_is_sealed_opens_with_the_passphrase(table: SealedTable, key: bytes) -> None:
    assert table.open(key, "farm") == DATA
    assert DATA not in from_base64(table.data, MAX_BYTES)
    assert len(from_base64(table.data, MAX_BYTES)) == len(DATA) + 16
    for wrong in ("correct horse batterie", WORDS.upper(), WORDS + " ", ""):
        assert refuses(table, table.key(wrong))
    assert table.key("caf\u00e9") == table.key("cafe\u0301"), "two keyboards may write one letter in two ways"


def test_a_second_seal_shares_nothing_with_the_first(table: SealedTable) -> None:
    other = SealedTable.seal(DATA, WORDS, "farm", n=MIN_N)
    assert {other.salt, other.nonce, other.data}.isdisjoint({table.salt, table.nonce, table.data})


def test_a_new_seal_has_the_cost_of_the_recommendation(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[tuple[int, int, int, int]] = []

    def noted(*, salt: bytes, length: int, n: int, r: int, p: int) -> Scrypt:
        costs.append((length, n, r, p))
        return Scrypt(salt=salt, length=length, n=MIN_N, r=r, p=p)

    monkeypatch.setattr(sealed, "Scrypt", noted)
    SealedTable.seal(DATA, WORDS, "farm")
    assert costs == [(32, 1 << 17, 8, 1)]


@pytest.mark.parametrize("field", ["salt", "nonce", "data"])
def test_each_changed_bit_is_refused(table: SealedTable, key: bytes, field: str) -> None:
    """The key stays the same here: a changed salt is refused even by one who has the key."""
    raw = from_base64(getattr(table, field), MAX_BYTES)
    for bit in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        text = to_base64(bytes(changed))
        assert refuses(table.model_copy(update={field: text}), key), (field, bit)


def test_a_part_and_an_addition_are_refused(table: SealedTable, key: bytes) -> None:
    raw = from_base64(table.data, MAX_BYTES)
    for size in range(len(raw)):
        text = to_base64(raw[:size])
        if size < 16:
            assert "data: expected 16 bytes" in fault({"data": text})
        else:
            assert refuses(table.model_copy(update={"data": text}), key), size
    assert refuses(table.model_copy(update={"data": to_base64(raw + b"\0")}), key)


def test_name_version_and_parameters_are_bound(table: SealedTable, key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for cluster in ("farm2", "Farm", "", 'farm", "n": 1'):
        assert refuses(table, key, cluster)
    for change in ({"n": 2 * MIN_N}, {"p": 2}, {"r": 16}, {"kdf": "other"}, {"cipher": "other"}):
        assert refuses(table.model_copy(update=change), key), change
    monkeypatch.setattr(sealed, "FORMAT", 2)
    assert refuses(table, key)


GOOD: dict[str, Any] = {
    "kdf": "scrypt",
    "n": MIN_N,
    "r": 8,
    "p": 1,
    "salt": to_base64(bytes(16)),
    "cipher": "AES-256-GCM",
    "nonce": to_base64(bytes(12)),
    "data": to_base64(bytes(16)),
}


def fault(change: dict[str, Any]) -> str:
    """Return the fault of a farm's file whose sealed part has these values; "" without a fault."""
    values = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    lines = "\n".join(
        f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in values.items()
    )
    try:
        table_of(FarmFile, f'format = 1\ncluster = "farm"\n[sealed]\n{lines}\n', Path("farm.toml"))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "change",
    [
        {"n": 2 * MAX_N},
        {"n": MIN_N // 2},
        {"n": MIN_N + 1},
        {"n": 1 << 62},
        {"n": -MIN_N},
        {"n": 0},
        {"n": float(MIN_N)},
        {"r": 9},
        {"r": 1},
        {"r": 1 << 30},
        {"p": MAX_P + 1},
        {"p": 0},
        {"p": 1 << 30},
        {"kdf": "pbkdf2"},
        {"cipher": "none"},
        {"salt": ""},
        {"salt": "A" * 24},
        {"salt": "A" * 1000},
        {"salt": "\u00e9" * 24},
        {"nonce": "A" * 20},
        {"nonce": None},
        {"data": "A" * 23},
        {"data": "A" * 21 + "B=="},
        {"data": "A" * 22},
        {"data": "A" * 21 + "/=="},
        {"data": "AAAA\\nAAAA" * 8},
        {"more": 1},
    ],
)
def test_hostile_values_are_refused_before_a_key_is_derived(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "Scrypt", None)
    assert fault({}) == ""
    text = fault(change)
    assert f"farm.toml: sealed.{next(iter(change))}: " in text
    assert "\n" not in text


def test_too_much_to_open_or_to_seal_is_refused_without_the_memory_for_it() -> None:
    text = "A" * (4 * math.ceil((MAX_BYTES + 19) / 3))
    tracemalloc.start()
    began = time.thread_time()
    try:
        with pytest.raises(ValueError, match="at most"):
            SealedTable(**{**GOOD, "data": text})
        spent, peak = time.thread_time() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (spent < 1, peak < 1 << 20) == (True, True)
    with pytest.raises(ConfigError, match="at most 4194304 can be sealed"):
        SealedTable.seal(bytes(MAX_BYTES + 1), WORDS, "farm", n=MIN_N)


def test_a_machine_without_the_memory_is_told_how_much_is_needed(
    table: SealedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: object) -> Scrypt:
        raise MemoryError

    monkeypatch.setattr(sealed, "Scrypt", fails)
    with pytest.raises(ConfigError, match="needs 128 MiB"):
        table.model_copy(update={"n": 1 << 17}).key(WORDS)
