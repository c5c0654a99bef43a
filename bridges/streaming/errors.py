"""What can be wrong with what comes from the network: each is a reason to drop it, no more."""


class StreamingError(Exception):
    """What came is dropped; `str()` says why, for the log."""


class PacketError(StreamingError):
    """Bytes that are no packet, or a packet that must not be like this."""
