"""The commands of a documentation page, with what each is said to print.

A page has commands in blocks of the kind `console`. A line that begins with `$ ` is a command, and goes on in the next
line after a backslash. The lines below are what the command prints. Comments, which no reader sees, steer the run:

A block of the kind `bash` has a command on each line, without `$ ` and output, for a reader who copies the block.

- `<!-- run: PLACE -->` in the page's head: where the page's commands run. `nowhere: REASON` runs none of them.
- `<!-- hidden: COMMANDS -->`, on several lines: commands that prepare the place, one a line.
- `<!-- type: LINE -->` lines before a block: the block's first command reads these lines from its standard input.
- `<!-- answer: LINE -->` lines before a block: the block's first command asks for these lines, on a terminal. The page
  shows the answers behind the questions.
- `<!-- keep NAME: PATTERN -->` before a block: a reader copies this part of what the block's first command prints. The
  word NAME, in capitals, in later commands and typed lines stands for the pattern's first group. Before a hidden
  comment, the same for the comment's first command.
- `<!-- stop: COMMAND -->` and `<!-- kill: COMMAND -->`: the page's text has the reader end this running command, by
  SIGTERM or by SIGKILL.
- `<!-- on: PLACES -->`: the commands behind the comment run at these places, one place after the other, up to the next
  such comment. PLACES are names with spaces between.
- `<!-- not run: REASON -->` before a block: a reader runs the block, and this test cannot.

In what a command prints, `…` stands for anything, a number for any number, an address in I2P for any other one, a
fingerprint for any other one, and white space for other white space: a narrow terminal breaks lines elsewhere.
`# exit code N` after a command is what the command returns, 0 otherwise.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

_COMMENT: Final = re.compile(
    r"<!--\s*(run|hidden|type|answer|keep [A-Z]+|stop|kill|on|not run):\s*(.*?)\s*-->", re.DOTALL
)
_BLOCK: Final = re.compile(
    r"^(?P<indent> *)```(?P<kind>console|bash)\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)
_EXIT_CODE: Final = re.compile(r"#.*exit code (\d+)")
_VARYING: Final = re.compile(
    r"(?P<any>\s*…\s*)|(?P<address>[a-z2-7]{52})|(?P<hex>[0-9a-f]{32,64})|(?P<number>\d+(?:[.,:-]\d+)*)|(?P<space>\s+)"
)
_PATTERNS: Final = {
    "any": r".*?",
    "address": r"[a-z2-7]{52}",
    "hex": r"[0-9a-f]{32,64}",
    "number": r"\d+(?:[.,:-]\d+)*",
    "space": r"\s+",
}


class PageError(Exception):
    """The page is not written as the module says."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page."""

    line: int
    """The line of the page, from 1."""
    text: str
    prints: str = ""
    """The lines below the command; empty: the command may print anything."""
    types: tuple[str, ...] = ()
    """Lines for the standard input."""
    answers: tuple[str, ...] = ()
    """Lines to type on a terminal."""
    keeps: tuple[tuple[str, str], ...] = ()
    """Names, each with the pattern of the part of the output that the name stands for afterwards."""
    exit_code: int = 0
    ends: Literal["", "stop", "kill"] = ""
    """How the running command of this text is ended; empty: the command is begun."""
    on: tuple[str, ...] = ()
    """The places where the command runs; none: the page has only one place."""

    def matches(self, printed: str) -> bool:
        """Return whether `printed` is what the page shows."""
        return not self.prints or re.fullmatch(_pattern(self.prints), printed.strip(), re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Page:
    """A page: where its commands run, and which they are, in order."""

    path: Path
    place: str
    commands: list[Command] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Why blocks of the page are not run."""


def read_page(path: Path) -> Page:
    """Read a page.

    Raises:
        PageError: No `run:` comment says where the page's commands run, or a block begins with no command.
    """
    text = path.read_text()
    marks = sorted([*_COMMENT.finditer(text), *_BLOCK.finditer(text)], key=lambda mark: mark.start())
    place, skip, types, answers = "", "", list[str](), list[str]()
    keeps = list[tuple[str, str]]()
    on: tuple[str, ...] = ()
    page = Page(path, "")
    for mark in marks:
        line = text.count("\n", 0, mark.start()) + 1
        if "body" in mark.groupdict():
            if skip:
                page.left_out.append(skip)
            else:
                body = (
                    mark["body"]
                    if mark["kind"] == "console"
                    else re.sub("^( *)", r"\1$ ", mark["body"].rstrip(), flags=re.MULTILINE)
                )
                found = _commands(path, line, body, len(mark["indent"]))
                first, *others = (replace(each, on=on) for each in found)
                page.commands.extend(
                    [replace(first, types=tuple(types), answers=tuple(answers), keeps=tuple(keeps)), *others]
                )
            types, answers, keeps, skip = [], [], [], ""
        elif mark[1] == "run":
            place = mark[2]
        elif mark[1] == "hidden":
            first, *others = (Command(line, each.strip(), on=on) for each in mark[2].splitlines())
            page.commands.extend([replace(first, keeps=tuple(keeps)), *others])
            keeps = []
        elif mark[1] in ("stop", "kill"):
            page.commands.append(Command(line, mark[2], ends="stop" if mark[1] == "stop" else "kill", on=on))
        elif mark[1] == "on":
            on = tuple(mark[2].split())
        elif mark[1] == "type":
            types.append(mark[2])
        elif mark[1] == "answer":
            answers.append(mark[2])
        elif mark[1].startswith("keep "):
            keeps.append((mark[1].removeprefix("keep "), mark[2]))
        else:
            skip = mark[2]
    if not place and page.commands:
        raise PageError(f"{path} shows commands and has no comment <!-- run: PLACE -->")
    return Page(path, place or "nowhere: no commands", page.commands, page.left_out)


def _commands(path: Path, first: int, body: str, indent: int) -> list[Command]:
    found: list[Command] = []
    text, prints, begun = "", list[str](), first
    continues = False

    def end() -> None:
        if text:
            code = _EXIT_CODE.search(text)
            found.append(Command(begun, text, "\n".join(prints).strip(), exit_code=int(code[1]) if code else 0))

    for number, whole in enumerate(body.splitlines(), first + 1):
        line = whole[indent:]
        if continues:
            text += "\n" + line
        elif line.startswith("$ "):
            end()
            text, prints, begun = line[2:], [], number
        elif not text:
            raise PageError(f"{path}:{number}: a console block begins with a line `$ COMMAND`")
        else:
            prints.append(line)
            continue
        continues = text.endswith("\\")
    end()
    if not found:
        raise PageError(f"{path}:{first}: a console block without a command")
    return found


def _pattern(prints: str) -> str:
    parts, at = [], 0
    for mark in _VARYING.finditer(prints):
        parts += [re.escape(prints[at : mark.start()]), _PATTERNS[mark.lastgroup or ""]]
        at = mark.end()
    return "".join([*parts, re.escape(prints[at:])])
