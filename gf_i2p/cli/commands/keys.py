"""`gf-i2p keys`: makes the master's key, which stays off all nodes, and each node's delegated keys for publishing."""

import argparse
import stat
import sys
import time
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.argument_types import as_command_error, whole_number
from gf_i2p.cli.shared.command import Answer, CommandGroup, Commands, Subcommand, path_argument
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.meant import no_file
from gf_i2p.cli.shared.router_setup import master_keys
from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.netdb.encoding import from_base64
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import check_not_root
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import CONFIG_FILE, MASTER_FILE
from gf_i2p.node.files.router_settings import check_options
from gf_i2p.node.publish.branch_keys import branch_file, derive
from gf_i2p.node.publish.publishing_keys import MAX_FILE_BYTES, PublishingKeys, Stage, date, load_publishing_keys
from gf_i2p.storage.private_files import write_durably

DEFAULT_DAYS: Final = 90
MAX_DAYS: Final = 365
"""Longest life of a delegated key, in days: nobody can revoke a stolen key before the key's end."""

_FIXED: Final = ("i2cp.leaseSetType", "i2cp.leaseSetEncType")
"""Options that an operator cannot set: the program decides the kind of its lease sets."""
_DAY: Final = 86_400
_STANDARD_INPUT: Final = "-"


# The master ---------------------------------------------------------------------------------------------------------


def new(options: argparse.Namespace) -> Answer:
    """`keys master new`: make the keys of a new master, and write the key file."""
    keys = DestinationKeys.generate()
    _write(options.file, keys.encode())
    return _master_answer(options, keys, [])


def import_(options: argparse.Namespace) -> Answer:
    """`keys master import`: copy a router's private key file, after a check, as the master's key file."""
    source: str = options.source
    notes = []
    if source == _STANDARD_INPUT:
        if sys.stdin.isatty():
            tell("Paste the base64 of the private key file; end it with Enter and Ctrl-D.")
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        name = "standard input"
    else:
        path = Path(source)
        if not path.exists():
            raise CommandError(no_file(path, "check the name"))
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        name = source
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            notes.append(f"{path} can be read by others on this machine: remove the file, or run: chmod 600 {path}")
    notes.append(
        "Before a farm publishes for this address, stop each tunnel or program that uses the same keys: the netDb "
        "has one place for each address."
    )
    keys = _parse_master(data, name)
    _write(options.file, keys.encode())
    return _master_answer(options, keys, notes)


def show(options: argparse.Namespace) -> Answer:
    """`keys master show`: describe a key file, without any secret."""
    keys = _load(options.file)
    now = int(time.time())
    lines = [f"master       {keys.destination.b32}", f"keys         {keys.described(now)}"]
    if keys.server is not None:
        lines.append(f"made for     server {keys.server}")
    lines.append(f"destination  {keys.destination.base64}")
    return Answer({"file": str(options.file), **_public_parts(keys, now), **_destination(keys)}, "\n".join(lines))


def _load(path: Path) -> PublishingKeys:
    """Read a key file that the operator has named. Raises `CommandError`.

    For a missing file nobody is told to make a new master: a new master is another address.
    """
    if not path.exists():
        raise CommandError(no_file(path, "check the name. A new master would be another address"))
    with as_command_error(path):
        return load_publishing_keys(path)


def _parse_master(data: bytes, name: str) -> DestinationKeys:
    """Read a destination's own keys, as bytes or as base64. Raises `CommandError`, also for delegated keys."""
    try:
        if len(data) <= MAX_FILE_BYTES and _is_text(data):
            data = from_base64("".join(data.decode("ascii").split()), MAX_FILE_BYTES)
        keys = PublishingKeys.parse(data)
    except NetDbError as error:
        raise CommandError(
            f"{name} holds no private keys of an I2P destination: {error}. Give a router's private key file (i2pd: "
            "the value of keys = … in tunnels.conf; Java: the tunnel's private key file), or its base64",
            code=Exit.USAGE,
        ) from error
    if keys.delegated:
        raise CommandError(
            f"{name} holds delegated keys of {keys.destination.b32}, and not the master's own keys: give the master's "
            "key file. A file of delegated keys belongs on a node, as the node's key file",
            code=Exit.USAGE,
        )
    return keys.keys


def _is_text(data: bytes) -> bool:
    """Whether the data is base64. Raw key bytes are mostly random, so they are hardly ever plain text."""
    return data.isascii() and not any(byte < 9 for byte in data)


