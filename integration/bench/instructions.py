"""Processor instructions for a decoded AppendEntries, counted by Linux `perf` where the processor lets it count.

Instructions, unlike seconds, do not depend on the machine's clock or on other work. `python -m
integration.bench.instructions COUNT` decodes a message so many times: `perf` counts the instructions of that process.
"""

import subprocess
import sys
from typing import Final

from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import MessageType, Request, decode_request, encode_request
from integration.bench.workloads import VALUE_BYTES

DECODES: Final = 2_000
_ENTRIES: Final = 100
_SECONDS: Final = 60.0
_MODULE: Final = "integration.bench.instructions"


def per_decode() -> int | None:
    """Return the instructions for one AppendEntries of 100 entries of 1 KiB; None: `perf` cannot count here."""
    nothing, all_of_them = _counted(0), _counted(DECODES)
    return None if nothing is None or all_of_them is None else (all_of_them - nothing) // DECODES


def _counted(decodes: int) -> int | None:
    """Return the instructions of a process that decodes so many messages."""
    command = ["perf", "stat", "-x", ",", "-e", "instructions:u", "--", sys.executable, "-m", _MODULE, str(decodes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    for line in done.stderr.splitlines():
        count, _, event, *_ = [*line.split(","), "", "", ""]
        if event.startswith("instructions") and count.isdigit():
            return int(count)
    return None  # "<not supported>"


def main() -> None:
    """Decode a message as often as the first argument says."""
    entries = tuple(Entry(1, ValueType.APPLICATION, bytes([number]) * VALUE_BYTES) for number in range(_ENTRIES))
    data = encode_request(Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 1, 1, 1, entries))
    for _ in range(int(sys.argv[1])):
        decode_request(data)


if __name__ == "__main__":
    main()
