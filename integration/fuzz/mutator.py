"""Changes inputs at random: bytes, numbers, tokens, slices, and stretches of one slice to a long input."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from integration.fuzz.target import PIECE_BYTES

_EDGES: Final = (0, 1, 2, 7, 8, 9, 31, 32, 63, 64, 127, 128, 255, 256, 1023, 1024, 4095, 4096, 32767, 32768, 65535)
_EDGES_LARGE: Final = (65536, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_BYTES: Final = b"\x00\x01\x09\x0a\x0d\x1f\x20\x22,:;=[\\]{}\x7f\x80\xc3\xff"
_WORDS: Final = re.compile(rb"[A-Za-z0-9_.-]{2,40}")
_DIGITS: Final = re.compile(rb"[0-9]+")
_CUTS: Final = re.compile(rb"[{}\[\],:;=\"\r\n ]")
_TEXTS: Final = (
    b"9" * 20, b"9" * 5000, b"1e999", b"-0", b"1e5", b"0.5", b"null", b"true", b"[]", b"{}", b'""', b"\\ud800",
    b"\\u0000", b"[" * 200, b"[" * 20_000, b'{"a":' * 2000, b"NaN", b"Infinity", b"\xe2\x80\xa8", b"\xed\xa0\x80",
    b"\xff\xfe", b"\xd9\xa1", b"1_0", b"+1", b" 1",
)  # fmt: skip


class Mutator:
    """Makes new inputs from old ones. The same seed and the same inputs give the same new inputs."""

    def __init__(self, random: Random, tokens: Sequence[bytes]) -> None:
        """`tokens`: pieces of the format."""
        self._random = random
        self._tokens = list(tokens)
        self._ways: tuple[Callable[[bytearray], None], ...] = (
            self._flip, self._set, self._number, self._number, self._delete, self._copy, self._insert, self._token,
            self._token, self._digits, self._shorten, self._swap,
        )  # fmt: skip

    def learn(self, data: bytes) -> None:
        """Take the words of an input as tokens."""
        known = set(self._tokens)
        for word in _WORDS.findall(data[:4096]):
            if len(self._tokens) < 400 and word not in known:
                known.add(word)
                self._tokens.append(word)

    def mutated(self, data: bytes, other: bytes) -> bytes:
        """Return a changed copy of `data`. `other`: another input, of which the copy may get a part."""
        changed = bytearray(data)
        if other and self._random.random() < 0.15:
            start, end = self._slice(len(other))
            place, behind = self._slice(len(changed))
            changed[place : behind if self._random.random() < 0.5 else place] = other[start:end]
        for _ in range(1 << self._random.randrange(4)):
            self._random.choice(self._ways)(changed)
        return bytes(changed[:PIECE_BYTES])

    def stretched(self, data: bytes) -> bytes:
        """Return a copy of `data` in which one slice is repeated, up to the greatest length of an input.

        Some repetitions have other digits each time, so that names stay different.
        """
        if not data:
            return data
        random = self._random
        cuts = [match.start() for match in _CUTS.finditer(data[:8192])]
        if len(cuts) > 1 and random.random() < 0.6:
            first = random.randrange(len(cuts) - 1)
            start, end = cuts[first], cuts[min(len(cuts) - 1, first + random.randint(1, 4))]
            if random.random() < 0.5:
                start, end = start + 1, end + 1
        else:
            start, end = self._slice(len(data))
            end = min(end, start + random.choice((1, 2, 4, 16, 64, 1024)))
        piece = data[start:end] or data[:1]
        size = max(0, random.choice((PIECE_BYTES, PIECE_BYTES, PIECE_BYTES // 4, 4000, 900)) - len(data))
        count = max(1, size // len(piece))
        if random.random() < 0.3 and _WORDS.search(piece):
            word = _WORDS.search(piece)
            assert word is not None
            head, tail = piece[: word.start()], piece[word.end() :]
            middle = b"".join(b"%b%x%b" % (head, number, tail) for number in range(max(1, size // (len(piece) + 4))))
        else:
            middle = piece * count
        broken = random.choice((b"", b"", b"\x00", b"\xff", b"x", piece[:1]))
        return (data[:start] + middle + broken + data[end if random.random() < 0.5 else start :])[:PIECE_BYTES]

    def _slice(self, size: int) -> tuple[int, int]:
        start = self._random.randrange(size + 1)
        return start, min(size, start + (1 << self._random.randrange(12)))

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)

    def _set(self, data: bytearray) -> None:
        if data:
            data[self._random.randrange(len(data))] = self._random.choice(_BYTES)

    def _number(self, data: bytearray) -> None:
        size = self._random.choice((1, 2, 4, 8))
        if len(data) < size:
            return
        place = self._random.randrange(min(len(data) - size, 512) + 1)
        if self._random.random() < 0.5:
            number = self._random.choice(_EDGES + _EDGES_LARGE)
        else:
            number = int.from_bytes(data[place : place + size]) + self._random.randint(-16, 16)
        data[place : place + size] = (number % (1 << 8 * size)).to_bytes(size, "big")

    def _delete(self, data: bytearray) -> None:
        start, end = self._slice(len(data))
        del data[start:end]

    def _copy(self, data: bytearray) -> None:
        start, end = self._slice(len(data))
        place = self._random.randrange(len(data) + 1)
        data[place:place] = data[start:end]

    def _insert(self, data: bytearray) -> None:
        place = self._random.randrange(len(data) + 1)
        data[place:place] = self._random.randbytes(1 << self._random.randrange(6))

    def _token(self, data: bytearray) -> None:
        token = self._random.choice(self._tokens if self._tokens and self._random.random() < 0.7 else _TEXTS)
        place = self._random.randrange(len(data) + 1)
        behind = place
        if self._random.random() < 0.5 and (words := list(_WORDS.finditer(data, 0, 4096))):
            place, behind = self._random.choice(words).span()
        data[place:behind] = token

    def _digits(self, data: bytearray) -> None:
        numbers = list(_DIGITS.finditer(data, 0, 4096))
        if not numbers:
            return
        place, behind = self._random.choice(numbers).span()
        number = self._random.choice(_EDGES + _EDGES_LARGE)
        text = self._random.choice((b"%d", b"-%d", b"%d.5", b"%de5", b'"%d"')) % number
        data[place:behind] = text

    def _shorten(self, data: bytearray) -> None:
        del data[self._random.randrange(len(data) + 1) :]

    def _swap(self, data: bytearray) -> None:
        start, end = self._slice(len(data))
        piece = bytes(data[start:end])
        del data[start:end]
        place = self._random.randrange(len(data) + 1)
        data[place:place] = piece
