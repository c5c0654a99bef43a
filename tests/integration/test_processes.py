"""What the measurements ask the kernel about processes (integration/processes.py)."""

from pathlib import Path

import pytest

from integration import processes


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
    assert processes.share(77) == nice


def test_setting_what_is_already_so_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    processes.set_share(77, 0)
    assert not list(tmp_path.iterdir())
