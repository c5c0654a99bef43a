"""A canary: a mistake on purpose, which the simulator must notice.

Inside `Canary.applied`, the canary's functions replace functions and methods of the real code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Patch = tuple[Any, str, Any]
"""A replacement: class or module, name of the replaced function, new function."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A mistake that is put into the code on purpose, to show that the simulator notices the mistake."""

    name: str
    mistake: str
    """The mistake in a few words."""
    patches: tuple[Patch, ...]
    """The replacements."""
    lives: bool = False
    """Whether only the runs of `life`, hours of a farm's life, can catch this canary."""
    nodes: int | None = None
    """Number of servers of the only farms in which the mistake shows; None: any number."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the replacements in place; put the original code back at the end."""
        originals = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches]
        try:
            for owner, name, replacement in self.patches:
                setattr(owner, name, replacement)
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)


def core_canary(name: str, mistake: str, *patches: Patch, nodes: int | None = None) -> Canary:
    """Make a canary that breaks the core, its log or its clients' answers. `nodes`: see `Canary.nodes`."""
    return Canary(name, mistake, patches, nodes=nodes)


def life_canary(name: str, mistake: str, *patches: Patch) -> Canary:
    """Make a canary that breaks a farm's decisions."""
    return Canary(name, mistake, patches, lives=True)
