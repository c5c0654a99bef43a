"""Mutation testing: integration/mutation/."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from integration.mutation.__main__ import equivalent_mutants
from integration.mutation.judges import Judge
from integration.mutation.rules import mutants_of, mutated
from integration.mutation.trials import run_trials

SOURCE = '''
"""A module."""
LIMIT = 5

def small(number: int) -> bool:
    """Return whether the number is small."""
    assert number >= 0, "not negative"
    log.info("asked")
    return number < LIMIT and not number == 3
'''


def changes(source: str) -> list[str]:
    return [f"{each.before}  ->  {each.after}" for each in mutants_of("module.py", source)]


def test_the_places_that_the_rules_change() -> None:
    assert changes(SOURCE) == [
        "number < LIMIT and (not number == 3)  ->  number < LIMIT or not number == 3",
        "number < LIMIT  ->  number <= LIMIT",
        "number < LIMIT  ->  number >= LIMIT",
        "not number == 3  ->  number == 3",
        "number == 3  ->  number != 3",
        "3  ->  4",
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("raise ValueError(1 + 1)", []),
        ("self.count += 1", ["self.count += 1  ->  pass", "1  ->  2"]),
        ("self.tell(first=True)", ["self.tell(first=True)  ->  pass", "True  ->  False"]),
        (
            "if ready:\n        return min(1, x)",
            ["if ready:  ->  if not ready:", "min(1, x)  ->  max(1, x)", "1  ->  2"],
        ),
        ("while x in y:\n        break", ["x in y  ->  x not in y", "break  ->  continue"]),
        ("pair[0].x = y[1]", ["pair[0].x = y[1]  ->  pass"]),
    ],
)
def test_the_rules(statement: str, expected: list[str]) -> None:
    assert changes(f"def function():\n    {statement}\n") == expected


def test_a_mutant_differs_from_the_source_in_one_place() -> None:
    source = Path("gf_i2p/raft/candidate.py").read_text("utf-8")
    whole = ast.unparse(ast.parse(source))
    mutants = mutants_of("gf_i2p/raft/candidate.py", source)
    assert len(mutants) > 10
    seen = {ast.unparse(mutated(source, each.number)) for each in mutants}
    assert whole not in seen
    assert len(seen) == len(mutants), "each is another one"


def _never() -> str | None:
    while True:
        pass


@pytest.mark.parametrize(
    ("judge", "noticed"),
    [
        (lambda: "something", "something"),
        (lambda: None, None),
        (_never, "does not end within the time limit"),
        (lambda: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_the_results_of_a_trial(judge: Judge, noticed: str | None) -> None:
    (trial,) = run_trials([None], judge, jobs=1, most_seconds=1)
    assert trial.noticed == noticed


def test_a_trial_runs_the_changed_code(tmp_path: Path) -> None:
    """In a process that has not imported the module."""
    program = tmp_path / "program.py"
    program.write_text(
        "from integration.mutation.rules import mutants_of\n"
        "from integration.mutation.trials import run_trials\n"
        "name = 'gf_i2p/raft/configurations.py'\n"
        "def judge():\n"
        "    from gf_i2p.raft.configurations import majority\n"
        "    return None if majority(3) == 2 else f'majority {majority(3)}'\n"
        "mutants = [each for each in mutants_of(name, open(name).read()) if each.before == 'servers // 2 + 1']\n"
        "print([trial.noticed for trial in run_trials([None, *mutants], judge, jobs=1, most_seconds=9)])\n"
    )
    done = subprocess.run(
        [sys.executable, program], check=True, capture_output=True, text=True, env={"PYTHONPATH": "."}
    )
    assert done.stdout.strip() == "[None, 'majority 0']"


def test_the_list_of_equivalent_mutants() -> None:
    text = "# a comment\n\ngf_i2p/raft/log.py | size: int | None = 1 | 1  ->  2 | only the speed changes\n"
    key = ("gf_i2p/raft/log.py", "size: int | None = 1", "1", "2")
    assert equivalent_mutants(text) == {key: "only the speed changes"}
