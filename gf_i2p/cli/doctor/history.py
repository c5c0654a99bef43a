"""The check of a node's exported history: owner, privacy, progress, and room on the disk."""

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.doctor.checks import CheckResult, Remedy, fail, ok, warn
from gf_i2p.node.disk_use import MAKE_ROOM
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import HISTORY_DIRECTORY
from gf_i2p.storage.history_reader import HistoryError, history_files
from gf_i2p.storage.history_writer import check_owner

HISTORY: Final = "history"
MOST_BEHIND: Final = 1_000
"""Most committed entries that may wait for export without a warning: the work of some seconds."""
MOST_USED: Final = 0.8
"""Share of the disk budget, 0 to 1, from which on there is a warning."""
LEAST_FREE_BYTES: Final = 256 << 20
_AT_LAST: Final = "the node stops as soon as its log needs more room"
"""The log has some MiB of its own on the disk, so a node goes on for a while after the disk is full."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


async def look_at_history(directory: Path, config: Config, status: Mapping[str, Any] | None) -> CheckResult:
    """Check the history of a node's directory without reading its records. `status`: None when no node runs."""
    history = directory / HISTORY_DIRECTORY
    if status is not None and status["history"] is None:
        return warn(
            "the node runs without a history",
            Remedy.either("Restart the node: history.enabled has changed since the start."),
        )
    if not history.is_dir():
        if status is None:
            return ok("there is no history yet: it begins when the node runs")
        return fail(f"there is no {HISTORY_DIRECTORY}/", Remedy.either("Restart the node: it makes the directory."))
    try:
        result = await asyncio.to_thread(_fault, history, config)
    except HistoryError as error:
        fault, _, advice = str(error).partition(". ")
        return fail(fault, Remedy.either(advice))
    except OSError as error:
        return fail(f"the history cannot be read: {error}", Remedy.either("Run doctor as the user that runs the node."))
    result = result or _told_trouble(status, history) or _little_room(history)
    if result is not None:
        return result
    files = history_files(history)
    text = f"{len(files)} files from entry {files[0].first} on" if files else "no files yet"
    if status is None:
        return ok(text)
    exported, lag = status["history"]["exported"], status["history"].get("lag", 0)  # an older node tells no lag
    if lag > MOST_BEHIND:
        return warn(
            f"{lag} committed entries are not exported yet, so the log still keeps them",
            Remedy.either(
                "Wait some seconds and run doctor again; if the export does not catch up, see the node's output."
            ),
        )
    disk = status.get("disk")
    if disk is not None and disk["budget"]:
        use = f"log and history use {disk['used'] >> 20} of {disk['budget'] >> 20} MiB"
        if disk["used"] >= MOST_USED * disk["budget"] and config.history.when_full == "refuse":
            return warn(f"{use}; at the limit, clients' posts are refused", Remedy.either(MAKE_ROOM))
        text = f"{text}, {use}"
    return ok(f"{text}, exported up to {exported}")


def _fault(history: Path, config: Config) -> CheckResult | None:
    check_owner(history, cluster=config.node.cluster, server_id=config.node.id)
    files = [path for file in history_files(history)[-2:] for path in (file.plain, file.packed) if path.exists()]
    open_to_others = [path for path in (history, *files) if stat.S_IMODE(path.stat().st_mode) & _OTHERS]
    if open_to_others:
        return fail(
            f"others on this machine can read {', '.join(path.name for path in open_to_others)}",
            Remedy.either(f"chmod -R go= {history}"),
        )
    return None


def _told_trouble(status: Mapping[str, Any] | None, history: Path) -> CheckResult | None:
    """Return the trouble with the history that the running node tells; an older node tells none here."""
    if status is None or (trouble := status["history"].get("trouble")) is None:
        return None
    free = _free_bytes(history)
    if not status["history"]["paused"]:
        text = "the history goes on with a fault"
    elif free < LEAST_FREE_BYTES:
        text = f"the history is paused, and {free >> 20} MiB are free: {_AT_LAST}"
    else:
        text = "the history is paused, and the node goes on"
    return fail(text, Remedy.either(f"{trouble[0].upper()}{trouble[1:]}"))


def _little_room(history: Path) -> CheckResult | None:
    free = _free_bytes(history)
    remedy = Remedy.either("Make room, or set history.keep_days so that old files are removed.")
    if not free:
        return fail(f"the disk is full: the history pauses, and {_AT_LAST}", remedy)
    if free < LEAST_FREE_BYTES:
        return warn(
            f"{free >> 20} MiB are free for the history; when the disk is full, the history pauses, and {_AT_LAST}",
            remedy,
        )
    return None


def _free_bytes(history: Path) -> int:
    """Return the bytes that the node may still use, whoever runs doctor: only root may use a disk's last blocks."""
    disk = os.statvfs(history)
    return disk.f_frsize * (disk.f_bavail if _owner(history) else disk.f_bfree)


def _owner(path: Path) -> int:
    return path.stat().st_uid
