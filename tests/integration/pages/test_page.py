import os
from pathlib import Path

import pytest

from integration.pages.page import Command, PageError, read_page
from integration.pages.place import Place
from integration.pages.session import Session, WrongPageError

PAGE = """\
# A page

<!-- run: machine -->
<!-- hidden:
mkdir there
cd there
-->

```console
$ echo one \\
  two   # exit code 0
one two
$ false # exit code 1
```

<!-- not run: needs a crane -->
```console
$ lift
```

1. In a list:

   <!-- type: word -->
   ```console
   $ read line && echo "$line and 17 in $(basename $PWD)"
   word and 4 in there
   ```
"""


def page(directory: Path, text: str = PAGE) -> Path:
    path = directory / "page.md"
    path.write_text(text)
    return path


def test_a_page_is_its_commands_in_order(tmp_path: Path) -> None:
    found = read_page(page(tmp_path))
    assert found.place == "machine"
    assert [each.text for each in found.commands[:2]] == ["mkdir there", "cd there"]
    assert found.commands[2] == Command(10, "echo one \\\n  two   # exit code 0", "one two")
    assert found.commands[3].exit_code == 1
    assert found.commands[4].types == ("word",)
    assert found.left_out == ["needs a crane"]


def test_commands_without_a_place_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="no comment"):
        read_page(page(tmp_path, "```console\n$ ls\n```\n"))


def test_output_without_a_command_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="begins with a line"):
        read_page(page(tmp_path, "<!-- run: machine -->\n```console\nls\n```\n"))


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("server 1 leads", "server 23 leads\n", True),
        ("server 1 leads", "server 1 leads not", False),
        ("server 1 leads…", "server 1 leads not", True),
        ("server 1 leads\n…", "server 1 leads", True),
        ("at 10:20:30 UTC", "at 23:59:01\n  UTC", True),
        ("two words", "two other words", False),
        ("a (b)", "a (b)", True),
        ("", "whatever", True),
        ("a" * 52, "b" * 52, True),
        ("a" * 52, "b" * 51, False),
    ],
)
def test_what_varies_may_vary(shown: str, printed: str, same: bool) -> None:
    assert Command(1, "x", shown).matches(printed) == same


def test_a_session_runs_a_page(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.run(read_page(page(tmp_path)))


@pytest.mark.parametrize("block", ["$ echo a\nb", "$ false", "$ true # exit code 3"])
def test_a_session_finds_a_page_that_is_wrong(tmp_path: Path, block: str) -> None:
    with Session(tmp_path) as session, pytest.raises(WrongPageError):
        session.run(read_page(page(tmp_path, f"<!-- run: machine -->\n```console\n{block}\n```\n")))


def test_a_command_that_looks_is_repeated(tmp_path: Path) -> None:
    prepare = "(sleep 0.3; echo later >file) >/dev/null 2>&1 &"
    text = f"<!-- run: machine -->\n<!-- hidden:\n{prepare}\n-->\n```console\n$ cat file\nlater\n```\n"
    with Session(tmp_path) as session:
        session.run(read_page(page(tmp_path, text)))


def test_a_command_that_stays_runs_beside_the_others(tmp_path: Path) -> None:
    text = """\
<!-- run: machine -->
```console
$ python3 -u -m http.server --bind 127.0.0.1 0
Serving HTTP on …
$ python3 -u -m http.server --bind 127.0.0.1 0
Serving HTTP on …
^C
Keyboard interrupt received, exiting.
```
"""
    with Session(tmp_path) as session:
        session.run(read_page(page(tmp_path, text)))
        first, second = (process for _, process in session._running)
        assert first.poll() is None
        assert second.poll() == 0
    assert first.poll() is not None


def test_one_shell_runs_all_commands(tmp_path: Path) -> None:
    text = """\
<!-- run: machine -->
```console
$ sleep 60 &
$ word=there && mkdir $word && cd $word
$ basename $PWD; kill -9 %1 && wait %1 # exit code 137
there…
```
"""
    with Session(tmp_path) as session:
        session.run(read_page(page(tmp_path, text)))


def test_jobs_in_the_background_end_with_the_page(tmp_path: Path) -> None:
    text = "<!-- run: machine -->\n```console\n$ sleep 60 &\n$ echo $! >pid\n```\n"
    with Session(tmp_path) as session:
        session.run(read_page(page(tmp_path, text)))
        job = Path("/proc", (tmp_path / "pid").read_text().strip())
        assert job.exists()
    assert not job.exists()


def test_a_program_asks_on_a_terminal(tmp_path: Path) -> None:
    text = """\
<!-- run: machine -->
<!-- keep CODE: code (\\w+) -->
```console
$ echo the code ab$((1 + 1))c
the code ab2c
```

<!-- answer: first -->
<!-- answer: CODE -->
```console
$ test -t 0 && for i in 1 2; do read -p "Line $i: " line; done; echo "got $line"
Line 1: first
Line 2: ab2c
got ab2c
$ echo after
after
```
"""
    with Session(tmp_path) as session:
        session.run(read_page(page(tmp_path, text)))


def test_a_block_to_paste_has_a_command_on_each_line(tmp_path: Path) -> None:
    found = read_page(page(tmp_path, "<!-- run: machine -->\n1. Do\n\n   ```bash\n   one\n   two\n   ```\n"))
    assert [each.text for each in found.commands] == ["one", "two"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as somebody else")
def test_a_page_runs_in_another_place(tmp_path: Path) -> None:
    """The place has another user, other variables, and a root directory with another path on this side."""
    nobody = 65534
    enter = ("env", "-i", f"PATH={os.environ['PATH']}", "setpriv", f"--reuid={nobody}", "--clear-groups")
    text = """\
<!-- run: there -->
<!-- answer: yes -->
```console
$ test -t 0 && read -p "Well? " line && echo "$line, says $(id -u)"
Well? yes
yes, says 65534
$ cd usr; echo "$HOME."
.
$ pwd >/dev/stderr
/usr
$ python3 -u -m http.server --bind 127.0.0.1 0
Serving HTTP on …
```
"""
    place = Place(enter, Path("/proc/self/root"), nobody)
    with Session(Path("/"), place=place) as session:
        session.run(read_page(page(tmp_path, text)))
        ((_, process),) = session._running
        assert Path(f"/proc/{process.pid}/cwd").readlink() == Path("/usr")
