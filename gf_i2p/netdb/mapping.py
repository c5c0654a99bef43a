"""Mappings: pairs of a key and a value, which are short texts (common structures, "Mapping")."""

from collections.abc import Mapping
from itertools import pairwise

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.errors import LimitError, StructureError
from gf_i2p.netdb.limits import MAX_MAPPING_BYTES, MAX_STRING_BYTES


def encode_mapping(pairs: Mapping[str, str]) -> bytes:
    """Encode a mapping with ascending keys: Java sorts the keys before it verifies a signature.

    Keys and values are printable ASCII, up to 255 characters, without ";". Keys have no "=" either: some parsers stop
    there. Raises `LimitError` for any other text, and for more than 2048 bytes in all.
    """
    body = b""
    for key, value in sorted(pairs.items()):
        body += _string(key, "=;") + b"=" + _string(value, ";") + b";"
    if len(body) > MAX_MAPPING_BYTES:
        raise LimitError(f"options of {len(body)} bytes are more than the {MAX_MAPPING_BYTES} that fit")
    return len(body).to_bytes(2, "big") + body


def read_mapping(reader: Reader, *, max_bytes: int = MAX_MAPPING_BYTES, in_order: bool = True) -> dict[str, str]:
    """Read a mapping at the reader's position. Raises `StructureError`, also for a mapping that Java would refuse.

    Java sorts the keys before it verifies a signature. So Java refuses a mapping with a repeated key, or with keys that
    do not ascend. With `in_order` False the keys may have any order, as i2pd writes them.
    """
    length = reader.number(2)
    if length > max_bytes:
        raise StructureError(f"options of {length} bytes are more than the limit of {max_bytes}")
    inner = Reader(reader.take(length), "a Mapping")
    pairs: dict[str, str] = {}
    while inner.position < length:
        key = _read_string(inner, b"=")
        if key in pairs:
            raise StructureError(f"the option {key!r} is there twice")
        pairs[key] = _read_string(inner, b";")
    if in_order:
        order = [key.encode("utf-16-be") for key in pairs]  # Java's order
        if any(one > other for one, other in pairwise(order)):
            raise StructureError("the options are not in ascending order")
    return pairs


def _string(text: str, forbidden: str) -> bytes:
    if not text.isascii() or not text.isprintable() or len(text) > MAX_STRING_BYTES or set(text) & set(forbidden):
        raise LimitError(
            f"{text[:80]!r} is not allowed in options: use up to {MAX_STRING_BYTES} printable ASCII characters without "
            f"{' and '.join(forbidden)}"
        )
    return bytes([len(text)]) + text.encode("ascii")


def _read_string(reader: Reader, end: bytes) -> str:
    raw = reader.take(reader.number(1))
    if reader.take(1) != end:
        raise StructureError(f"a Mapping lacks a {end.decode()!r}")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StructureError("a Mapping has a text that is not UTF-8") from error
