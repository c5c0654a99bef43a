"""The image with Spark runs the pipeline: from made-up exports to hours of servers."""

import json
from pathlib import Path

import pytest

from integration.containers.engine import Engine
from integration.containers.images import SPARK

pytestmark = pytest.mark.slow  # the image takes minutes, and only `make test-all` builds it

SECONDS = 300.0


def test_the_image_with_spark_runs_the_pipeline(engine: Engine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)  # the container has another user

    def pipeline(*command: str) -> dict[str, object]:
        said = engine.run(
            "run", "--rm", "--network", "none", "--volume", f"{tmp_path}:/data", SPARK, "pipeline", *command, "--json",
            seconds=SECONDS,
        )  # fmt: skip
        answer: dict[str, object] = json.loads(said)
        return answer

    pipeline("synth", "/data/exports", "--farms", "1", "--days", "1", "--nodes", "3")
    ingested = pipeline("ingest", "/data/lake", "/data/exports")
    health = pipeline("health", "/data/lake")
    print(f"\n{ingested}\n{health}", flush=True)
    assert ingested["ok"]
    assert health["ok"]
