"""Runs `gf-i2p` with another value of `ENTRY_SECONDS`, for runs that wait for the end of a published set.

python -m integration.harness.short_sets ENTRY_SECONDS run DIRECTORY
"""

import sys

from gf_i2p.cli.main import main
from gf_i2p.node.publish import branches


def program(entry_seconds: int) -> tuple[str, ...]:
    """Return the argument `program` of `LocalFarm`. `entry_seconds`: life of an entry, and so of a set."""
    return ("-m", "integration.harness.short_sets", str(entry_seconds))


if __name__ == "__main__":
    entry_seconds, *arguments = sys.argv[1:]
    setattr(branches, "ENTRY_SECONDS", int(entry_seconds))  # noqa: B010 -- a constant for all other code
    sys.exit(main(arguments))
