"""Majorities."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T", int, float)


def majority(servers: int) -> int:
    """How many of so many servers make a majority."""
    return servers // 2 + 1


def agreed(values: Iterable[T]) -> T:
    """The highest value that a majority has reached. There must be at least one value."""
    ordered = sorted(values, reverse=True)
    return ordered[majority(len(ordered)) - 1]
