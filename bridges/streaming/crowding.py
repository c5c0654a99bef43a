"""The stream that gives way when there is no room for another one. Pure functions.

The order:

1. The oldest unfinished stream that stands still. Unfinished: the service has no request yet, or the client has not
   shown that packets reach the client.
2. The stream of the most crowded destination that stands still for longest, if that destination has twice as much as
   the newcomer's would have.
3. The stream that stands still for longest, if that is `STANDING` seconds, and if its destination has no less than the
   newcomer's.

In 1 and 3, streams of more crowded destinations go first. So an active stream gives way only to a newcomer whose
destination would have at most half as much as the stream's destination.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from bridges.streaming.limits import STANDING, UNFINISHED
from bridges.streaming.stream import Stream


def _one(_: Stream) -> int:
    return 1


def gives_way(
    streams: Iterable[Stream], newcomer: bytes, now: float, weight: Callable[[Stream], int] = _one, more: int = 1
) -> Stream | None:
    """Return the stream that gives way to a newcomer, or None when the newcomer is to be refused.

    Args:
        streams: the open streams; streams without weight give no room.
        newcomer: hash of the newcomer's destination.
        now: the time.
        weight: returns a stream's share of the scarce resource: 1 for places, or a number of bytes.
        more: the share that the newcomer wants.
    """
    weights: Counter[bytes] = Counter()
    candidates = []
    for stream in streams:
        if part := weight(stream):
            weights[_source(stream)] += part
            candidates.append(stream)

    def most_crowded(among: list[Stream]) -> Stream:
        crowd = max((_source(stream) for stream in among), key=weights.__getitem__)
        return min((stream for stream in among if _source(stream) == crowd), key=lambda stream: stream.progress)

    unfinished = [stream for stream in candidates if not _finished(stream) and now - stream.progress >= UNFINISHED]
    if unfinished:
        return most_crowded(unfinished)
    if not candidates:
        return None
    crowd, most = weights.most_common(1)[0]
    if most >= 2 * (weights[newcomer] + more):
        return min((stream for stream in candidates if _source(stream) == crowd), key=_standing)
    standing = [
        stream
        for stream in candidates
        if now - stream.progress >= STANDING and weights[_source(stream)] >= weights[newcomer]
    ]
    return most_crowded(standing) if standing else None


def _source(stream: Stream) -> bytes:
    return stream.peer.destination.hash


def _finished(stream: Stream) -> bool:
    return stream.served and stream.proven


def _standing(stream: Stream) -> tuple[bool, float]:
    """Return a sort key for the streams of a destination: unfinished ones first, then by the time of last progress."""
    return _finished(stream), stream.progress
