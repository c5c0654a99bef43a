"""Has a node that runs take over its files when a command has changed them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.node.files.layout import DATABASE_FILE
from gf_i2p.storage.private_files import holder

Ask = Callable[..., Any]
"""Asks the node of a directory: directory, method, path, and `seconds` and `body` by name."""
Print = Callable[[Any], None]


def have_it_reloaded(directory: Path, ask: Ask) -> tuple[str, bool | None, list[str]]:
    """Have a node that runs take over its files; return what came of it, for people and programs.

    That is a sentence, whether it has taken them over (None: not known), and what needs a restart. Raises
    `CommandError` when it says that it has not.
    """
    pid = holder(directory / DATABASE_FILE)
    if pid is None:
        return "no node runs here now", False, []
    # Asked, and not signalled: seen from here, the number may be another process's, where the node is in a container.
    try:
        now = ask(directory, "POST", "/v1/reload", body={})
    except CommandError:
        return (
            f"process {pid} holds the log here, and is not a node that answers: if it is one, have it reload (SIGHUP)",
            None,
            [],
        )
    if now["error"] is not None:
        raise CommandError(
            f"accepted, but the running node (process {pid}) has not taken it over: {now['error']}. Mend that, then "
            f"have it reload: kill -HUP {pid}",
            outcome="unknown",
        )
    pending = list(now["needs_restart"])
    restart = f"; a restart is needed for {', '.join(pending)}" if pending else ""
    return f"the running node (process {pid}) has taken it over{restart}", True, pending
