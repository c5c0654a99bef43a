"""The object that each command prints with `--json`."""

import json

import pytest

from gf_i2p.cli.shared.command import Answer, print_answer
from gf_i2p.cli.shared.errors import Exit


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (Exit.OK, {"ok": True}),
        (Exit.DEGRADED, {"ok": True}),
        (Exit.FAILED, {"ok": False, "error": "there is no record", "outcome": "no"}),
    ],
)
def test_ok_says_whether_the_command_has_done_its_work(
    capsys: pytest.CaptureFixture[str], code: Exit, fields: dict[str, object]
) -> None:
    assert print_answer(Answer({"record": None}, "there is no record", code), as_json=True) is code
    assert json.loads(capsys.readouterr().out) == {**fields, "record": None}
