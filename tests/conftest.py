"""Options of the test run."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.tier import is_everything, is_everything_wanted

# Test processes and the processes that they start keep the byte code of the tree. Without byte code each process
# compiles the tree anew: collection alone took 15 CPU seconds per worker, not 6.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The tests that are collected stay until the end. A search for garbage among them took a quarter of the collection.
gc.disable()

# A slow example is no defect on a machine that does other things too. A failing example is printed so
# that somebody can run the example again.
settings.register_profile(
    "project",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if is_everything() else 15,  # of most properties; `examples` would give 25
)
settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what happens now into the scenario files; review the result as a diff",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests to `make test-all`. A test that the command line names (`FILE::TEST`) always runs."""
    if is_everything_wanted(config):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and only in what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _fresh_log_settings() -> Iterator[None]:
    """Undo a command's log settings: the command's standard error is gone with the test.

    Tracebacks are plain: Rich's, the default where it is installed, take longer than some time-outs in tests.
    """
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, renderer])
    yield
    structlog.reset_defaults()
