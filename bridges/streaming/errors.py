"""Errors of data from the network: each is a reason to drop the data, and no more."""


class StreamingError(Exception):
    """The data is dropped; `str()` says why, for the log."""


class PacketError(StreamingError):
    """Bytes that are no packet, or a packet with forbidden content."""
