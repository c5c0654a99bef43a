"""`gf-i2p snapshot`: saves the farm's state in a file, shows such a file, and begins a farm anew from such a file."""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared import local_client
from gf_i2p.cli.shared.command import Answer, Commands, Subcommand, path_argument
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.meant import no_node_directory
from gf_i2p.cli.shared.terminal import ProgressLine, ask_farm_name, check_farm_name, printable, say_if_slow
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE
from gf_i2p.node.files.start_command import start_command
from gf_i2p.node.recovery.restore import RestorePlan, plan_restoration, restore
from gf_i2p.node.recovery.snapshot_copy import of_stopped, state_of
from gf_i2p.storage.private_files import holder, write_durably
from gf_i2p.storage.snapshot_file import MAGIC, MAX_FILE_BYTES, SavedSnapshot, SnapshotFileError, load_snapshot_file


def save(options: argparse.Namespace) -> Answer:
    """`snapshot save`: write a snapshot of a running or stopped node into a file."""
    directory, path = options.directory, options.file
    if not (directory / CONFIG_FILE).exists():
        raise CommandError(no_node_directory(directory))
    if path.is_dir():
        raise CommandError(f"{path} is a directory: name a file, for example {path / 'farm.snapshot'}")
    if not options.force and (path.exists() or path.is_symlink()):
        raise CommandError(f"{path} exists already: choose another name, or add --force to replace the file")
    running = holder(directory / DATABASE_FILE) is not None
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path.parent} is not a directory: make that directory, or write the file elsewhere")
    leader, last_index = None, 0
    with ProgressLine() as progress:
        if running:
            status = asyncio.run(local_client.request(directory, "GET", "/v1/status"))
            leader, last_index = status["leader"], status["log"]["last_index"]
            data = asyncio.run(_download(directory, progress))
            saved = SavedSnapshot.decode(data)
        else:
            saved = of_stopped(
                directory, on_entry=lambda number, count: progress(f"entry {number} of {count} of the log")
            )
            data = saved.encode()
        progress(f"writing {len(data) >> 20} MiB")
        try:
            write_durably(path, data, force=options.force)
        except FileExistsError as error:
            raise CommandError(f"another program has made {path} meanwhile: choose another name") from error
    text, code = f"wrote {path}\n{_summary_text(saved)}", Exit.OK
    if running and leader is None:
        code = Exit.DEGRADED
        text += (
            f"\nNo leader is known, so later entries may be committed, too; this server has entries up to {last_index}."
            " Save again when the farm has a leader. If no leader ever comes, stop this node and save again."
        )
    return Answer({"file": str(path), "running": running, "leader": leader, **_summary(saved)}, text, code)


async def _download(directory: Path, progress: ProgressLine) -> bytes:
    download = local_client.download(
        directory,
        "/v1/snapshot",
        max_bytes=MAX_FILE_BYTES,
        on_bytes=lambda size: progress(f"{size >> 20} MiB of the snapshot are here"),
    )
    return await say_if_slow(download, lambda: progress("the node makes the snapshot"))


def inspect(options: argparse.Namespace) -> Answer:
    """`snapshot inspect`: describe a snapshot's file."""
    saved = _load(options.file)
    return Answer(
        {"file": str(options.file), "checksum": "ok", **_summary(saved)}, f"{_summary_text(saved)}\nchecksum ok"
    )


def restore_farm(options: argparse.Namespace) -> Answer:
    """`snapshot restore`: begin the farm's log anew from a snapshot's file, with one server."""
    directory = options.directory
    saved = _load(options.file)
    if options.confirm is not None:
        check_farm_name(options.confirm, saved.cluster)
    pid = holder(directory / DATABASE_FILE)
    if pid is not None:
        raise CommandError(f"the node of {directory} runs (process {pid}): stop it first, and all others of the farm")
    planned = plan_restoration(saved, directory)
    if planned.loses and not options.force:
        assert planned.old is not None
        raise CommandError(
            f"the log in {directory} is sound, and goes up to entry {planned.old.last_index}; the snapshot goes to "
            f"{saved.snapshot.index} only: `gf-i2p recover {directory}` makes a farm of one that keeps all entries. "
            "If you want the older state, add --force"
        )
    if options.confirm is None:
        if options.json or not sys.stdin.isatty():
            raise CommandError(
                f"this begins a new farm {saved.cluster}: add --confirm {saved.cluster} when you have read the "
                "text of `gf-i2p snapshot restore` on a terminal",
                code=Exit.USAGE,
            )
        print(_consequences(saved, planned))
        ask_farm_name(saved.cluster)
    restored = restore(saved, directory, on_step=(lambda _: None) if options.json else print)
    return Answer(
        {"backup": str(restored.backup), "index": restored.index, "term": restored.term},
        f"The old files are in {restored.backup}.\n"
        f"Server {planned.server.id} is the farm now: entry {restored.index}, term {restored.term}. Start it:\n"
        f"  {start_command(directory)}\n"
        f"Then take servers in: gf-i2p members invite {directory} ID=ENDPOINT --into DIR\n"
        "These have new certificates and addresses: change each client's file that names the old ones.",
    )


