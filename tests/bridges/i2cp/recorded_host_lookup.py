"""HostLookup as i2pd and Java I2P answer: whole frames, recorded by `integration/record/host_lookup.py`."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridges.i2cp.settings import RouterKind
from gf_i2p.netdb.private_keys import DestinationKeys

_STORED: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("recorded_host_lookup.json").read_text("utf-8"))
LIVING: Final = DestinationKeys.generate(random.Random(_STORED["seed"]).randbytes).destination
"""The destination that the routers found."""
KINDS: Final = (RouterKind.I2PD, RouterKind.JAVA)
_BODY: Final = 5
"""Where a frame's body begins: after length and type."""
_NUMBER: Final = slice(2, 6)
"""Where the number of the request stands in the body of an answer, after the session."""


@dataclass(frozen=True, slots=True)
class RecordedLookup:
    """One request and the answer, as whole frames."""

    request: bytes
    reply: bytes
    seconds: float
    """Seconds from the request to the answer."""

    def answer(self, number: bytes, destination: bytes) -> bytes:
        """Give the body of the answer to the request of this number, with this destination instead of `LIVING`."""
        body = bytearray(self.reply[_BODY:])
        body[_NUMBER] = number
        return bytes(body).replace(LIVING.data, destination)


def _read(exchange: dict[str, Any]) -> RecordedLookup:
    return RecordedLookup(bytes.fromhex(exchange["request"]), bytes.fromhex(exchange["reply"]), exchange["seconds"])


FOUND: Final = {kind: _read(_STORED["routers"][kind]["exchanges"]["found"]) for kind in KINDS}
"""The look-up of `LIVING`."""
NOT_FOUND: Final = {kind: _read(_STORED["routers"][kind]["exchanges"]["not found"]) for kind in KINDS}
"""The look-up of a hash that no destination has."""
