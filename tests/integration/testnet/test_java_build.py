"""The programs of a network with Java routers, and the words about programs that are missing or too old."""

from pathlib import Path

import pytest

from integration.testnet.__main__ import main
from integration.testnet.java_build import I2PD_VARIABLE, JAVA_VARIABLE, JavaBuild, wants_java
from integration.testnet.namespace import MissingError

JARS = ("i2p", "router", "streaming", "i2ptunnel", "sam", "i2pcontrol")


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all classes, and the variable that names the folder."""
    (tmp_path / "lib").mkdir()
    for jar in JARS:
        (tmp_path / "lib" / f"{jar}.jar").touch()
    monkeypatch.setenv(JAVA_VARIABLE, str(tmp_path))
    return tmp_path


def i2pd(directory: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> str:
    program = directory / "i2pd"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv(I2PD_VARIABLE, str(program))
    return str(program)


def test_without_a_variable_nobody_wants_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv(JAVA_VARIABLE, raising=False)
    assert not wants_java()
    assert main(["up", "--java", "2", "--directory", str(tmp_path / "net")]) == 1
    assert f"set {JAVA_VARIABLE} to the folder that has lib/*.jar" in capsys.readouterr().err


def test_a_build_and_an_i2pd_that_java_uses(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = i2pd(build, "i2pd version 2.58.0 (0.9.67)", monkeypatch)
    assert wants_java()
    assert JavaBuild.find() == JavaBuild(build, program)


@pytest.mark.parametrize(
    ("says", "announces"),
    [("i2pd version 2.45.1 (0.9.57)", "0.9.57"), ("something else", "no version that is known")],
)
def test_an_i2pd_that_java_does_not_use(
    build: Path, monkeypatch: pytest.MonkeyPatch, says: str, announces: str
) -> None:
    i2pd(build, says, monkeypatch)
    with pytest.raises(MissingError, match=rf"announces {announces}.*set {I2PD_VARIABLE} to an i2pd from 2\.50 on"):
        JavaBuild.find()


def test_an_i2pd_that_is_not_there(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(I2PD_VARIABLE, str(build / "nothing"))
    with pytest.raises(MissingError, match=rf"does not run .*set {I2PD_VARIABLE}"):
        JavaBuild.find()


def test_a_build_that_lacks_a_part(build: Path) -> None:
    (build / "lib" / "sam.jar").unlink()
    with pytest.raises(MissingError, match=rf"lib has no sam\.jar: set {JAVA_VARIABLE} to a whole build"):
        JavaBuild.find()
