"""Keys of destinations whose lease sets belong on a chosen kind of floodfill."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.router_info import RouterInfo
from integration.testnet.router_network import RouterPlace


def keys_close_to_java(floodfills: Sequence[RouterPlace]) -> tuple[DestinationKeys, RouterPlace | None]:
    """Make keys whose set belongs on a Java floodfill first, until midnight UTC; return that floodfill, too.

    Without a Java floodfill, the keys are any keys, and the floodfill is None.
    """
    if not any(each.kind == "java" for each in floodfills):
        return DestinationKeys.generate(), None
    hashes = {RouterInfo.parse((each.directory / "router.info").read_bytes()).hash: each for each in floodfills}
    day = f"{datetime.now(UTC):%Y%m%d}".encode()
    while True:
        keys = DestinationKeys.generate()
        place = int.from_bytes(hashlib.sha256(keys.destination.hash + day).digest())
        closest = min(hashes, key=lambda each: int.from_bytes(each) ^ place)
        if hashes[closest].kind == "java":
            return keys, hashes[closest]
