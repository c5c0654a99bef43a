"""Child processes, their ports, and kernel figures for measurements (integration/harness/processes.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

from integration.harness import processes


@pytest.mark.parametrize(
    ("text", "nice"),
    [("/autogroup-9601 nice -5\n", -5), ("/autogroup-1 nice 0\n", 0), ("", 0), (None, 0)],
    ids=["of its own", "as all", "scheduled by a control group", "a kernel without"],
)
def test_how_nice_a_session_is_to_others(
    text: str | None, nice: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = tmp_path / "77"
    process.mkdir()
    if text is not None:
        (process / "autogroup").write_text(text)
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert processes.session_niceness(77) == nice


def test_setting_what_is_already_so_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    processes.set_share(77, 0)
    assert not list(tmp_path.iterdir())


def test_a_process_that_has_used_up_its_ports_gets_the_oldest_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_given", {})
    monkeypatch.setattr(processes, "_PART_PORTS", 8)
    given = [port for _ in range(4) for port in processes.free_ports(1)]
    given += processes.free_ports(4)
    if len(set(given)) != 8:
        pytest.skip("another program listens at one of the ports")
    assert processes.free_ports(3) == given[:3]
    with pytest.raises(RuntimeError, match="ports from"):
        processes.free_ports(9)


def test_processes_side_by_side_draw_from_different_parts_of_the_ports() -> None:
    program = (
        "import sys; from integration.harness.processes import free_ports\n"
        "print(free_ports(1)[0], free_ports(1)[0], flush=True); sys.stdin.read()"
    )
    ports: list[list[int]] = []
    running: list[subprocess.Popen[str]] = []
    try:
        for _ in range(4):
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(processes.__file__).parents[2],
            )
            running.append(process)
            assert process.stdout is not None
            ports.append([int(port) // processes._PART_PORTS for port in process.stdout.readline().split()])
    finally:
        for process in running:
            process.communicate()
    assert all(first == second for first, second in ports)
    assert len({first for first, _ in ports}) == 4
