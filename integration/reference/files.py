"""The page of the files on disk, from the names in the code and their docstrings.

The names that carry a number or a time have no constant; they stand here. A test compares names and modes with what
`gf-i2p init` and a running node make.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gf_i2p.node.files import file_names, leaf_file
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from integration.reference.docstrings import constants
from integration.reference.markdown import cell, code, table

_MODE: Final = re.compile(r"\s*Mode (0\d{3})\.$")


class FileRow(NamedTuple):
    """One file or directory; letters in capitals stand for a name or a number."""

    name: str
    mode: str
    about: str


_OF_A_FARM: Final = (
    FileRow("server-ID", "0700", "The directory of one server, for the machine of that server only."),
    FileRow("client-NAME.toml", "0600", "The credentials of a client that posts, with the servers' endpoints."),
    FileRow("admin-NAME.toml", "0600", "The credentials of an administrator, who sees and changes the farm."),
    FileRow("viewer-NAME.toml", "0600", "The credentials of a viewer, who sees the farm."),
    FileRow(".gitignore", "0644", "Keeps the secrets out of a repository."),
)
_MORE_OF_A_NODE: Final = (
    FileRow("certificate.pem", "0644", "The node's certificate for TLS."),
    FileRow("key.pem", "0600", "The private key of `certificate.pem`."),
    FileRow(f"{DATABASE_FILE}-lock", "0600", "The lock of the process that has the log open: its process id."),
    FileRow(f"{DATABASE_FILE}-wal", "0600", "The newest writes of the log, while the log is open. Part of the log."),
    FileRow(f"{DATABASE_FILE}-shm", "0600", "An index of `log.sqlite-wal`, while the log is open."),
    FileRow(f"{HISTORY_DIRECTORY}/entries-NUMBER.jsonl", "0600", "The newest part of the history: JSON Lines."),
    FileRow(f"{HISTORY_DIRECTORY}/entries-NUMBER.jsonl.zst", "0600", "An ended part of the history, packed by zstd."),
    FileRow("branch-NUMBER.dat", "0600", "Keys for sets below the first, from `gf-i2p keys delegate --branches`."),
    FileRow("before-restore-TIME", "0700", "The old files, which `gf-i2p snapshot restore` has moved away."),
    FileRow(f"{DATABASE_FILE}-before-recovery-TIME", "0700", "The old log, which `gf-i2p recover` has copied."),
)


def page() -> str:
    """Return the page."""
    chapters = {
        "A farm's directory": ("`gf-i2p init` makes these files. `NAME` and `ID` stand for your names.", _OF_A_FARM),
        "A node's directory": (
            """`gf-i2p init` makes the settings, the keys and the log; `gf-i2p join` and `gf-i2p members invite` do so,
too. The node makes the other files. Back the log up by `gf-i2p snapshot save` only: a copy of a log that
is put back breaks the promises of Raft.""",
            rows_of_a_node(),
        ),
        "A leaf member's directory": ("`gf-i2p members invite-leaf` makes the directory.", rows_of_a_leaf_member()),
    }
    parts = [
        """# Files on disk

These are the files that `gf-i2p` makes, with their modes. A node refuses secrets that other users can read. The umask
may take rights away.
"""
    ]
    for heading, (about, rows) in chapters.items():
        cells = [(code(row.name), row.mode, cell(row.about)) for row in rows]
        parts.append(f"## {heading}\n\n{about}\n\n{table(('file', 'mode', 'content'), cells)}")
    return "\n".join(parts)


def rows_of_a_farm() -> tuple[FileRow, ...]:
    """Return the files beside the servers' directories."""
    return _OF_A_FARM


def rows_of_a_node() -> tuple[FileRow, ...]:
    """Return the files in a node's directory, by name."""
    return tuple(sorted((*_described(file_names.__name__), *_MORE_OF_A_NODE)))


def rows_of_a_leaf_member() -> tuple[FileRow, ...]:
    """Return the files in a leaf member's directory."""
    return tuple(_described(leaf_file.__name__))


def _described(module: str) -> Iterator[FileRow]:
    for each in constants(module):
        if isinstance(each.value, str):
            mode = _MODE.search(each.text)
            if mode is None:
                raise ValueError(f"{each.name}: its docstring does not end with the file's mode, as in Mode 0600.")
            yield FileRow(each.value, mode[1], each.text[: mode.start()])
