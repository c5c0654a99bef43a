"""`gf-i2p doctor`: makes all checks of one node, and shows the findings."""

import argparse
import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Final

from gf_i2p.cli.doctor.checks import Check, Finding, examine, is_well
from gf_i2p.cli.doctor.findings_text import FindingsPage, as_json
from gf_i2p.cli.doctor.node_directory import NodeFiles
from gf_i2p.cli.doctor.peers import PeerChecks
from gf_i2p.cli.doctor.publishing import PublishingChecks, off_without_router
from gf_i2p.cli.doctor.router import RouterChecks
from gf_i2p.cli.doctor.settings import SettingsChecks
from gf_i2p.cli.shared.command import path_argument
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.cli.shared.logs import configure

add_arguments: Final = path_argument("directory", "DIR", "the directory of a node, running or not")


def run(options: argparse.Namespace) -> Exit:
    """Check the node of this directory. Raises `CommandError` when the directory is not a node's."""
    return make(all_checks(options.directory), as_object=options.json)


def make(groups: list[list[Check]], *, as_object: bool, kind: str | None = None) -> Exit:
    """Make these checks and print the findings; `as_object`: as JSON. Return whether a check has failed.

    `kind`: "i2pd" or "java" to print no advice for the other router.
    """
    configure("error", "text")  # a fault is a finding; the logs would say the same again
    output = _Output(groups, as_object=as_object, kind=kind)
    findings = asyncio.run(
        examine([check for group in groups for check in group], output.show_finding, output.show_waiting)
    )
    output.finish(findings)
    return Exit.OK if is_well(findings) else Exit.FAILED


def all_checks(directory: Path) -> list[list[Check]]:
    """List the checks of this node in groups. Each check comes after the checks that it needs.

    When the configuration cannot be read, only the checks of the directory are left. Raises `CommandError` when the
    directory is not a node's.
    """
    files = NodeFiles(directory)
    groups, config, secrets = [files.checks()], files.config, files.secrets
    if config is None:
        return groups
    if config.router is not None:
        router_checks = RouterChecks(config, config.router, secrets)
        groups.append(router_checks.checks() + SettingsChecks(directory, config, config.router, router_checks).checks())
        groups.append(
            PublishingChecks(
                directory, config, config.router, secrets, files=files, router_checks=router_checks
            ).checks()
        )
    else:
        groups.append([Check("publishing", off_without_router)])
    groups.append(PeerChecks(directory, config, secrets, files).checks())
    return groups


class _Output:
    """Prints each finding at once on standard output; with `as_object`, prints all findings at the end, as JSON.

    If standard error is a terminal, that terminal shows the names of the running checks.
    """

    def __init__(self, groups: list[list[Check]], *, as_object: bool, kind: str | None) -> None:
        columns, names = shutil.get_terminal_size().columns, [check.name for group in groups for check in group]
        self._first = {group[0].name for group in groups}
        self._page = FindingsPage(names, columns=columns, colour=sys.stdout.isatty(), kind=kind)
        self._as_object = as_object
        self._progress = sys.stderr.isatty()
        self._shown = False

    def show_finding(self, finding: Finding) -> None:
        self._clear()
        if not self._as_object:
            space = [""] if finding.name in self._first else []
            print("\n".join(space + self._page.finding(finding)), flush=True)

    def show_waiting(self, names: list[str], seconds: float) -> None:
        if self._progress:
            print(f"\r\x1b[K{self._page.waiting(names, seconds)}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def finish(self, findings: list[Finding]) -> None:
        if self._as_object:
            print(json.dumps(as_json(findings), indent=2 if sys.stdout.isatty() else None))
        else:
            print(f"\n{self._page.summary(findings)}")

    def _clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False
