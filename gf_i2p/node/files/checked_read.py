"""Reads an operator's files and checks them as a whole: a `ConfigError` names every mistake.

A read has a limit of bytes, and never waits for a pipe or a device.
"""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from gf_i2p.storage.ownership import user_name, why_not_root


class ConfigError(Exception):
    """The configuration cannot be used; the message names file and key, and says what was expected."""


class NoNodeDirectoryError(ConfigError):
    """A directory has no settings of a node. The command line names the directory that may be meant."""

    def __init__(self, directory: Path, file: str) -> None:
        super().__init__(f"{directory / file} does not exist: is this a node's directory? `gf-i2p init` makes one.")
        self.directory = directory


MAX_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of a settings file: far more than settings need."""
TABLE_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
"""The beginning of a line that begins a table of TOML, in text without multi-line values."""


def read_regular(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Return at most the first `limit` bytes of a regular file, and its status at that time.

    Raises `ConfigError` when the file cannot be read or is not regular: to open a pipe would wait for a writer.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            _check_file(path, status)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(limit), status
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def check_not_root(directory: Path) -> None:
    """Raise `ConfigError` when root would change files in a directory of another user."""
    if (objection := why_not_root(directory)) is not None:
        raise ConfigError(objection)


def check_mode(path: Path, status: os.stat_result) -> None:
    """Refuse a secret that other users can read or change, or that is no regular file; raises `ConfigError`."""
    _check_file(path, status)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigError(
            f"{path} can be read by others on this machine (is it the right file?). Run: chmod 600 {path}"
        )
    if status.st_uid not in {os.geteuid(), 0}:
        owner = user_name(status.st_uid)
        raise ConfigError(
            f"{path} belongs to the user {owner}, who could change it. Run: sudo -u '{owner}' gf-i2p … (or, only for a "
            f"node that runs as {user_name(os.geteuid())}: chown {os.geteuid()} {path})"
        )


def _check_file(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{path} cannot be read: Is a directory.")
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(
            f"{path} cannot be read: it is a pipe or a device. Copy its data into a file, and name that file."
        )


class Table(BaseModel):
    """A TOML table: unknown keys are mistakes, types are exact."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def known_format(known: int) -> AfterValidator:
    """Return the check of a file's `format`, which rises when an older program would misread the file."""

    def check(found: int) -> int:
        if found != known:
            raise ValueError(f"it is {found}, and this program knows {known}: use the gf-i2p that wrote the file")
        return found

    return AfterValidator(check)


def _checked_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError(f"{text[:80]!r} is no path of a file")
    return text


PathText = Annotated[str, AfterValidator(_checked_path)]
"""A path in a TOML file: `os` raises `ValueError` for a path with a NUL byte."""


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
    """Parse the text of a file; raises `ConfigError`, which names the file."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also valid TOML that is too deep for Python
        raise ConfigError(f"{path} is not TOML: {error}.{_hint(text, str(error))}") from error


def _hint(text: str, error: str) -> str:
    """Return advice for a table that the file has twice, with single brackets; "" for other errors of the parser."""
    place = re.match(r"Cannot .*\(at line (\d+),", error)
    if place is None or not text.split("\n")[int(place[1]) - 1].startswith("["):
        return ""
    return " A table that may stand several times has double brackets, as [[servers]] or [[publish.leaves]]."


T = TypeVar("T", bound=Table)


def has_tables(text: str, expected: dict[str, Any]) -> bool:
    """Whether a text is TOML with exactly these tables: the check of an edit that keeps the operator's text."""
    try:
        return tomllib.loads(text) == expected
    except ValueError:
        return False


def load_table(model: type[T], path: Path) -> T:
    """Read a TOML file as a model; raises `ConfigError`, which names every wrong key."""
    return table_of(model, read_text(path), path)


def table_of(model: type[T], text: str, path: Path) -> T:
    """Parse a text as a model. Raises `ConfigError`, which names `path` and every wrong key."""
    return model_of(model, parse_toml(text, path), path)


def model_of(model: type[T], values: dict[str, Any], path: Path) -> T:
    """Check decoded values as a model. Raises `ConfigError`, which names `path` and every wrong key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [f"{path}: {_sentence(problem)}" for problem in error.errors()]
        raise ConfigError("\n".join(problems)) from error


def _sentence(problem: Any) -> str:
    """Say in one line which key is wrong, and the expected value."""
    key = ""
    for part in problem["loc"]:
        key += f"[{part + 1}]" if isinstance(part, int) else f"{'.' if key else ''}{part}"
    if problem["type"] == "extra_forbidden":
        return f"{key}: no such key; check the spelling, or remove a key that only a newer gf-i2p knows"
    if problem["type"] == "missing":
        return f"{key}: is missing"
    if problem["type"] == "tuple_type" and isinstance(problem["input"], dict):
        return f"{key}: write double brackets, [[{key}]], one such table for each"
    message: str = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:] if message.startswith("Input") else message
    return f"{key}: {message}" if key else message
