"""Long work in pieces of some microseconds, so that the caller can do other work in between.

A generator yields after each piece, and returns the result. The data that the generator reads may change between two
pieces.
"""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Pieces = Generator[None, None, T]
"""Work in pieces, with a result of this type."""


def whole(work: Pieces[T]) -> T:
    """Do all pieces at once; return the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
