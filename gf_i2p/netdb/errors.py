"""Errors of netDb structures."""


class NetDbError(ValueError):
    """Base of the errors here; `str()` gives the reason, in a sentence for the log."""


class StructureError(NetDbError):
    """Bytes or a text with the wrong structure, or with an unknown one."""


class SignatureError(NetDbError):
    """A signature that does not verify, or whose authority has ended."""


class LimitError(NetDbError):
    """A structure would pass a limit of the routers, which would refuse the structure."""
