"""Reads the hashes that an operator gives: on each line one hash, and perhaps a name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gf_i2p.netdb.encoding import HASH_BYTES, from_b32_address, from_base64
from gf_i2p.netdb.errors import StructureError
from gf_i2p.pipeline.errors import UsageError

MAX_TARGETS: Final = 1_000_000
"""Most hashes of one run."""
MAX_LINE: Final = 1024
MAX_NAME: Final = 255
_BASE64_CHARS: Final = 44


@dataclass(frozen=True, slots=True)
class SoughtLeaseSet:
    """A destination; the job looks for the floodfills of its lease set."""

    hash: bytes
    """Hash of the destination, 32 bytes."""
    name: str
    """The operator's name for the destination; without such a name, the hash as the operator wrote it."""

    @property
    def is_named(self) -> bool:
        """Whether the operator gave a name."""
        try:
            return parse_target(self.name).hash != self.hash
        except StructureError:
            return True


def parse_target(text: str) -> SoughtLeaseSet:
    """Read "HASH" or "HASH NAME". HASH: in I2P's base64, or as ….b32.i2p. Raises `StructureError`."""
    word, _, name = text.strip().partition(" ")
    if len(word) <= _BASE64_CHARS and not word.endswith(".i2p"):
        hash_ = from_base64(word, HASH_BYTES)
    else:
        hash_ = from_b32_address(word)
    if len(hash_) != HASH_BYTES:
        raise StructureError(f"{word[:80]!r} is not a hash: a hash has {HASH_BYTES} bytes, and not {len(hash_)}")
    name = name.strip() or word
    if len(name) > MAX_NAME or not name.isprintable():
        raise StructureError(f"a name has at most {MAX_NAME} characters, all of them printable")
    return SoughtLeaseSet(hash_, name)


def parse_targets(lines: Iterable[str]) -> list[SoughtLeaseSet]:
    """Read lines as `parse_target` does; skip empty lines, and lines that begin with #. Raises `UsageError`."""
    targets = []
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise UsageError(f"line {number} has more than {MAX_LINE} characters: a line is HASH, or HASH NAME")
        if not line.strip() or line.startswith("#"):
            continue
        try:
            targets.append(parse_target(line))
        except StructureError as error:
            raise UsageError(f"line {number}: {error}") from None
        if len(targets) > MAX_TARGETS:
            raise UsageError(f"there are more than {MAX_TARGETS} hashes: give fewer at a time")
    return targets
