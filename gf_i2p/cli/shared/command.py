"""Types and functions for the modules of the commands.

The module of one command has two functions: `add_arguments(parser)` adds the arguments, and `run(options)` runs the
command. The module of a group, such as `gf-i2p keys`, lists the group's commands as `COMMANDS`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from gf_i2p.cli.shared.errors import Exit, result_fields
from gf_i2p.cli.shared.fitting import folded


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a command. The program prints `data` or `text`, and ends with the exit code."""

    data: Mapping[str, Any]
    """The object that `--json` prints, without `result_fields`."""
    text: str
    """The text that is printed without `--json`: one line or several."""
    exit: Exit = Exit.OK
    """With `FAILED`, the text is the error."""
    is_report: bool = False
    """Whether the text is to be read, and not copied from: a terminal may get shortened addresses and broken lines."""
    is_file: bool = False
    """Whether the text is the content of a file: its lines stay as they are."""


def print_answer(answer: Answer, *, as_json: bool) -> Exit:
    """Print the answer; return the exit code. JSON is one line, or indented for a person on a terminal."""
    if as_json:
        fields = result_fields(answer.text if answer.exit is Exit.FAILED else None)
        print(json.dumps({**fields, **answer.data}, indent=2 if sys.stdout.isatty() else None))
    elif answer.is_report and sys.stdout.isatty():
        from gf_i2p.cli.shared import screen  # noqa: PLC0415 -- rich takes 50 ms, which a script need not wait for

        screen.show(answer.text)
    else:
        print(answer.text if answer.is_file else folded(answer.text, sys.stdout))
    return answer.exit


class Command(Protocol):
    """A module that is one command."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments; the parser has `--json` already."""

    def run(self, options: argparse.Namespace) -> Answer | Exit:
        """Run the command; a command that prints while it runs returns only the exit code.

        Raises `CommandError`, and the errors of `gf_i2p.cli.main.operator_errors`.
        """


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A command of a group."""

    help: str
    """Short description of the command."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Answer | Exit]


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Several commands under one word."""

    help: str
    commands: Mapping[str, "Subcommand | CommandGroup"]


Commands: TypeAlias = Mapping[str, Subcommand | CommandGroup]


def add_subcommands(parser: argparse.ArgumentParser, commands: Commands, metavar: str = "COMMAND") -> None:
    """Add the commands of a group. `options.run` is then the function of the named command."""
    words = parser.add_subparsers(required=True, metavar=metavar)
    for name, command in commands.items():
        if isinstance(command, CommandGroup):
            add_subcommands(words.add_parser(name, help=command.help), command.commands)
            continue
        subparser = words.add_parser(name, help=command.help, description=description(command.help))
        add_json(subparser)
        subparser.set_defaults(run=command.run)
        command.add_arguments(subparser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that every command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, also for a failure")


def path_argument(name: str, metavar: str, text: str) -> Callable[[argparse.ArgumentParser], None]:
    """Make a function that adds a path argument to a parser. `text`: the help for this argument."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(name, type=Path, metavar=metavar, help=text)

    return add


def description(text: str) -> str:
    """Turn the short help of a command into a sentence."""
    return f"{text[0].upper()}{text[1:]}."
