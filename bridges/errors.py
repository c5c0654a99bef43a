"""Errors of a router."""

import os


class RouterError(Exception):
    """The router or one of its interfaces cannot be used; `str()` is a sentence that says what to check."""


class RouterUnreachableError(RouterError):
    """The router's interface does not answer, or the connection broke. The interface may work again later."""


class RouterRefusedError(RouterError):
    """The router refused the request: sending the same request again will not help."""


class LoginRefusedError(RouterRefusedError):
    """The router wants a login that is not set, or refuses the login."""


class CertificateRefusedError(RouterRefusedError):
    """The router's certificate is not trusted. Nothing was sent to the router."""


def system_text(error: OSError) -> str:
    """Return the system's text for an error, because event loops put other texts into the error.

    Empty for a time-out of this program.
    """
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)  # of a name that is not found, the number is below 0
