"""Records of servers and of hostile clients."""

import json
from typing import Any

from gf_i2p.farm.record.status_record import Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.netdb.encoding import to_base64
from tests.netdb.strategies import KEYS

NOW = 1_790_000_000_000
MASTER = KEYS.destination


def leaf(number: int, *, up: bool = True) -> Leaf:
    return Leaf(number.to_bytes(32), up)


def record(
    server: int,
    *leaves: Leaf,
    date: int = NOW,
    up: bool = True,
    publish: str | None = "auto",
    published: int = 0,
    cluster: str = "farm",
    master: str = MASTER.base64,
    mode: str | None = None,
    **others: Any,
) -> StatusRecord:
    """`publish`: None for a server that does not know the master. `others`: as of `StatusRecord`."""
    meta = None if publish is None else Meta(master, publish, publishing=False, last_published_ms=published)
    config = None if mode is None else ReportedConfig(mode)
    return StatusRecord(cluster, date, server, up, meta=meta, leaves=leaves, config=config, **others)


def text(**changes: Any) -> bytes:
    """A good record of server 1, with other values in places; None takes one away."""
    fields: dict[str, Any] = {
        "cluster": "farm",
        "date": NOW,
        "id": 1,
        "router": {"up": True},
        "destinations": [{"hash": to_base64(bytes(32)), "up": True}],
        "meta": {"destination": MASTER.base64, "publishConfig": "auto", "publishing": True, "lastPublishedTime": NOW},
        **changes,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
