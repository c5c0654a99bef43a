"""`gf-i2p`: the command line. With `--json`, every command prints JSON, also when the command fails."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from gf_i2p import __version__
from gf_i2p.cli.shared.command import Answer, add_json, add_subcommands, description, print_answer
from gf_i2p.cli.shared.disk_faults import disk_fault
from gf_i2p.cli.shared.errors import CommandError, Exit, result_fields
from gf_i2p.cli.shared.file_owner import other_owner
from gf_i2p.cli.shared.fitting import tell


class CommandEntry(NamedTuple):
    """One command of `gf-i2p`: its short help, and the module that runs the command."""

    help: str
    module: str
    """The module of the command, imported only when the command is named: so other commands start sooner."""
    long_running: bool = False
    """Whether the module has a command that runs until a stop. SIGHUP does not end such a command."""


INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as of a shell's own commands."""
_COMMANDS: Final = "gf_i2p.cli.commands"
_ADMINISTRATION: Final = "gf_i2p.cli.administration"
COMMANDS: Final = {
    "init": CommandEntry("make the directories of a new farm", f"{_COMMANDS}.init"),
    "run": CommandEntry(
        "run the node of a directory, or of several, in the foreground", f"{_COMMANDS}.run", long_running=True
    ),
    "status": CommandEntry("show what a running node knows", f"{_COMMANDS}.status"),
    "top": CommandEntry("show the state of a running node, again and again", f"{_COMMANDS}.top"),
    "console": CommandEntry("show a farm in the browser, and make changes there", f"{_COMMANDS}.console"),
    "explain": CommandEntry(
        "explain the farm's choice of publisher and leaves, as a running node sees it", f"{_COMMANDS}.explain"
    ),
    "set": CommandEntry(
        "change settings of a node; a running node takes over what needs no restart", f"{_COMMANDS}.set"
    ),
    "doctor": CommandEntry(
        "check a node, its router and its peers, and say how to mend each fault", "gf_i2p.cli.doctor.command"
    ),
    "router-config": CommandEntry(
        "print the fewest lines that a router's own files need, or check the running router",
        "gf_i2p.cli.doctor.router_config",
    ),
    "keys": CommandEntry("make and show the master's keys, and delegated keys for each node", f"{_COMMANDS}.keys"),
    "members": CommandEntry(
        "show, add and remove the servers and leaf members of a running farm", "gf_i2p.cli.membership.members"
    ),
    "join": CommandEntry(
        "bring a new server into a farm, by a code from `members invite --code`", "gf_i2p.cli.membership.join"
    ),
    "pipeline": CommandEntry("analyse the histories of farms with Spark", "gf_i2p.cli.pipeline.jobs"),
    "leaf": CommandEntry(
        "run a leaf member, which reports a router's leaf to the farm and has no vote",
        f"{_COMMANDS}.leaf",
        long_running=True,
    ),
    "leaves": CommandEntry(
        "show and set which leaves the farm publishes, and at what cost", f"{_ADMINISTRATION}.leaves"
    ),
    "publisher": CommandEntry(
        "show or choose the publisher; drain a server before you stop the server for a while",
        f"{_ADMINISTRATION}.publisher",
    ),
    "farm": CommandEntry(
        "show and set the parameters of the whole farm; show the administrators' changes", f"{_ADMINISTRATION}.farm"
    ),
    "config": CommandEntry(
        "export a farm's configuration to a file, compare the two, and import it", f"{_ADMINISTRATION}.config"
    ),
    "post": CommandEntry(
        "append entries to the farm's log; returns when the entries are committed", f"{_COMMANDS}.post"
    ),
    "entries": CommandEntry("show committed entries", f"{_COMMANDS}.entries"),
    "events": CommandEntry("show what has happened in the farm, as sentences", f"{_COMMANDS}.events"),
    "find": CommandEntry(
        "find a farm's servers and its leader with a client's file, from any machine", f"{_COMMANDS}.find"
    ),
    "snapshot": CommandEntry(
        "save the farm's state in a file, and begin a farm anew from such a file", f"{_COMMANDS}.snapshot"
    ),
    "recover": CommandEntry("make a farm of one server when the majority is lost for good", f"{_COMMANDS}.recover"),
    "history": CommandEntry("check the exported entries of a node", f"{_COMMANDS}.history"),
    "monitoring": CommandEntry(
        "print alert rules and a dashboard for the figures of `[monitoring] listen`", f"{_COMMANDS}.monitoring"
    ),
    "help": CommandEntry("show a page of the documentation, or list the pages", f"{_COMMANDS}.help"),
    "completion": CommandEntry(
        "print a script by which a shell completes commands and options", f"{_COMMANDS}.completion"
    ),
    "bridge": CommandEntry(
        "serve the router beside a node to other programs", f"{_COMMANDS}.bridge", long_running=True
    ),
    "simulate": CommandEntry(
        "simulate whole farms with faults, and check that no invariant is violated", f"{_COMMANDS}.simulate"
    ),
}


