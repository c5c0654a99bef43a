"""Runs `gf-i2p` with other lengths for shortening the log than the program's own, for tests.

python -m integration.harness.short_log SNAPSHOT_ENTRIES KEPT_ENTRIES run DIRECTORY
"""

import sys

from gf_i2p.cli.main import main
from gf_i2p.node import view


def program(snapshot_entries: int, kept_entries: int) -> tuple[str, ...]:
    """Give the program for `LocalFarm`."""
    return ("-m", "integration.harness.short_log", str(snapshot_entries), str(kept_entries))


if __name__ == "__main__":
    snapshot_entries, kept_entries, *arguments = sys.argv[1:]
    setattr(view, "SNAPSHOT_ENTRIES", int(snapshot_entries))  # noqa: B010 -- a constant for all other code
    setattr(view, "KEPT_ENTRIES", int(kept_entries))  # noqa: B010
    sys.exit(main(arguments))
