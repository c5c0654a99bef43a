"""`make release` refuses a tree that is none to release, and does not repeat a part that has passed."""

import os
import subprocess
from pathlib import Path

import pytest

from integration.packages.release import NotReleasableError, released_version

TREE = Path(__file__).parents[2]


def git(tree: Path, *words: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=tree, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


@pytest.mark.parametrize(("tag", "version"), [("v1.0.0", "1.0.0"), ("v0.2.0rc1", "0.2.0rc1")])
def test_a_clean_tree_at_a_tag_is_released(tree: Path, tag: str, version: str) -> None:
    git(tree, "tag", tag)
    git(tree, "tag", "another-word")
    assert released_version(tree) == version


def test_a_tree_without_a_tag_is_not(tree: Path) -> None:
    with pytest.raises(NotReleasableError, match="no tag of a version"):
        released_version(tree)


def test_a_tree_after_its_tag_is_not(tree: Path) -> None:
    git(tree, "tag", "v1.0.0")
    git(tree, "commit", "-qm", "two", "--allow-empty")
    with pytest.raises(NotReleasableError, match="no tag of a version"):
        released_version(tree)


def test_a_commit_with_two_versions_is_not(tree: Path) -> None:
    git(tree, "tag", "v1.0.0")
    git(tree, "tag", "v1.0.1")
    with pytest.raises(NotReleasableError, match=r"2 tags of a version: v1\.0\.0, v1\.0\.1"):
        released_version(tree)


@pytest.mark.parametrize("name", ["file", "new"])
def test_a_changed_tree_is_not(tree: Path, name: str) -> None:
    git(tree, "tag", "v1.0.0")
    (tree / name).write_text("two")
    with pytest.raises(NotReleasableError, match=f"not clean(.|\n)*{name}"):
        released_version(tree)


def test_a_part_of_the_tests_that_has_passed_at_this_commit_does_not_run_again(tmp_path: Path) -> None:
    """The Makefile's own rule runs a part that this test adds: it fails until the file `fine` is there."""
    fine, part = tmp_path / "fine", tmp_path / "part.mk"
    part.write_text(f"probe:\n\t@echo it runs; test -e {fine}\n")

    def make(commit: str) -> tuple[int, str]:
        words = ["make", "--no-print-directory", "part-probe", f"PASSED={tmp_path}/passed/{commit}"]
        environment = {"PATH": os.environ["PATH"], "MAKEFILES": str(part)}
        done = subprocess.run(words, cwd=TREE, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    code, said = make("one")
    assert code != 0
    assert "it runs" in said
    fine.touch()
    for commit in ("one", "two"):
        code, said = make(commit)
        assert (code, "it runs" in said) == (0, True), "it has failed, or has passed at another commit"
        assert "exit code 0" in said
        code, said = make(commit)
        assert (code, "it runs" in said) == (0, False)
        assert "exit code 0" in said
        assert said.endswith("UTC: not run again\n")
