"""`gf-i2p router-config`: prints what a router's own files need for a node, or checks the running router."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gf_i2p.cli.doctor.command import make
from gf_i2p.cli.doctor.node_directory import SECRETS, NodeFiles
from gf_i2p.cli.doctor.router import RouterChecks
from gf_i2p.cli.doctor.router_lines import i2pd_lines, java_lines, java_notes
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.router_settings import RouterTable

_THEN: Final = {
    "i2pd": "then: systemctl restart i2pd; gf-i2p router-config --i2pd",
    "java": "then: i2prouter restart; gf-i2p router-config --java",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--i2pd", dest="kind", action="store_const", const="i2pd", help="the router is an i2pd")
    kind.add_argument("--java", dest="kind", action="store_const", const="java", help="the router is Java I2P")
    parser.add_argument("--check", action="store_true", help="check the interfaces of the running router instead")
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="the directory of a node, whose [router] names the addresses (default: the usual addresses)",
    )


def run(options: argparse.Namespace) -> Answer | Exit:
    """Print the lines, or make the checks. Raises `CommandError` and `ConfigError`."""
    directory: Path | None = options.directory
    config = None if directory is None else Config.load(directory)
    router = RouterTable() if config is None else config.router
    if router is None:
        raise CommandError(f"{directory}: this node has no router: its gf-i2p.toml has no table [router]")
    if options.check:
        return _check(options, config, router.model_copy(update={"kind": options.kind}))
    if options.kind == "i2pd":
        files, notes = i2pd_lines(router), []
    else:
        files, notes = java_lines(router), java_notes(router)
    text = _text(options.kind, files, notes, directory)
    return Answer({"router": options.kind, "files": files, "notes": notes}, text, is_file=True)


def _text(kind: str, files: Mapping[str, list[str]], notes: Sequence[str], directory: Path | None) -> str:
    """Return the lines, ready to be pasted: all other text is a comment."""
    lines = []
    for file, wanted in files.items():
        lines += [f"# {file}", *wanted]
    check = "--check" if directory is None else f"--check {shlex.quote(str(directory))}"
    comments = [*notes, f"{_THEN[kind]} {check}"]
    return "\n".join([*(lines or ["# no line is needed"]), *(f"# {comment}" for comment in comments)])


def _check(options: argparse.Namespace, config: Config | None, router: RouterTable) -> Exit:
    if options.directory is None:
        return make([RouterChecks(None, router, None).checks()], as_object=options.json, kind=options.kind)
    files = NodeFiles(options.directory)
    secrets = [check for check in files.checks() if check.name == SECRETS]
    checks = secrets + RouterChecks(config, router, files.secrets).checks()
    return make([checks], as_object=options.json, kind=options.kind)
