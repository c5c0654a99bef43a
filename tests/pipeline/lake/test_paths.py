"""Paths of the tables: the same place for the command and for Spark, wherever Spark runs."""

import pickle
from pathlib import Path

import pytest

from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.lake.paths import Lake, absolute


def test_a_relative_path_is_one_of_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = Lake("here/lake/")
    monkeypatch.chdir("/")
    assert lake.root == f"{tmp_path}/here/lake"
    assert lake.path("entries") == f"{tmp_path}/here/lake/entries"
    assert pickle.loads(pickle.dumps(lake)) == lake == Lake(lake.root)


@pytest.mark.parametrize("address", ["/srv/lake", "file:///srv/lake", "hdfs://host:9000/lake", "s3a://bucket/lake"])
def test_what_is_said_in_full_stays(address: str) -> None:
    assert Lake(address).root == absolute(address) == address
    assert Lake(f"{address}/").path("files") == f"{address}/files"


@pytest.mark.parametrize(
    "root",
    ["/srv/lake[1]", "/srv/l*ke", "/srv/{lake}", "/srv/la?ke", "/srv/la\\ke", "file:///srv/a%20b", "hdfs://host/a b"],
)
def test_a_place_that_spark_and_arrow_do_not_find_alike_is_refused(root: str) -> None:
    with pytest.raises(PipelineError, match="lake"):
        Lake(root)


@pytest.mark.parametrize("root", ["/srv/a b%20é#:lake", "hdfs://[::1]:9000/farm=1/la-ke_2.x"])
def test_other_odd_names_are_none_of_our_business(root: str) -> None:
    assert Lake(root).root == root
