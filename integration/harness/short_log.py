"""Runs `gf-i2p` with other values of `SNAPSHOT_ENTRIES` and `KEPT_ENTRIES`, for tests that soon shorten the log.

python -m integration.harness.short_log SNAPSHOT_ENTRIES KEPT_ENTRIES run DIRECTORY
"""

import sys

from gf_i2p.cli.main import main
from gf_i2p.node import view


def program(snapshot_entries: int, kept_entries: int) -> tuple[str, ...]:
    """Return the argument `program` of `LocalFarm`."""
    return ("-m", "integration.harness.short_log", str(snapshot_entries), str(kept_entries))


if __name__ == "__main__":
    snapshot_entries, kept_entries, *arguments = sys.argv[1:]
    setattr(view, "SNAPSHOT_ENTRIES", int(snapshot_entries))  # noqa: B010 -- a constant for all other code
    setattr(view, "KEPT_ENTRIES", int(kept_entries))  # noqa: B010
    sys.exit(main(arguments))