def _master_answer(options: argparse.Namespace, keys: DestinationKeys, notes: list[str]) -> Answer:
    publishing_keys = PublishingKeys(keys)
    lines = [
        f"wrote {options.file}\nmaster {keys.destination.b32}\n",
        *notes,
        (
            "Keep this file away from all nodes, and a copy in another safe place: a person with this file controls "
            "the service, and without the file the address is lost. Next, for each server of the farm:\n"
            f"  gf-i2p keys delegate {options.file} --server ID"
        ),
    ]
    described = _public_parts(publishing_keys, int(time.time()))
    return Answer(
        {"file": str(options.file), "notes": notes, **described, **_destination(publishing_keys)}, "\n".join(lines)
    )


# A node's keys -------------------------------------------------------------------------------------------------------


def delegate(options: argparse.Namespace) -> Answer:
    """`keys delegate`: make the keys that a node needs to publish, signed by the master's own key."""
    master = _load(options.master)
    if master.delegated:
        raise CommandError(
            f"{options.master} holds delegated keys, and delegated keys cannot authorise further keys: run this "
            "command with the master's own key file",
            code=Exit.USAGE,
        )
    server, days = options.server, options.days
    now = int(time.time())
    ends = now + days * _DAY
    path = options.out if options.out is not None else Path(f"publish-server-{server}.keys")
    try:
        keys = PublishingKeys.delegate(master.keys, ends, now, server=server, service=dict(options.options))
    except NetDbError as error:
        raise CommandError(f"nothing was made with these options: {error}", code=Exit.USAGE) from error
    branches = _branches(master.keys, path) if options.branches else []
    _write(path, keys.encode())
    is_there = (path.parent / CONFIG_FILE).exists()
    text = (
        f"wrote {path}\nWith this file server {server} can publish for {keys.destination.b32} until {date(ends)} "
        f"({days} day{'s'[: days > 1]}).\n\n"
    )
    if not is_there:
        text += (
            "Copy the file to that server only, over a secure channel. Put the file there by a rename, so that the "
            "node never reads a part of the file:\n"
            f"  scp -p {path} HOST:DIR/new.keys && ssh HOST mv DIR/new.keys DIR/{MASTER_FILE}\n"
        )
    text += (
        f"[publish] keys names the file's place ({MASTER_FILE} by default); the mode is 0600. "
        "A node that already publishes for this master uses the new file within seconds; another node needs "
        f'mode = "meta" or "failover" in [publish], and a start.{"" if is_there else " Then remove the file here."}\n\n'
        "i2pd refuses a session config that a delegated key has signed. So this file has a session config that the "
        "master has signed, and with i2pd the node uses that config. With a Java router the node signs a new config.\n"
        f"Nobody can revoke a stolen file before {date(ends)}. `gf-i2p keys status DIR` says when a new file is due."
    )
    if branches:
        text += (
            f"\n\nwrote {branches[0]} to {branches[-1].name}, the keys of the sets below the first set. Copy these "
            f"files to each server that has a delegated key, beside its {MASTER_FILE}. Branch keys do not end: a "
            "thief of these keys can sign such a set for ever."
        )
    return Answer({"file": str(path), "branches": [str(each) for each in branches], **_public_parts(keys, now)}, text)


def _branches(master: DestinationKeys, beside: Path) -> list[Path]:
    """Write the missing key files of branches beside a key file; return the paths of all branches' key files.

    Raises `CommandError`, also when a file has other keys.
    """
    paths = []
    for number in range(BRANCHES):
        path, data = branch_file(beside, number), derive(master, number).encode()
        if not path.exists() or path.read_bytes() != data:
            _write(path, data)
        paths.append(path)
    return paths


def status(options: argparse.Namespace) -> Answer:
    """`keys status`: describe the publishing keys of a node, and when these keys end."""
    directory, now = options.directory, int(time.time())
    config = Config.load(directory)
    path, mode = directory / config.publish.keys, config.publish.mode
    if mode == "off" and not path.exists():
        text = 'publishing   off ([publish] mode = "off"), and there is no key file'
        return Answer({"mode": mode, "file": None, "due": False}, text)
    keys = master_keys(directory, config) or load_publishing_keys(path)
    kind = "auto" if config.router is None else config.router.kind
    objection, stage = keys.objection(kind), keys.stage(now)
    due = objection is not None or stage in {Stage.ENDING, Stage.ENDED}
    foreign = keys.server not in {None, config.node.id}
    lines = [
        f"publishing   {mode}\nfile         {path}\nmaster       {keys.destination.b32}",
        f"keys         {keys.described(now)}",
    ]
    if keys.server is not None:
        mismatch = f", and this is server {config.node.id}" if foreign else ""
        lines.append(f"made for     server {keys.server}{mismatch}")
    lines.append(f"router       {_router_text(keys, kind)}")
    if due:
        headlines = {
            Stage.ENDED: "ENDED: the node publishes nothing with these keys",
            Stage.ENDING: "The keys end soon",
        }
        lines.append(
            f"\n{headlines.get(stage, 'The keys do not fit')}. On the machine with the master's own key, run\n"
            f"  gf-i2p keys delegate MASTERFILE --server {config.node.id}\n"
            f"and put the new file in the place of {path}."
        )
    acceptance = {"router": kind, "objection": objection, "due": due}
    data = {"mode": mode, "file": str(path), **_public_parts(keys, now), **acceptance}
    return Answer(data, "\n".join(lines), Exit.DEGRADED if due else Exit.OK)


