"""The parameter sets to try: all combinations of some values, single sets from a file, or both."""

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gf_i2p.farm.parameters import NAMES, Parameters
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.pipeline.errors import UsageError

MAX_SETS: Final = 256
MAX_FILE_BYTES: Final = 1 << 20
NO_MATTER: Final = "republishMaxMs"
"""A parameter on which no decision depends: the time after which an unchanged set is signed anew."""
USUAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "freshMs": (75_000, 105_000, 180_000),
    "margin": (50, 150),
    "leafDownMs": (0, 30_000, 90_000),
}
"""The values to try when the operator names none: around the defaults."""

Set = Mapping[str, Any]
"""Fixed values of parameters, by the names in the log. The empty set is the *live set*: the farm's own parameters."""


def combined(values: Mapping[str, Sequence[Any]]) -> list[Set]:
    """Return the live set, then all combinations of `values`.

    Raises `UsageError` for too many combinations, and for a wrong value.
    """
    count = 1
    for each in values.values():
        count *= len(each)
    if count >= MAX_SETS:
        raise UsageError(f"{count} combinations are too many, the limit is {MAX_SETS - 1}: leave values out.")
    names = list(values)
    return checked(dict(zip(names, each, strict=True)) for each in itertools.product(*values.values()) if names)


def read_grid(path: Path) -> list[Set]:
    """Read the sets of a TOML file: a table `[values]` with a list for each name, or a `[[set]]` for each set, or both.

    The live set comes first. Raises `UsageError`, and `OSError`.
    """
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path} has more than {MAX_FILE_BYTES} bytes: give a smaller file.")
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    values, sets = document.pop("values", {}), document.pop("set", [])
    if (
        document
        or not isinstance(values, dict)
        or not all(isinstance(each, list) and each for each in values.values())
        or not isinstance(sets, list)
        or not all(isinstance(each, dict) for each in sets)
    ):
        raise UsageError(f"{path} may have only a table [values], with a list for each parameter, and tables [[set]].")
    combinations = combined(values) if values else []
    return checked([*combinations, *sets])


def checked(sets: Iterable[Set]) -> list[Set]:
    """Return the live set, then these sets without repetition.

    Raises `UsageError` for too many sets, and for a wrong set.
    """
    unique: list[Set] = [{}]
    for each in sets:
        if len(unique) >= MAX_SETS:
            raise UsageError(f"There are more than {MAX_SETS - 1} sets: leave some out.")
        if NO_MATTER in each:
            raise UsageError(f"No decision depends on {NO_MATTER}: leave {NO_MATTER} out.")
        if any(value is None for value in each.values()):
            raise UsageError(f"A set must give each of its parameters a value, unlike {dict(each)}.")
        try:
            Parameters().changed(each)
        except RecordError as error:
            raise UsageError(f"No farm can have the parameters {shown(each)}: {error}") from None
        if each not in unique:
            unique.append({name: each[name] for name in NAMES if name in each})
    return unique


def shown(each: Set) -> str:
    """Return a set as text for an operator, "NAME=VALUE, …", or "live"."""
    return ", ".join(f"{name}={value}" for name, value in each.items()) or "live"
