"""Shortens the addresses inside I2P in a text."""

import re
from typing import Final

_ADDRESS: Final = re.compile(r"\b([a-z2-7]{8})[a-z2-7]{44}\.b32\.i2p\b", re.ASCII)


def with_short_addresses(text: str) -> str:
    """Shorten the addresses inside I2P in a text: "qjwctoz2….b32.i2p"."""
    return _ADDRESS.sub(r"\1….b32.i2p", text)
