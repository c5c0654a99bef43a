"""How Spark is reached. Spark itself is not started here."""

from pathlib import Path

import pytest

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.session import SessionOptions, own_settings, start


@pytest.mark.parametrize("master", [None, "local", "local[2]", "local[*]"])
def test_a_spark_of_this_machine_listens_on_loopback_only(master: str | None) -> None:
    made = own_settings(SessionOptions(master, memory_mb=1024, scratch=Path("/big")))
    assert made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.driver.host"] == "localhost"
    assert made["spark.driver.memory"] == "1024m"
    assert made["spark.local.dir"] == "/big"


@pytest.mark.parametrize("master", ["spark://192.0.2.1:7077", "yarn", "k8s://https://192.0.2.1:6443"])
def test_the_executors_of_a_cluster_can_call_the_driver(master: str) -> None:
    made = own_settings(SessionOptions(master))
    assert "spark.driver.host" not in made
    assert "spark.driver.bindAddress" not in made
    assert "spark.local.dir" not in made


def test_under_spark_submit_a_master_of_ours_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(PipelineError, match="leave ours out"):
        start(SessionOptions("local[2]"))
