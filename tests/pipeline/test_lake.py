"""Where the tables are: the same place for the command and for Spark, wherever that runs."""

import pickle
from pathlib import Path

import pytest

from gf_i2p.pipeline.lake import Lake, absolute


def test_a_relative_path_is_one_of_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = Lake("here/lake/")
    monkeypatch.chdir("/")
    assert made.root == f"{tmp_path}/here/lake"
    assert made.path("entries") == f"{tmp_path}/here/lake/entries"
    assert pickle.loads(pickle.dumps(made)) == made == Lake(made.root)


@pytest.mark.parametrize("address", ["/srv/lake", "file:///srv/lake", "hdfs://host:9000/lake", "s3a://bucket/lake"])
def test_what_is_said_in_full_stays(address: str) -> None:
    assert Lake(address).root == absolute(address) == address
    assert Lake(f"{address}/").path("files") == f"{address}/files"
