"""Errors of a router."""


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
