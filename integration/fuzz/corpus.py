"""The corpus in the tree: inputs that reach code which no seed reaches, and inputs that found something.

One text file for each target, one input a line: the bytes in base32 (of zlib, after "z:"), and perhaps a reason. Base32
has letters and digits only, so no input looks like a path or a word that the repository forbids.
"""

import zlib
from base64 import b32decode, b32encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("corpus")
MAX_BYTES: Final = 300_000
"""Most bytes of all files together."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One input of the corpus."""

    data: bytes
    reason: str = ""
    """The kind of the finding; empty: the input reaches code that no other input reaches."""


def read_corpus(target: str, folder: Path = FOLDER) -> list[Kept]:
    """Read the inputs of a target; none when there is no file. Raises `ValueError` for a broken line."""
    file = folder / f"{target}.txt"
    if not file.is_file():
        return []
    kept = []
    for line in file.read_text("ascii").splitlines():
        word, _, reason = line.partition(" ")
        packed = word.startswith("z:")
        data = b32decode(word.removeprefix("z:"))
        kept.append(Kept(zlib.decompress(data) if packed else data, reason))
    return kept


def write_corpus(target: str, inputs: Iterable[Kept], folder: Path = FOLDER) -> None:
    """Replace the inputs of a target."""
    lines = []
    for each in inputs:
        packed = zlib.compress(each.data, 9)
        word = f"z:{b32encode(packed).decode()}" if len(packed) < len(each.data) else b32encode(each.data).decode()
        lines.append(f"{word} {each.reason}".rstrip())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines), "ascii")
