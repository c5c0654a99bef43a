"""A fuzz target: one way from foreign bytes into the program, with the errors that the way may raise."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

MEMORY_BYTES: Final = 16 << 20
"""Most traced bytes of one execution, unless the target says otherwise."""
MEMORY_PER_BYTE: Final = 128
"""Traced bytes that each byte of an input may cost besides. A JSON list of two bytes takes 64 bytes in memory."""
SECONDS_PER_PIECE: Final = 0.1
"""Most seconds of processor time for each begun piece of an input, unless the target says otherwise."""
PIECE_BYTES: Final = 64 << 10
"""Bytes of a piece, and most bytes of an input."""


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder, or several that share their inputs."""

    name: str
    """Name on the command line, and of the corpus file: lower case with hyphens."""
    function: Callable[[bytes], object]
    """Decodes one input. An `AssertionError` is always a finding: the function compares a round trip."""
    errors: tuple[type[Exception], ...]
    """The declared errors. Empty: the function raises nothing, whatever the input is."""
    seeds: Callable[[], Iterable[bytes]]
    """Makes legal inputs, and inputs near to legal ones, by the real encoders or from recorded bytes."""
    tokens: tuple[bytes, ...] = ()
    """Pieces of the format, which the mutator inserts."""
    memory: int = MEMORY_BYTES
    """Most traced bytes of one execution, without the part that grows with the input."""

    seconds: float = SECONDS_PER_PIECE
    """Most seconds of processor time for each begun piece of an input."""

    def memory_limit(self, size: int) -> int:
        """Return the most traced bytes for an input of `size` bytes."""
        return self.memory + MEMORY_PER_BYTE * size

    def seconds_limit(self, size: int) -> float:
        """Return the most seconds of processor time for an input of `size` bytes."""
        return self.seconds * max(1, -(-size // PIECE_BYTES))
