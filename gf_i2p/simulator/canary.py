"""A canary: a mistake on purpose, which the simulator must notice.

While the canary is on the perch, its functions replace functions and methods of the real code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Canary:
    """One mistake."""

    name: str
    mistake: str
    """The mistake in a few words."""
    patches: tuple[tuple[Any, str, Any], ...]
    """(class or module, name, replacement)."""
    lives: bool = False
    """Whether it is looked for in hours of farms' lives (`life`) only."""

    @contextmanager
    def perched(self) -> Iterator[None]:
        """Break this process for a while."""
        sound = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches]
        try:
            for owner, name, broken in self.patches:
                setattr(owner, name, broken)
            yield
        finally:
            for owner, name, original in sound:
                setattr(owner, name, original)


def method(owner: Any, name: str, broken: Any) -> tuple[tuple[Any, str, Any], ...]:
    """Return the patches for one replaced function."""
    return ((owner, name, broken),)
