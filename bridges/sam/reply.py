"""Reads SAM's replies, and takes values and texts from a reply: no I/O."""

import re
from typing import Final

from i2plib import sam

from bridges.errors import RouterError
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.private_keys import DestinationKeys

_MESSAGE: Final = re.compile(r'MESSAGE=(?:"([^"]*)"|(\S+))')
_SECRET: Final = re.compile(r"[A-Za-z0-9~=+/-]{60,}")
"""Such a text may be a private key in base64; a b32 address has 52 characters before its dot."""


def parse_reply(line: bytes) -> sam.Message | None:
    """Read one line; None for a line that is no reply: too few words, or not UTF-8."""
    try:
        return sam.Message(line)
    except ValueError:
        return None


def result_of(reply: sam.Message) -> str:
    """Return the result of a reply. A good `DEST REPLY` has no RESULT."""
    return str(reply.opts.get("RESULT", "OK" if reply.cmd == "DEST" else "nothing"))


def value_of(reply: sam.Message, name: str) -> str:
    """Return a value of a reply. Raises `RouterError`."""
    value = reply.opts.get(name)
    if not isinstance(value, str):
        raise RouterError(f"the router's SAM answered without {name}: is it SAM?")
    return value


def keys_of(text: str) -> DestinationKeys:
    """Read keys in base64. Raises `RouterError`."""
    try:
        return DestinationKeys.from_base64(text)
    except NetDbError as error:
        raise RouterError(f"the router's SAM gave invalid keys: {error}") from error


def destination_of(text: str) -> Destination:
    """Read a destination in base64. Raises `RouterError`."""
    try:
        return Destination.from_base64(text)
    except NetDbError as error:
        raise RouterError(f"the router's SAM gave an unusable destination: {error}") from error


def message_of(reply: sam.Message, *, secret: str | None) -> str:
    """Return the MESSAGE of a reply, as `printable` does; empty when there is none.

    `secret`: a password that the text must not show. A router that repeats the request would show the password.
    """
    match = _MESSAGE.search(repr(reply))
    raw = (match[1] or match[2] or "") if match else ""
    return printable(raw, secret)


def printable(text: str, secret: str | None = None) -> str:
    """Return the part of a foreign text that may be shown: printable, without possible keys, up to 200 characters.

    `secret`: a text that is not shown.
    """
    shown = "".join(letter for letter in text if letter.isprintable())
    if secret is not None:
        shown = shown.replace(secret, "...")
    return _SECRET.sub("...", shown)[:200]
