"""The hours of a test whose rows are among `with_rows` of its module."""

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.health.hours_of_tests import Hours, HoursOfTests


@pytest.fixture(scope="module")
def hours_by_test(request: pytest.FixtureRequest, spark: SparkSession) -> dict[str, Hours]:
    with_rows: HoursOfTests = request.module.with_rows
    return with_rows.by_test(spark)


@pytest.fixture
def hours(request: pytest.FixtureRequest, hours_by_test: dict[str, Hours]) -> Hours:
    """Give the hours that the test's own rows make."""
    return hours_by_test[request.function.__name__]
