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
    "freshMs": (60_000, 75_000, 180_000),
    "margin": (150,),
    "leafDownMs": (30_000, 90_000),
}
"""The values to try when the operator names none: around the defaults, which a farm without changes has anyway."""

_LIVE: Final = object()
"""Stands for the farm's own value of a parameter."""

Set = Mapping[str, Any]
"""Fixed values of parameters, by the names in the log. The empty set is the *live set*: the farm's own parameters."""


def combined(values: Mapping[str, Sequence[Any]]) -> list[Set]:
    """Return the live set, then all combinations of `values`. In a combination, each parameter may also be the farm's.

    So every set is there without each of its parameters, too, which shows the share of each parameter in a gain. Raises
    `UsageError` for too many combinations, and for a wrong value.
    """
    count = 1
    for each in values.values():
        count *= len(each) + 1
    if count > MAX_SETS:
        raise UsageError(f"{count - 1} combinations are too many, the limit is {MAX_SETS - 1}: leave values out.")
    names = list(values)
    return checked(
        {name: value for name, value in zip(names, each, strict=True) if value is not _LIVE}
        for each in itertools.product(*((_LIVE, *values[name]) for name in names))
    )


def read_grid(path: Path) -> list[Set]:
    """Read the sets of a TOML file: a table `[values]` with a list for each name, or a `[[set]]` for each set, or both.

    The live set comes first. Each `[[set]]` is there without some of its parameters, too: see `combined`. Raises
    `UsageError`, and `OSError`.
    """
    document = read_toml(path, MAX_FILE_BYTES, "give a smaller file")
    values, sets = document.pop("values", {}), document.pop("set", [])
    if (
        document
        or not isinstance(values, dict)
        or not all(isinstance(each, list) and each for each in values.values())
        or not isinstance(sets, list)
        or not all(isinstance(each, dict) for each in sets)
    ):
        raise UsageError(f"{path} may have only a table [values], with a list for each parameter, and tables [[set]].")
    parts = (part for each in sets for part in combined({name: [value] for name, value in each.items()}))
    return checked([*combined(values), *parts])


def read_toml(path: Path, max_bytes: int, advice: str) -> dict[str, Any]:
    """Read a TOML file of up to `max_bytes`. `advice`: for a larger file. Raises `UsageError`, and `OSError`."""
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UsageError(f"{path} has more than {max_bytes} bytes: {advice}.")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def checked(sets: Iterable[Set]) -> list[Set]:
    """Return the live set, then these sets without repetition.

    Raises `UsageError` for too many sets, and for a wrong set.
    """
    unique: list[Set] = [{}]
    for each in sets:
        if NO_MATTER in each:
            raise UsageError(f"No decision depends on {NO_MATTER}: leave {NO_MATTER} out.")
        if any(value is None for value in each.values()):
            raise UsageError(f"A set must give each of its parameters a value, unlike {dict(each)}.")
        try:
            Parameters().changed(each)
        except RecordError as error:
            raise UsageError(f"No farm can have the parameters {shown(each)}: {error}") from None
        if each not in unique:
            if len(unique) >= MAX_SETS:
                raise UsageError(f"There are more than {MAX_SETS - 1} sets, with their parts: leave some out.")
            unique.append({name: each[name] for name in NAMES if name in each})
    return unique


def shown(each: Set) -> str:
    """Return a set as text for an operator, "NAME=VALUE, …", or "live"."""
    return ", ".join(f"{name}={value}" for name, value in each.items()) or "live"


def differences(each: Set, in_force: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a set that differ from the farm's values, by the names in the log."""
    return {name: value for name, value in each.items() if in_force.get(name) != value}
