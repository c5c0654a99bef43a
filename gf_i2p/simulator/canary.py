"""What a canary is: a mistake on purpose, which the simulator must notice.

It replaces functions and methods of the real code while it is on the perch.
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
    """What it does wrong, in a few words."""
    patches: tuple[tuple[Any, str, Any], ...]
    """(class or module, name, what takes its place)."""
    lives: bool = False
    """Whether it is looked for in hours of farms' lives (`life`) only."""

    @contextmanager
    def perched(self) -> Iterator[None]:
        """All of this process is broken so for a while."""
        sound = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches]
        try:
            for owner, name, broken in self.patches:
                setattr(owner, name, broken)
            yield
        finally:
            for owner, name, original in sound:
                setattr(owner, name, original)


def method(owner: Any, name: str, broken: Any) -> tuple[tuple[Any, str, Any], ...]:
    """Return the patches of one place."""
    return ((owner, name, broken),)
