"""The pages of the commands, from the parser of all commands."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Final, NamedTuple

from gf_i2p.cli.main import COMMANDS, all_commands
from integration.reference.markdown import cell, code, table

_GROUPS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "node": (
        "Commands for one node: from its directory to a look into its log.",
        (
            *("init", "run", "status", "top", "console", "explain", "set", "doctor", "router-config", "post"),
            *("entries", "events", "find", "history", "monitoring", "help", "completion", "bridge", "simulate"),
        ),
    ),
    "members": (
        "Commands for those who belong to a farm, servers and leaf members, and for their keys.",
        ("keys", "members", "join", "leaf"),
    ),
    "farm": (
        "Commands for a whole farm: its leaves, its publisher and its parameters, its backup and its rescue.",
        ("leaves", "publisher", "farm", "config", "snapshot", "recover"),
    ),
    "pipeline": ("Jobs that analyse the histories of farms with Spark. They need the extra `spark`.", ("pipeline",)),
}
"""The pages by name: a sentence, and the commands on the page."""


class CommandPage(NamedTuple):
    """One command, without commands below."""

    name: str
    """All its words, as "gf-i2p members add"."""
    about: str
    arguments: list[argparse.Action]

    @property
    def usage(self) -> str:
        """One line: the options in their order, and the arguments."""
        words = [_words(each, usage=True) for each in self.arguments]
        return " ".join((self.name, *words))

    @property
    def node(self) -> str:
        """Whether the command needs a running node, by what its arguments ask for."""
        texts = " ".join(_help(each, self.name) for each in self.arguments if not each.option_strings)
        if re.search(r"\brunning (?:node|server)\b", texts):
            return "running"
        return "stopped" if "must be stopped" in texts else "-"


def page() -> str:
    """Return the list of all commands."""
    parts = [
        """# Commands

Each command is told by what it does, and by whether it needs a node: "running" means that a node must run, "stopped"
that no node may run in the directory. Every command takes `--help` and `--json`; with `--json` the command prints one
JSON object, also for a failure. The [exit codes](exit-codes.md) are the same for all commands. `gf-i2p --version`
prints the version.
"""
    ]
    for group, (about, _) in _GROUPS.items():
        rows = [
            (f"[`{each.name}`](commands-{group}.md#{each.name.replace(' ', '-')})", cell(each.about), each.node)
            for each in _of(group)
        ]
        parts.append(f"## {group.capitalize()}\n\n{about}\n\n{table(('command', 'does', 'node'), rows)}")
    return "\n".join(parts)


def group_pages() -> dict[str, Callable[[], str]]:
    """Return what makes the page of each group, by the group's name."""
    return {name: partial(_group_page, name) for name in _GROUPS}


def _group_page(group: str) -> str:
    about, _ = _GROUPS[group]
    parts = [f"# Commands: {group}\n\n{about} [All commands](commands.md) stand on one page.\n"]
    for each in _of(group):
        needs = {"running": " The node must run.", "stopped": " The node must be stopped."}.get(each.node, "")
        parts.append(f"## {each.name}\n\n{cell(each.about)}{needs}\n\n```text\n{each.usage}\n```\n")
        if each.arguments:
            rows = [(code(_words(action)), cell(_help(action, each.name))) for action in each.arguments]
            parts.append(table(("argument", "meaning"), rows))
    return "\n".join(parts)


def _of(group: str) -> list[CommandPage]:
    first = _GROUPS[group][1]
    return sorted((each for each in _commands() if each.name.split()[1] in first), key=lambda e: _place(e, first))


def _place(command: CommandPage, first: tuple[str, ...]) -> int:
    return first.index(command.name.split()[1])


@cache
def _commands() -> tuple[CommandPage, ...]:
    """Return all commands. Raises `ValueError` for a command that no page has."""
    missing = COMMANDS.keys() - {name for _, names in _GROUPS.values() for name in names}
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))}: add the command to a page in {__name__}")
    return tuple(_below(all_commands(), "gf-i2p", ""))


def _below(parser: argparse.ArgumentParser, name: str, text: str) -> Iterator[CommandPage]:
    """Yield the commands of a parser, or the parser itself as a command."""
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001 -- no other way
    if not groups:
        arguments = [
            each
            for each in parser._actions  # noqa: SLF001 -- as above
            if not isinstance(each, argparse._HelpAction) and each.dest != "json"  # noqa: SLF001 -- as above
        ]
        yield CommandPage(name, parser.description or text, arguments)
        return
    for group in groups:
        for word, command in group.choices.items():
            yield from _below(command, f"{name} {word}", text)


def _words(action: argparse.Action, *, usage: bool = False) -> str:
    """Return an argument as a person types it; `usage`: with brackets if the argument may be left out."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if action.option_strings:
        text = action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {value}"
        if not usage or action.required:
            return text
        return f"[{text}]" + ("..." if isinstance(action, argparse._AppendAction) else "")  # noqa: SLF001 -- as above
    text = str(value)
    if not usage:
        return text
    return {"?": f"[{text}]", "+": f"{text}...", "*": f"[{text}...]"}.get(str(action.nargs), text)


def _help(action: argparse.Action, prog: str) -> str:
    return (action.help or "") % {**vars(action), "prog": prog}
