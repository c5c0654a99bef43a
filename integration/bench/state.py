"""The speed of making a farm's state from its log: `python -m integration.bench.state`.

A server that starts without a snapshot, the pipeline, and every reader of a long history apply each entry again.
"""

import time
from collections.abc import Iterator
from typing import Final

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf, Meta, StatusRecord
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_base64

SERVERS: Final = 3
ENTRIES: Final = 30_000
MEMBERS: Final = (0, 100, 1000, 4000)
HISTORY: Final = 2_900_000
"""Entries of a farm that has been at work for a year, or for a day with a thousand members."""
_INTERVAL_MS: Final = 30_000
_BEGAN_MS: Final = 1_790_000_000_000
_MASTER: Final = to_base64(bytes(391))


def values(members: int) -> Iterator[bytes]:
    """Give the records of servers and members in turns."""
    date = _BEGAN_MS
    while True:
        for number in range(SERVERS + members):
            poster = number + 1 if number < SERVERS else FIRST_LEAF_MEMBER_ID + number
            meta = Meta(_MASTER, "auto", publishing=number == 0, last_published_ms=date) if number < SERVERS else None
            leaf = Leaf(poster.to_bytes(32), up=True, current_connections=number % 50, configured_connections=50)
            yield StatusRecord("farm", date, poster, router_up=True, meta=meta, leaves=(leaf,)).encode()
            date += _INTERVAL_MS // (SERVERS + members)


def measure(members: int) -> str:
    """Apply the records; return a line with the CPU times, and with the times and the size of a snapshot."""
    made = values(members)
    log = [next(made) for _ in range(ENTRIES)]
    state = FarmState("farm")
    state.configure(range(1, SERVERS + 1))
    began = time.process_time()
    for index, value in enumerate(log, 1):
        state.apply(value, index)
    each = (time.process_time() - began) / ENTRIES
    began = time.process_time()
    data = state.encode()
    written = time.process_time() - began
    FarmState.decode("farm", data)
    read = time.process_time() - began - written
    return (
        f"{members:>7} members  {each * 1e6:6.1f} us an entry  {each * HISTORY:6.0f} s for {HISTORY:,}  "
        f"snapshot {len(data) / 1e6:.2f} MB, {written * 1e3:.0f} ms to write, {read * 1e3:.0f} ms to read"
    )


if __name__ == "__main__":
    for count in MEMBERS:
        print(measure(count), flush=True)
