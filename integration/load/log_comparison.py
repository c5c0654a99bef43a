"""Comparison of the servers' logs and histories with each other and with the clients' answers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.storage.database import Storage
from gf_i2p.storage.history_lines import ApplicationLine, Gap
from gf_i2p.storage.history_reader import read_history

MOST_TOLD: Final = 20
"""Most listed errors of one kind."""
_PAGE_BYTES: Final = 1 << 24


@dataclass(slots=True)
class Export:
    """A server's whole history. The reader checks the history line by line."""

    values: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """By index: term and value."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """First and last index of each gap."""

    @property
    def end(self) -> int:
        """The last index of the history, without Configurations behind it."""
        return max([0, *self.values, *(last for _, last in self.gaps)])

    def lacks(self, index: int) -> bool:
        """Whether a gap covers the index."""
        return any(first <= index <= last for first, last in self.gaps)


def read_export(node: Path) -> Export:
    """Read the history in a server's directory, without the times of reception."""
    export = Export()
    for line in read_history(node / HISTORY_DIRECTORY):
        if isinstance(line, Gap):
            export.gaps.append((line.first, line.last))
        elif isinstance(line, ApplicationLine):
            export.values[line.index] = (line.term, line.value if line.raw is None else line.raw)
    return export


def read_log(node: Path, server: int, cluster: str = "farm") -> dict[int, tuple[int, int, bytes]]:
    """Read the log of a stopped server, without dropped entries: term, type and value by index."""
    entries: dict[int, tuple[int, int, bytes]] = {}
    storage = Storage.open(node / DATABASE_FILE, cluster=cluster, server_id=server)
    try:
        index, last = storage.loaded.base[0] + 1, storage.loaded.last_index
        while index <= last:
            for entry in storage.read(index, last, _PAGE_BYTES):
                entries[index] = (entry.term, entry.value_type, entry.value)
                index += 1
    finally:
        storage.close()
    return entries


def compare_logs(logs: Mapping[int, Mapping[int, tuple[int, int, bytes]]], until: int | None = None) -> list[str]:
    """Return the differences between logs: other entries at a common index, or another last index.

    `until`: the index up to which all logs were equal before the stop. Only some logs may have later entries.
    """
    wrong = []
    for (one, ours), (other, theirs) in pairwise(logs.items()):
        if max(ours) != max(theirs) and (until is None or min(max(ours), max(theirs)) < until):
            wrong.append(f"the log of server {one} ends with {max(ours)}, that of server {other} with {max(theirs)}")
        differ = [index for index in ours.keys() & theirs.keys() if ours[index] != theirs[index]]
        if differ:
            wrong.append(f"the logs of servers {one} and {other} differ in {len(differ)} entries, first {min(differ)}")
    return wrong


def union(exports: Mapping[int, Export]) -> dict[int, tuple[int, Any]]:
    """Give the entries of all histories together, in order."""
    found: dict[int, tuple[int, Any]] = {}
    for export in exports.values():
        found.update(export.values)
    return dict(sorted(found.items()))


def compare_exports(exports: Mapping[int, Export], ended: Collection[int] = (), until: int | None = None) -> list[str]:
    """Return the differences between a history and all histories together, except for gaps.

    `ended`: servers that have left the farm; only the present entries of their histories count. `until`: see
    `compare_logs`; a stopped server does not learn later commits.
    """
    whole, wrong = union(exports), []
    for server, export in exports.items():
        end = export.end if server in ended else max(whole, default=0) if until is None else until
        lost = [index for index in whole if index <= end and index not in export.values and not export.lacks(index)]
        other = [index for index, value in export.values.items() if whole[index] != value]
        if lost:
            wrong.append(f"the history of server {server} lacks {len(lost)} entries, first {lost[0]}")
        if other:
            wrong.append(
                f"the history of server {server} has {len(other)} entries that others do not, first {other[0]}"
            )
        if list(export.values) != sorted(export.values):
            wrong.append(f"the history of server {server} is not in order")
    return wrong


def judge_posts(keys: Sequence[str], acknowledged: Collection[str], retried: Mapping[str, int]) -> list[str]:
    """Compare a log's keys, CLIENT:POSITION, with the clients' knowledge; return the errors.

    A client posts 0, 1, 2 and so on, each until it is acknowledged; `retried`: repeated posts of a key.
    """
    counts = Counter(keys)
    wrong = [f"{key} was acknowledged and is not there" for key in acknowledged if not counts[key]][:MOST_TOLD]
    wrong += [
        f"{key} is there {count} times and was posted {1 + retried.get(key, 0)} times"
        for key, count in counts.items()
        if count > 1 + retried.get(key, 0)
    ][:MOST_TOLD]
    seen: dict[str, int] = {}
    for key in keys:
        client, position = key.split(":")
        if int(position) > seen.get(client, -1) + 1:
            wrong.append(f"{key} stands before the entry that its client posted before it")
        seen[client] = max(seen.get(client, -1), int(position))
    return wrong
