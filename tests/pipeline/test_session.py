"""Spark starts without a word, and its errors are heard."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.pipeline.session import _INCUBATOR, _quiet

STARTS = """
import sys
from pathlib import Path
from gf_i2p.pipeline.session import SessionOptions, session
with session(SessionOptions(master="local[1]", memory_mb=512, scratch=Path(sys.argv[1]))) as spark:
    print(spark.range(3).count())
    print("ours", file=sys.stderr)
"""


@pytest.mark.timeout(600)
def test_a_start_says_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert (done.stdout, done.stderr) == ("3\n", "ours\n")


def test_only_what_java_says_of_its_module_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    writes = f"import sys; sys.stderr.write({_INCUBATOR.decode()!r} + 'an error\\nand its rest')"
    with _quiet():
        subprocess.run([sys.executable, "-c", writes], check=True, timeout=60)
    os.write(2, b"ours\n")
    heard = ""
    while "rest" not in heard:
        heard += capfd.readouterr().err
    assert heard.replace("ours\n", "") == "an error\nand its rest"
