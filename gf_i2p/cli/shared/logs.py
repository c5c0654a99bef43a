"""Structured logs on standard error: lines of text, or one JSON object a line."""

import logging
import sys
from typing import Any, Final

import structlog

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, form: str) -> None:
    """Log messages of `level` and above. A later call replaces the settings of an earlier call.

    `level`: "debug", "info", "warning" or "error". `form`: "text" or "json".
    """
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # Where Rich is installed, the default shows the variables of every frame, also passwords.
        plain = structlog.dev.plain_traceback
        colors = sys.stderr.isatty()
        processors.append(structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, exception_formatter=plain))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(stream=sys.stderr, level=max(_LEVELS[level], logging.WARNING), force=True)
