"""The kinds of trouble, of the table `verdict_kinds.toml`: sentence, likely cause, and what to do next."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trouble. The table explains the fields."""

    name: str
    gravity: int
    """0 (no trouble) to 3 (clients cannot reach something)."""
    episodes: tuple[tuple[str, str, str], ...]
    """Subject, measure and side of the episodes of this kind; the side "" stands for all."""
    sentence: str
    cause: str
    next: str


def _read() -> dict[str, Kind]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    kinds = [{**row, "episodes": tuple(map(tuple, row["episodes"]))} for row in table["kind"]]
    return {row["name"]: Kind(**row) for row in kinds}


KINDS: Final = _read()
"""All kinds by their names, in the order of the table."""
