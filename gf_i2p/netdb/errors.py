"""What can be wrong with netDb structures."""


class NetDbError(ValueError):
    """The base of the errors here; `str()` says what is wrong, in a sentence for the log."""


class StructureError(NetDbError):
    """Bytes, or a text, that are not the structure that they should be, or one that we do not know."""


class SignatureError(NetDbError):
    """A signature that does not verify, or one whose authority has ended."""


class LimitError(NetDbError):
    """A structure that a router would refuse, so that there is no use in making it."""