def operator_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors that an operator can mend. The texts of these errors are for the operator."""
    from gf_i2p.node.files.checked_read import ConfigError
    from gf_i2p.storage.errors import StorageError
    from gf_i2p.transport.errors import TransportError

    return ConfigError, StorageError, TransportError, OSError


class _Parser(argparse.ArgumentParser):
    """Reports wrong arguments as JSON when `--json` is among them."""

    json = False

    def error(self, message: str) -> NoReturn:
        from gf_i2p.cli.shared.meant import with_known_command

        message = with_known_command(message, self.prog)
        if _Parser.json:
            print(json.dumps(result_fields(message)))
            self.exit(Exit.USAGE)
        self.print_usage(sys.stderr)
        tell(f"{self.prog}: error: {message}")
        self.exit(Exit.USAGE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code (`Exit`)."""
    words = sys.argv[1:] if arguments is None else arguments
    _open_closed_streams()
    try:
        try:
            return _run_one(words)
        finally:
            sys.stdout.flush()
    except OSError as error:  # of standard output only: `_run` tells the errors of a command
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # then the reader of the output wants no more
            tell(
                f"gf-i2p: the output cannot be written ({error.strerror}). The command may have done its work: look "
                "before you repeat it"
            )
        return Exit.FAILED


def _run_one(words: Sequence[str]) -> int:
    _Parser.json = "--json" in words
    try:
        options = _parse(words)
        return _run(options)
    except KeyboardInterrupt:
        if _Parser.json:
            print(json.dumps(result_fields("Ctrl-C ended the command", "unknown")))
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    try:
        answer: Answer | Exit = options.run(options)
    except CommandError as error:
        return _fail(options, str(error), error.code, error.outcome)
    except BrokenPipeError:
        raise
    except operator_errors() as error:
        return _fail(options, _sentence(error), Exit.FAILED, "no")
    return int(print_answer(answer, as_json=options.json) if isinstance(answer, Answer) else answer)


def _open_closed_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed (`>&-`).

    Otherwise the next file that is opened would get the stream's descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 -- open until the process ends


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words. Accept also an optional argument behind an option, as in `post DIR --json TEXT`.

    argparse alone rejects such an argument.
    """
    parser = _parser(words)
    options, extras = parser.parse_known_args(words)
    if len(extras) == 1 and not extras[0].startswith("-") and getattr(options, "value", "") is None:
        options.value = extras[0]
    elif extras:
        parser.error(f"unrecognized arguments: {' '.join(extras)}")
    return options


def _sentence(error: Exception) -> str:
    from gf_i2p.cli.shared.meant import no_node_directory
    from gf_i2p.node.files.checked_read import NoNodeDirectoryError

    if isinstance(error, NoNodeDirectoryError):
        return no_node_directory(error.directory)
    if not isinstance(error, OSError):
        return str(error)
    if (fault := disk_fault(error)) is not None:
        return fault
    if error.filename is None:
        return str(error)
    told = f"{error.filename}: {error.strerror}."
    if isinstance(error, PermissionError) and (owner := other_owner(Path(error.filename), os.geteuid())):
        return f"{told} {owner}"
    return f"{told} Check the path, and that the user that runs this command owns the file and has free space."


def _fail(options: argparse.Namespace, text: str, code: Exit, outcome: str) -> int:
    if options.json:
        print(json.dumps(result_fields(text, outcome)))
    else:
        tell(f"gf-i2p: {text}")
    return int(code)


def _parser(words: Sequence[str], *, everything: bool = False) -> argparse.ArgumentParser:
    """Make a parser that knows the names of all commands, and the arguments of the command that `words` names.

    `everything`: the arguments of all commands, whatever `words` names.
    """
    parser = _Parser(
        prog="gf-i2p",
        description="A Garlic Farm node: the routers of one I2P service agree on live servers and on the publisher.",
        epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 a fault of the farm: no leader, no quorum, a removed server, "
        "late records, or keys that end soon; 130 after Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=f"gf-i2p {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command_name = next((word for word in words if not word.startswith("-")), None)
    for name, entry in COMMANDS.items():
        command = commands.add_parser(name, help=entry.help)
        if everything or name == command_name:
            _add(command, entry)
    return parser


def all_commands() -> argparse.ArgumentParser:
    """Make a parser that knows all commands with their arguments, to be described."""
    handler = signal.getsignal(signal.SIGHUP)
    try:
        return _parser((), everything=True)
    finally:
        signal.signal(signal.SIGHUP, handler)


def _add(parser: argparse.ArgumentParser, entry: CommandEntry) -> None:
    if entry.long_running:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # by default SIGHUP ends the process; `run` sets a handler later
    module = import_module(entry.module)
    if hasattr(module, "COMMANDS"):
        add_subcommands(parser, module.COMMANDS, getattr(module, "METAVAR", "COMMAND"))
        return
    parser.description = description(entry.help)
    add_json(parser)
    parser.set_defaults(run=module.run, all_commands=all_commands)
    module.add_arguments(parser)


if __name__ == "__main__":
    sys.exit(main())
