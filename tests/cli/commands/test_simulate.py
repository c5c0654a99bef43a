"""`gf-i2p simulate`: the output, failures, and how a failure is run again."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.cli.commands import simulate
from gf_i2p.cli.main import main
from gf_i2p.farm.state import FarmState
from gf_i2p.simulator.canaries import CANARIES
from gf_i2p.simulator.canary import Canary
from gf_i2p.simulator.exhaustive.scope import SCOPES, Scope
from integration.harness.local_farm import becomes


def test_clean_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "7", "--seeds", "3"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("3 seeds from 7 on\n")
    assert "no invariant was violated" in output
    assert re.search(r"^  partitions +\d+$", output, re.MULTILINE)


def test_as_json_with_more_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "7", "--seeds", "10", "--jobs", "2", "--nodes", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["seeds"], answer["violations"]) == (True, 10, [])
    assert answer["faults"]["restarts"] > 0


def test_a_violation_can_be_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", "--nodes", "3", "--canary", "applies-early"]) == 1
    output = capsys.readouterr().out
    assert "VIOLATION of StateMachineSafety: No two servers commit or apply different entries" in output
    found = re.search(r"replay  gf-i2p (.*)$", output, re.MULTILINE)
    assert found is not None
    assert found[1] == "simulate --seed 1 --nodes 3 --canary applies-early --trace"
    assert main(found[1].split()) == 1
    trace = capsys.readouterr().out
    assert "  s1  " in trace
    assert trace.endswith("--trace\n")


def test_a_violation_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seed", "1", "--canary", "applies-early", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["outcome"]) == (False, "no")
    assert answer["error"] == "1 of 1 seeds violated an invariant, and the first is StateMachineSafety"
    assert answer["violations"][0]["invariant"] == "StateMachineSafety"


def test_seeds_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "seeds"
    file.write_text("# why\n3 1\n\n4 1  # because\n")
    assert main(["simulate", "--file", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == 2


@pytest.mark.parametrize(
    ("text", "expected"), [("x", "line 1: expected SEED"), ("1\n1 2 3", "line 2: expected"), ("#", "has no seeds")]
)
def test_a_file_that_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str) -> None:
    file = tmp_path / "seeds"
    file.write_text(text)
    assert main(["simulate", "--file", str(file)]) == 1
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--nodes", "10"], "expected a whole number from 1 to 9"),
        (["--nodes", "0"], "expected a whole number from 1 to 9"),
        (["--seeds", "-1"], "expected a whole number from 1 to"),
        (["--seed", "x"], "expected a whole number from 1 to"),
    ],
)
def test_arguments_out_of_range(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["simulate", *arguments])
    assert raised.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--canary", "x"], "there is no canary 'x': choose one of votes-twice,"),
        (["--trace"], "--trace is for one seed"),
    ],
)
def test_arguments_that_make_no_sense(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    assert main(["simulate", *arguments]) == 2
    assert expected in capsys.readouterr().err


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux to find the processes")
async def test_its_processes_end_with_it_however_it_ends() -> None:
    command = [sys.executable, "-m", "gf_i2p.cli.main", "simulate", "--seeds", "100000", "--jobs", "2", "--json"]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await becomes("its processes run", lambda: len(children(process.pid)) >= 3, 60)
    workers = children(process.pid)
    process.kill()
    await process.wait()
    await becomes("none is left", lambda: not any(Path(f"/proc/{worker}/exe").exists() for worker in workers), 60)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux to find the processes")
async def test_ctrl_c_ends_it_and_its_processes_at_once() -> None:
    command = [sys.executable, "-m", "gf_i2p.cli.main", "simulate", "--seeds", "100000", "--jobs", "2", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    await process.stderr.readline()  # the progress: its processes work
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    async with asyncio.timeout(60):
        assert await process.wait() == 130
    assert json.loads(await process.stdout.read())["error"] == "Ctrl-C ended the command"


def test_a_canary_that_breaks_down_altogether_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_down(self: FarmState) -> None:
        raise KeyError(3)

    patches = ((FarmState, "_make_choice", breaks_down),)
    monkeypatch.setitem(CANARIES, "breaks-down", Canary("breaks-down", "a choice that cannot be made", patches, True))
    assert simulate._hunt("breaks-down", 1, None) == ("breaks-down", 1, "KeyError")


def test_an_exhaustive_search(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCOPES, "tiny", Scope(time_outs=1, proposals=1))
    assert main(["simulate", "--exhaustive", "tiny"]) == 0
    assert "exhausted, no violation" in capsys.readouterr().out
    assert main(["simulate", "--exhaustive", "tiny", "--canary", "half-commits"]) == 1
    output = capsys.readouterr().out
    assert "VIOLATION of CommittedOnMajority: Committed entries are on the disks of a majority" in output
    assert re.search(r"^ +\d+\.0{6}  s1  leader    t1       1/1     stored up to write 2$", output, re.MULTILINE)
    assert main(["simulate", "--exhaustive", "tiny", "--canary", "half-commits", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "1 of 1 scopes violated an invariant, and the first is CommittedOnMajority"
    (row,) = answer["scopes"]
    assert (row["scope"], row["exhausted"]) == ("tiny", False)
    assert row["violation"]["invariant"] == "CommittedOnMajority"


def test_an_exhaustive_search_that_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    scope = max(SCOPES, key=lambda name: SCOPES[name].time_outs)
    assert main(["simulate", "--exhaustive", scope, "--seconds", "1", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True, "the search has done what the seconds allowed"
    (row,) = answer["scopes"]
    assert (row["exhausted"], row["violation"]) == (False, None)
    assert row["states"] > 1
