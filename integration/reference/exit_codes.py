"""The page of the exit codes, from `Exit`."""

from gf_i2p.cli.main import INTERRUPTED
from gf_i2p.cli.shared.errors import Exit
from integration.reference.docstrings import of_fields
from integration.reference.markdown import cell, table


def page() -> str:
    """Return the page."""
    texts = of_fields(Exit)
    rows = [(str(int(code)), code.name.lower(), cell(texts[code.name])) for code in Exit]
    rows.append((str(INTERRUPTED), "interrupted", "Ctrl-C ended the command."))
    return f"""# Exit codes

Every command of `gf-i2p` ends with one of these codes.

{table(("code", "name", "meaning"), rows)}
With `--json` a command prints one object, also for a failure: `ok`, and for a failure `error` and `outcome`. The
outcome is `no` when nothing was changed, and `unknown` when the change may have happened.

With exit code 3, `ok` is true when the command has done its work and shows a fault of the farm, as `status` does
without a majority; `ok` is false when the fault has kept the command from its work, as `post` without a leader.
"""
