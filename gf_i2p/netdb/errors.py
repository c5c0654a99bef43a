"""Errors of netDb structures."""


class NetDbError(ValueError):
    """Base class of the errors of this package; `str()` gives the reason."""


class StructureError(NetDbError):
    """The bytes or the text do not have the expected structure, or have a type that is not supported."""


class SignatureError(NetDbError):
    """A signature does not verify, a transient key has expired, or a key must not sign for the destination."""


class LimitError(NetDbError):
    """A value exceeds the limit of its field or of the routers; routers would refuse the structure."""
