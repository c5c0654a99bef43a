"""Reads the file in which a router keeps its profile of a peer: i2pd writes INI, Java gzipped properties."""

import zlib
from dataclasses import dataclass
from typing import Final

from gf_i2p.netdb.errors import StructureError

MAX_PROFILE_BYTES: Final = 1 << 18
"""Most bytes of an unpacked profile. Java's profiles have 10 to 20 KiB, because Java stores many rates."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAX_NUMBER: Final = 2**53
"""Largest number in a profile, also for seconds: as milliseconds, such a number still fits a column of 64 bits."""
_SECTIONS: Final = frozenset({"participation", "usage"})


@dataclass(frozen=True, slots=True)
class PeerProfile:
    """One router's profile of a peer. None: not in the file. Times are milliseconds since the epoch."""

    router: str
    """Kind of the router that keeps the profile: i2pd or java."""
    heard_ms: int | None = None
    """Time when the router last heard from the peer; in i2pd's profiles, when the profile last changed."""
    unreachable_ms: int | None = None
    """Time when the peer last could not be reached."""
    connected: bool | None = None
    """Whether there ever was a connection to the peer."""
    agreed: int | None = None
    """Tunnels in which the peer has agreed to take part."""
    declined: int | None = None
    failed: int | None = None
    """Tunnels through the peer that have failed; in i2pd's profiles, requests that the peer has not answered."""
    lookup_ms: int | None = None
    """Time when the peer last answered a lookup with the wanted entry."""
    lookup_failed_ms: int | None = None
    store_ms: int | None = None
    """Time when the peer last stored an entry that the router sent."""
    store_failed_ms: int | None = None
    bytes_s: float | None = None
    """The most that a tunnel through the peer has carried in a minute, in bytes per second."""


def parse_i2pd(data: bytes) -> PeerProfile:
    """Read i2pd's profile-….txt. Raises `StructureError`."""
    values = _pairs(data, sections=True)
    if not any("." in name for name in values):
        raise StructureError("this is not a profile of i2pd: the file has neither [participation] nor [usage]")
    return PeerProfile(
        "i2pd",
        heard_ms=_seconds(values, "lastupdatetimestamp"),
        unreachable_ms=_seconds(values, "lastunreachabletime"),
        connected=_boolean(values, "usage.connected"),
        agreed=_whole(values, "participation.agreed"),
        declined=_whole(values, "participation.declined"),
        failed=_whole(values, "participation.nonreplied"),
    )


def parse_java(data: bytes) -> PeerProfile:
    """Read Java's profile-….txt.gz. Raises `StructureError`."""
    values = _pairs(_unpacked(data), sections=False)
    if "tunnels.lifetimeAgreedTo" not in values and "lastHeardFrom" not in values:
        raise StructureError(
            "this is not a profile of Java I2P: the file has neither lastHeardFrom nor tunnels.lifetimeAgreedTo"
        )
    return PeerProfile(
        "java",
        heard_ms=_time(values, "lastHeardFrom"),
        unreachable_ms=_time(values, "lastFailedSend"),
        connected=None if (sent := _whole(values, "lastSentToSuccessfully")) is None else sent > 0,
        agreed=_whole(values, "tunnels.lifetimeAgreedTo"),
        declined=_whole(values, "tunnels.lifetimeRejected"),
        failed=_whole(values, "tunnels.lifetimeFailed"),
        lookup_ms=_time(values, "dbHistory.lastLookupSuccessful"),
        lookup_failed_ms=_time(values, "dbHistory.lastLookupFailed"),
        store_ms=_time(values, "dbHistory.lastStoreSuccessful"),
        store_failed_ms=_time(values, "dbHistory.lastStoreFailed"),
        bytes_s=_amount(values, "tunnelPeakTunnel1mThroughput"),
    )


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        text = unpacker.decompress(data, MAX_PROFILE_BYTES)
    except zlib.error as error:
        raise StructureError(f"this file is not in the format of gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise StructureError(f"the unpacked profile is larger than {MAX_PROFILE_BYTES} bytes")
    if not unpacker.eof:
        raise StructureError("the gzip data ends too early")
    return text


def _pairs(data: bytes, *, sections: bool) -> dict[str, str]:
    """Read lines NAME=VALUE; the last of two equal names counts. Raises `StructureError`.

    `sections`: a name below a line [SECTION] becomes SECTION.NAME.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StructureError("the profile is not text in UTF-8") from error
    section = ""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if sections and line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if not equals or line.startswith(("#", ";")) or (section and section not in _SECTIONS):
            continue
        values[f"{section}.{name.strip()}" if section else name] = value.strip()
    return values


def _whole(values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    digits = text.isascii() and text.removeprefix("-").isdigit() and len(text) <= len(str(_MAX_NUMBER))
    if not digits or int(text) > _MAX_NUMBER:
        raise StructureError(f"{name} is {text[:40]!r}, which is not a number up to {_MAX_NUMBER}")
    return max(int(text), 0)  # Java writes -1 for an unknown number


def _time(values: dict[str, str], name: str) -> int | None:
    return _whole(values, name) or None  # 0 stands for never


def _seconds(values: dict[str, str], name: str) -> int | None:
    seconds = _time(values, name)
    return None if seconds is None else seconds * 1000


def _amount(values: dict[str, str], name: str) -> float | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _MAX_NUMBER:
        raise StructureError(f"{name} is {text[:40]!r}, which is not a number from 0 to {_MAX_NUMBER}")
    return number


def _boolean(values: dict[str, str], name: str) -> bool | None:
    text = values.get(name)
    if text not in {None, "true", "false", "1", "0"}:
        raise StructureError(f"{name} is {str(text)[:40]!r}, which is neither true nor false")
    return None if text is None else text in {"true", "1"}
