"""Values for the farm's log, cut into requests of a legal size."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from gf_i2p.wire.limits import MAX_ENTRIES

T = TypeVar("T", str, bytes)


def requests_of(values: Sequence[T], most_bytes: int, length: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut the values into requests; without a value, yield nothing.

    A value that is too large is alone, and the node refuses it. `length`: returns the bytes that a value takes.
    """
    piece: list[T] = []
    size = 0
    for value in values:
        more = length(value)
        if piece and (len(piece) == MAX_ENTRIES or size + more > most_bytes):
            yield piece
            piece, size = [], 0
        piece.append(value)
        size += more
    if piece:
        yield piece
