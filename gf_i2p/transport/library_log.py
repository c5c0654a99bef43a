"""Loggers of the classes that another program may import: such a program's standard output belongs to the program."""

import logging
import sys
from typing import Any

import structlog


def library_logger(name: str) -> Any:
    """Return a logger that obeys the program's own configuration of structlog.

    Without such a configuration, structlog would print each message on standard output. Then the logger writes warnings
    and errors to standard error. The configuration of the importing program is not changed.
    """
    if structlog.is_configured():
        return structlog.get_logger(name)
    only_faults = structlog.make_filtering_bound_logger(logging.WARNING)
    return structlog.wrap_logger(structlog.PrintLogger(sys.stderr), wrapper_class=only_faults)
