"""Options of the test run."""

import pytest
from hypothesis import HealthCheck, settings

# A slow example is no defect on a machine that does other things too. What fails is printed so that it can be
# run again.
settings.register_profile("project", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what happens now into the scenario files; review the result as a diff",
    )
