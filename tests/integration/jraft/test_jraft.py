"""JRaft and gf-i2p servers in one farm; skipped without JRaft (`python -m integration.jraft --help`)."""

from pathlib import Path

import pytest

from integration.harness.step_progress import StepProgress
from integration.jraft.jraft_server import CLASSES_VARIABLE, Jraft, JraftMissingError, find_jraft
from integration.jraft.mixed_farm import MixedFarm
from integration.jraft.scenarios import SCENARIOS


@pytest.fixture(scope="module")
def jraft(tmp_path_factory: pytest.TempPathFactory) -> Jraft:
    try:
        return Jraft.prepare(tmp_path_factory.mktemp("classes"))
    except JraftMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_scenario(name: str, jraft: Jraft, tmp_path: Path) -> None:
    async with MixedFarm(jraft, tmp_path, StepProgress()) as farm:
        await SCENARIOS[name](farm)


def test_without_jraft_the_reason_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CLASSES_VARIABLE, raising=False)
    with pytest.raises(JraftMissingError, match=f"set {CLASSES_VARIABLE} to a Java class path"):
        find_jraft()
    monkeypatch.setenv(CLASSES_VARIABLE, f"{tmp_path}:{tmp_path / 'gson.jar'}")
    with pytest.raises(JraftMissingError, match=r"there is no .*gson.jar"):
        find_jraft()
    monkeypatch.setenv(CLASSES_VARIABLE, str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(JraftMissingError, match="apt-get install default-jdk-headless"):
        find_jraft()
