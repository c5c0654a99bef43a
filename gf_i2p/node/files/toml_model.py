"""TOML files as models: read whole, checked whole, every mistake named."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gf_i2p.node.files.bounded_read import MAX_BYTES, read_regular
from gf_i2p.node.files.errors import ConfigError


class Table(BaseModel):
    """A TOML table: unknown keys are mistakes, types are exact."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def read_text(path: Path) -> str:
    """Return the text of a file, with plain line ends; raises `ConfigError`."""
    try:
        data, _ = read_regular(path, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{path} is longer than the {MAX_BYTES} bytes that such a file may have.")
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """Parse the text of a file; raises `ConfigError` that names it."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also what is TOML, and beyond what Python reads
        raise ConfigError(f"{path} is not TOML: {error}.") from error


T = TypeVar("T", bound=Table)


def load_table(model: type[T], path: Path) -> T:
    """Read a TOML file as a model; raises `ConfigError` naming every key that is wrong."""
    return table_of(model, read_text(path), path)


def table_of(model: type[T], text: str, path: Path) -> T:
    """Do the same with a text that is in that file, or is to be."""
    try:
        return model.model_validate(parse_toml(text, path))
    except ValidationError as error:
        problems = [f"{path}: {_sentence(problem)}" for problem in error.errors()]
        raise ConfigError("\n".join(problems)) from error


def _sentence(problem: Any) -> str:
    """Say in one line which key is wrong and what was expected."""
    key = ""
    for part in problem["loc"]:
        key += f"[{part + 1}]" if isinstance(part, int) else f"{'.' if key else ''}{part}"
    if problem["type"] == "extra_forbidden":
        return f"{key}: no such key; check the spelling"
    if problem["type"] == "missing":
        return f"{key}: is missing"
    message: str = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:] if message.startswith("Input") else message
    return f"{key}: {message}" if key else message
