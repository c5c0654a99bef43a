"""`gf-i2p pipeline floodfills`: refusals before Spark starts, and the output."""

from pathlib import Path

import pytest

from gf_i2p.cli.main import main
from gf_i2p.cli.pipeline.floodfills import show
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.floodfills.job import FloodfillFigures
from gf_i2p.pipeline.lake.paths import Lake

COMMAND = ["pipeline", "floodfills", "lake"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in `tmp_path`: a job may make the lake there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--netdb"),
        (["--netdb", "x", "--hash", "nonsense!"], "this is not base64"),
        (["--netdb", "x", "--hash", to_base64(b"short")], "is not a hash"),
        (["--netdb", "x", "--day", "tomorrow"], "expected YYYY-MM-DD"),
        (["--netdb", "x", "--day", "0001-01-01"], "from 2000-01-01"),  # there is no day before 2000-01-01
        (["--netdb", "x", "--day", "9999-12-31"], "to 9000-01-01"),
        (["--netdb", "x", "--net-id", "0"], "from 1 to 254"),
    ],
)
def test_what_is_no_argument_is_said(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*COMMAND, *arguments])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_a_file_of_hashes_is_read_before_spark_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hashes"
    file.write_text(f"{to_base64(bytes(32))} ours\nnonsense!\n")
    assert main([*COMMAND, "--netdb", "x", "--hashes", str(file)]) == 2
    assert f"{file}: line 2: " in capsys.readouterr().err


def test_the_figures_in_words() -> None:
    found = FloodfillFigures(7, 2**20, 5, 1, 2, 3, 4, 6, 144, 1.5, 0.25)
    text = show(found, Lake("/lake"))
    assert "7, 1.0 MiB, read in 1.5 s" in text
    assert "144 rows for 6 hashes, in 0.2 s: /lake/closest" in text
    assert "3 broken files, with the reasons: /lake/quarantine" in text
