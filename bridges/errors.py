"""Errors of a router."""


class RouterError(Exception):
    """The router or one of its interfaces cannot be used; `str()` says in a sentence what to check."""


class RouterUnreachableError(RouterError):
    """The interface does not answer, or the connection broke: it may come back by itself."""


class RouterRefusedError(RouterError):
    """The router answered with a refusal: the same request will not help."""
