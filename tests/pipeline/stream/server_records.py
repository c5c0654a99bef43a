"""Records of one server, for tests that look at several servers of a farm."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gf_i2p.farm.record.status_record import Meta, StatusRecord
from tests.farm.strategies import MASTER, NOW, record


def said(
    server: int, times: Iterable[int], *, publishing: bool = False, skew: int = 0, **changes: Any
) -> list[tuple[int, StatusRecord]]:
    """Make a server's records. Each has a time, in seconds after `NOW`. `skew`: seconds that the clock is ahead."""
    meta = Meta(MASTER.base64, "auto", publishing=publishing, last_published_ms=0)
    return [(time, replace(record(server, date=NOW + (time + skew) * 1000, **changes), meta=meta)) for time in times]
