"""`gf-i2p completion`, tried in the shell."""

import asyncio
import shutil
import signal
import subprocess

import pytest

from gf_i2p.cli.main import COMMANDS, all_commands
from tests.cli.program import gf, gf_json


async def test_bash_completes_commands_and_options() -> None:
    code, script, error = await gf("completion", "bash")
    assert (code, error) == (0, "")
    asked = (
        f"{script}\n"
        'complete_it() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
        "_shtab_gf_i2p; printf '%s\\n' \"${COMPREPLY[@]}\"; }\n"
        "complete_it gf-i2p mem; echo --; complete_it gf-i2p members stepd; echo --; complete_it gf-i2p join --pro; "
        "echo --; complete_it gf-i2p help exit-c\n"
    )
    done = await asyncio.to_thread(_run, "bash", "-s", asked)
    first, second, option, topic = done.stdout.split("--\n")
    assert [first.split(), second.split(), option.split(), topic.split()] == [
        ["members"],
        ["stepdown"],
        ["--proxy"],
        ["exit-codes"],
    ]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
async def test_other_shells_get_a_script(shell: str) -> None:
    code, answer = await gf_json("completion", shell)
    assert code == 0
    assert all(command in answer["script"] for command in COMMANDS)
    if shutil.which(shell) is not None:
        await asyncio.to_thread(_run, shell, "-n", answer["script"])


def _run(shell: str, option: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([shell, option], input=script, capture_output=True, text=True, check=True)


def test_the_parser_of_all_commands_changes_nothing_of_the_process() -> None:
    before = signal.getsignal(signal.SIGHUP)
    assert len(all_commands().format_help()) > 1000
    assert signal.getsignal(signal.SIGHUP) is before