def _load(path: Path) -> SavedSnapshot:
    """Read a snapshot's file, and check its state. Raises `CommandError` for any file that is not a sound snapshot."""
    try:
        saved = load_snapshot_file(path)
        state_of(saved)
    except SnapshotFileError as error:
        code = Exit.FAILED if _is_meant_as_snapshot(path) else Exit.USAGE
        raise CommandError(printable(str(error)), code=code) from error
    except ConfigError as error:
        raise CommandError(f"{path} cannot be used: {printable(str(error))}") from error
    return saved


def _is_meant_as_snapshot(path: Path) -> bool:
    """Whether an unusable file begins as a snapshot does: damaged, of another version, or empty."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return MAGIC.startswith(file.read(len(MAGIC)))


def _summary(saved: SavedSnapshot) -> dict[str, Any]:
    """Describe the snapshot, for `--json`. Times: seconds since the epoch."""
    state, snapshot = state_of(saved), saved.snapshot
    return {
        "cluster": saved.cluster,
        "index": snapshot.index,
        "term": snapshot.term,
        "committed": saved.committed,
        "servers": [{"id": server.id, "endpoint": server.endpoint} for server in snapshot.configuration.servers],
        "records": len(state.records),
        "published": state.last_published_ms / 1000 or None,
        "bytes": len(snapshot.data),
        "saved": saved.saved_ms / 1000,
        "saved_by": saved.server_id,
        "reached_term": saved.reached,
    }


def _summary_text(saved: SavedSnapshot) -> str:
    summary = _summary(saved)
    doubt = (
        ""
        if summary["committed"] == summary["index"]
        else f"; those after {summary['committed']} perhaps never committed"
    )
    servers = "".join(f"\n  {server['id']:>3}  {server['endpoint']}" for server in summary["servers"])
    published = "nothing yet" if summary["published"] is None else f"last at {_time(summary['published'])}"
    return (
        f"farm     {summary['cluster']}, entries up to {summary['index']} of term {summary['term']}{doubt}\n"
        f"saved    {_time(summary['saved'])} by server {summary['saved_by']}, then in term {summary['reached_term']}\n"
        f"state    {summary['records']} status records, {summary['bytes']} bytes\n"
        f"publish  {published}\n"
        f"servers{servers or '  none'}"
    )


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # datetime ends with the year 9999
        return f"{seconds:.0f} s after 1970"


def _consequences(saved: SavedSnapshot, planned: RestorePlan) -> str:
    server, snapshot = planned.server, saved.snapshot
    others = [str(each.id) for each in snapshot.configuration.servers if each.id != server.id]
    old = planned.old
    if old is None:
        log_state = "There is no log here."
    elif old.fault is not None:
        log_state = f"The log here cannot be used: {old.fault}"
    elif old.last_index == 0:
        log_state = "The log here is empty."
    else:
        log_state = f"The log here goes up to entry {old.last_index} of term {old.term}, and will be dropped."
    doubt = ""
    if saved.committed < snapshot.index:
        doubt = (
            f"- The snapshot comes from a stopped server's log: the entries after {saved.committed} were perhaps never "
            "committed, and are part of the farm's state now.\n"
        )
    return (
        f"This begins the farm {saved.cluster} anew, as it was at entry {snapshot.index} on "
        f"{_time(saved.saved_ms / 1000)}, with server {server.id} ({server.endpoint}) alone. {log_state}\n\n"
        f"- Everything after entry {snapshot.index} is forgotten, even acknowledged entries.\n{doubt}"
        f"- Servers {', '.join(others) or '(none)'} and all others of the old farm must never run again with their "
        "present data: there would be two farms of this name. This server forgets the keys and passwords of those "
        "servers, so they cannot log in here; but clients could still find them.\n"
        "- The other servers begin anew: with empty directories, and invited (gf-i2p members invite, accept).\n"
        "- If any server's log is still sound, do not restore: start a majority of the servers, or use `gf-i2p "
        "recover`.\n"
        "- The log goes on in a term far above all that the old farm may have reached.\n"
        "- The present files (log, history, gf-i2p.toml, secrets.toml) are kept in a directory beside this one.\n"
    )


# The commands --------------------------------------------------------------------------------------------------------


def _add_save_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the directory of a node")
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a file from `snapshot save`")
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="the directory of the one server, whose node must be stopped"
    )
    parser.add_argument("--confirm", metavar="FARM", help="the farm's name: the command then does not ask for the name")
    parser.add_argument("--force", action="store_true", help="restore even when the present log has more entries")


COMMANDS: Final[Commands] = {
    "save": Subcommand(
        "write the farm's state into a file, from a running or a stopped node", _add_save_arguments, save
    ),
    "inspect": Subcommand(
        "check and describe a saved snapshot", path_argument("file", "FILE", "a file from `snapshot save`"), inspect
    ),
    "restore": Subcommand(
        "begin the farm anew with one server, when all logs are lost", _add_restore_arguments, restore_farm
    ),
}