def _router_text(keys: PublishingKeys, kind: str) -> str:
    """Say whether the node's router opens sessions with the keys."""
    objection = keys.objection(kind)
    if objection is not None:
        return f"{kind}: {objection}"
    if kind != "auto":
        return f"{kind}: the router opens sessions with these keys"
    only_java = keys.objection("i2pd") is not None
    return "kind not configured: " + (
        "a Java router accepts these keys, and an i2pd does not (see `gf-i2p keys delegate`)"
        if only_java
        else "i2pd and Java open sessions with these keys"
    )


def _public_parts(keys: PublishingKeys, now: int) -> dict[str, Any]:
    """Return the public parts of the keys, for `--json`.

    Times are in seconds since the epoch; None stands for a time that is unknown, and for keys that never end.
    """
    return {
        "master": keys.destination.b32,
        "delegated": keys.delegated,
        "server": keys.server,
        "made": keys.delegated_at,
        "ends": keys.ends,
        "seconds_left": None if keys.ends is None else max(keys.ends - now, 0),
        "stage": str(keys.stage(now)),
        "routers": [kind for kind in ("i2pd", "java") if keys.objection(kind) is None],
    }


def _destination(keys: PublishingKeys) -> dict[str, str]:
    return {"destination": keys.destination.base64}


def _write(path: Path, data: bytes) -> None:
    """Write a new secret file. Raises `CommandError`, also when the file exists."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory: name a file in that directory", code=Exit.USAGE)
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path.parent} is not a directory: make that directory, or write the file elsewhere")
    check_not_root(path.parent)
    try:
        write_durably(path, data, force=False)
    except FileExistsError as error:
        raise CommandError(
            f"{path} exists already, and keys are not overwritten: choose another name, or move the file away"
        ) from error


# The commands --------------------------------------------------------------------------------------------------------


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a router's private key file, or its base64 (SAM's PRIV); - is standard input"
    )
    parser.add_argument(
        "--out",
        dest="file",
        type=Path,
        default=Path(MASTER_FILE),
        metavar="FILE",
        help=f"a new file, written with mode 0600; no file is overwritten (default: {MASTER_FILE})",
    )


def _add_delegate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("master", type=Path, metavar="MASTERFILE", help="the master's own key file")
    parser.add_argument(
        "--server",
        type=whole_number(FIRST_LEAF_MEMBER_ID - 1, low=0),
        required=True,
        metavar="ID",
        help="the server that gets the key",
    )
    parser.add_argument(
        "--days",
        type=whole_number(MAX_DAYS),
        default=DEFAULT_DAYS,
        metavar="D",
        help=f"days until the key ends (default: {DEFAULT_DAYS}, up to {MAX_DAYS})",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="a new file, written with mode 0600 (default: publish-server-ID.keys)"
    )
    parser.add_argument(
        "--option",
        dest="options",
        type=_option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="tunnel option for mode failover beside an i2pd, as inbound.length=2: the master signs the option; "
        "repeatable. Beside a Java router, [publish.service.session] in the server's settings counts instead",
    )
    parser.add_argument(
        "--branches",
        action="store_true",
        help="also write branch-0.dat to branch-15.dat beside the key, for more leaves than one set has room for "
        "(farm set tree=tree); all servers share these keys, and these keys do not end",
    )


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    try:
        check_options({name: value})
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not equals or name in _FIXED:
        raise argparse.ArgumentTypeError(f"{name} cannot be chosen" if equals else f"{text[:80]!r} is no NAME=VALUE")
    return name, value


COMMANDS: Final[Commands] = {
    "master": CommandGroup(
        "the master's own key",
        {
            "new": Subcommand(
                "make a new master destination",
                path_argument("file", "FILE", "a new file, written with mode 0600; no file is overwritten"),
                new,
            ),
            "import": Subcommand(
                "make a router's destination the master: import the destination's private keys",
                _add_import_arguments,
                import_,
            ),
            "show": Subcommand(
                "show the public parts of a key file",
                path_argument("file", "FILE", "the key file of a master or of a node"),
                show,
            ),
        },
    ),
    "delegate": Subcommand(
        "make the key with which one server publishes for the master until a date", _add_delegate_arguments, delegate
    ),
    "status": Subcommand(
        "show with which keys a node publishes, and until when",
        path_argument("directory", "DIR", "the directory of a node"),
        status,
    ),
}
