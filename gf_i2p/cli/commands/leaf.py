"""`gf-i2p leaf`: runs a leaf member beside its router, in the foreground, and shows its state."""

import argparse
import asyncio
import contextlib
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog

from bridges.i2cp.publisher import I2cpPublisher
from bridges.router import LocalRouter
from gf_i2p.cli.shared.argument_types import as_command_error
from gf_i2p.cli.shared.command import Answer, Commands, Subcommand, path_argument
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.long_running import stop_signal
from gf_i2p.cli.shared.router_setup import check_logins, i2cp_settings, i2pcontrol, leaf_liveness, names_of, sam
from gf_i2p.cli.shared.terminal import printable
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.leaf_file import REPORT_FILE, LeafFile
from gf_i2p.node.files.start_command import leaf_start_command
from gf_i2p.node.membership.leaf_member import INTERVAL_SECONDS, LeafMember, LeafMemberReport, patient
from gf_i2p.node.report.local_leaf import local_leaves
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.private_files import Lock, holder, write_private
from gf_i2p.transport.event_loop import loop_factory

logger = structlog.get_logger()

LATE_SECONDS: Final = 3 * INTERVAL_SECONDS
"""Seconds after which a member's last record is too old: the farm drops the leaf, or will soon."""
_CLOSE_SECONDS: Final = 5.0


def _run(path: Path) -> Exit:
    """`leaf run`: run the leaf member until a stop. Raises `CommandError` when the member runs already."""
    file_path = LeafFile.find(path)
    with as_command_error(file_path):
        file = LeafFile.load(file_path)
        check_logins(file.router, file)
    configure(file.logging.level, file.logging.format)
    report = file_path.with_name(REPORT_FILE)
    try:
        lock = Lock(report)
    except StorageError as error:
        raise CommandError(
            f"this member runs already (process {holder(report)}), or {report.parent} cannot be written: stop that "
            "process, or give this member a directory of its own"
        ) from error
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_serve(file, report))
    finally:
        lock.close()


async def _serve(file: LeafFile, report: Path) -> Exit:
    stopped, _ = stop_signal()
    bridge = _router_bridge(file)
    async with file.open(backoff=patient) as client:
        member = LeafMember(
            file.id,
            file.cluster,
            client,
            bridge,
            look_seconds=file.publish.status_seconds,
            tell=lambda each: _write(report, each),
            why=lambda: client.waits_for,
            local_leaves=local_leaves(file.publish),
        )
        _write(report, member.report)
        task = asyncio.get_running_loop().create_task(member.run(), name="leaf member")
        logger.info("started", cluster=file.cluster, member=file.id)
        try:
            tasks: list[asyncio.Future[Any]] = [task, stopped]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task  # the task ends only by a defect
        finally:
            task.cancel()
            await asyncio.wait([task])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await bridge.close()
    logger.info("stopped", member=file.id)
    return Exit.OK


def _router_bridge(file: LeafFile) -> LocalRouter:
    """Make the access to the member's router. Raises `ConfigError`."""
    router = file.router
    settings = i2cp_settings(router, file)
    control = i2pcontrol(router, file)
    leaves = names_of(file.publish)
    return LocalRouter(
        sam(router, file),
        I2cpPublisher(settings),
        settings,
        control,
        leaves,
        liveness=leaf_liveness(leaves, router, settings),
    )


def _write(path: Path, report: LeafMemberReport) -> None:
    """Replace the last report by a rename: a reader gets a whole report. A full disk does not end the member."""
    draft = path.with_name(f"{path.name}-new")
    try:
        draft.unlink(missing_ok=True)
        write_private(draft, json.dumps(report.encode()) + "\n")
        draft.replace(path)
    except OSError as error:
        logger.warning("the report cannot be written", file=str(path), reason=error.strerror)


def status(options: argparse.Namespace) -> Answer:
    """`leaf status`: show the state of a running leaf member."""
    path = LeafFile.find(options.directory).with_name(REPORT_FILE)
    running = holder(path) is not None
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        start = leaf_start_command(options.directory)
        raise CommandError(f"the member has never run here. Start it: {start}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Start the member anew.") from error
    age = None if report["committed"] is None else max(time.time() - report["committed"] / 1000, 0.0)
    report.setdefault("troubles", [])  # the report of an older version
    is_heard = running and age is not None and age <= LATE_SECONDS
    leaves_are_up = not report["troubles"] and all(up for _, up, *_ in report["leaves"])
    healthy = is_heard and report["router"] == "up" and leaves_are_up
    return Answer(
        {"running": running, "healthy": healthy, "age": age, **report},
        "\n".join(_status_lines(report, age, options.directory, running=running)),
        Exit.OK if healthy else Exit.DEGRADED,
    )


def _status_lines(report: dict[str, Any], age: float | None, directory: Path, *, running: bool) -> list[str]:
    lines = [f"member   {report['id']} of {report['cluster']}"]
    if not running:
        lines.append(f"         does not run. Start it: {leaf_start_command(directory)}")
    committed = "nothing yet"
    if age is not None:
        late = "; the farm does not list the leaf any more, or will drop it soon" if age > LATE_SECONDS else ""
        ago = timedelta(seconds=int(age))
        committed = f"committed {ago} ago at index {report['index']}, {report['posted']} in all{late}"
    lines.append(f"record   {committed}")
    if running and age is None and report["error"] is None:
        lines.append("         the first record is on its way to the farm: ask again in some seconds")
    if report["error"] is not None:
        lines.append(f"trouble  {printable(report['error'])}")
    lines.append(f"router   {'not known yet' if report['router'] is None else printable(report['router'])}")
    width = max((len(address) for address, *_ in report["leaves"]), default=0)
    for address, up, *why in report["leaves"]:
        state = "up" if up else ": ".join(["down", *why])
        lines.append(f"leaf     {printable(address.ljust(width))}  {printable(state)}")
    lines += [f"trouble  {printable(trouble)}" for trouble in report["troubles"]]
    if not report["leaves"] and not report["troubles"]:
        lines.append("leaf     none: set [publish] leaf in leaf.toml")
    return lines


# The commands --------------------------------------------------------------------------------------------------------


_add_directory_argument: Final = path_argument(
    "directory", "DIR|FILE", "leaf-ID/, from `members invite-leaf`, or its leaf.toml"
)

COMMANDS: Final[Commands] = {
    "run": Subcommand(
        "report the leaves beside this router to the farm, in the foreground",
        _add_directory_argument,
        lambda options: _run(options.directory),
    ),
    "status": Subcommand("show the state of a leaf member on this machine", _add_directory_argument, status),
}
