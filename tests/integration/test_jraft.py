"""JRaft and gf-i2p servers in one farm; skipped without JRaft (`python -m integration.jraft --help`)."""

from pathlib import Path

import pytest

from integration.harness.progress import Progress
from integration.jraft.farm import Farm
from integration.jraft.scenarios import SCENARIOS
from integration.jraft.theirs import CLASSES_VARIABLE, Jraft, MissingError, find


@pytest.fixture(scope="module")
def jraft(tmp_path_factory: pytest.TempPathFactory) -> Jraft:
    try:
        return Jraft.prepare(tmp_path_factory.mktemp("classes"))
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_scenario(name: str, jraft: Jraft, tmp_path: Path) -> None:
    async with Farm(jraft, tmp_path, Progress()) as farm:
        await SCENARIOS[name](farm)


def test_without_jraft_the_reason_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CLASSES_VARIABLE, raising=False)
    with pytest.raises(MissingError, match=f"set {CLASSES_VARIABLE} to a Java class path"):
        find()
    monkeypatch.setenv(CLASSES_VARIABLE, f"{tmp_path}:{tmp_path / 'gson.jar'}")
    with pytest.raises(MissingError, match=r"there is no .*gson.jar"):
        find()
    monkeypatch.setenv(CLASSES_VARIABLE, str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(MissingError, match="apt-get install default-jdk-headless"):
        find()
