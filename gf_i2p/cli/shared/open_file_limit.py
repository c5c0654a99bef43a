"""Open files: each connection is one, and a farm may have thousands of members."""

import contextlib
import resource


def raise_limit() -> None:
    """Let this process have as many as its user may; the usual limit, 1,024, is for programs that use select(2)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # then the limit stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
