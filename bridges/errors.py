"""How a router can fail us."""


class RouterError(Exception):
    """The router, or one of its interfaces, cannot be used; `str()` says what to check, in a sentence."""


class RouterUnreachableError(RouterError):
    """Nobody answers where the interface should be, or the connection broke: it may come back by itself."""


class RouterRefusedError(RouterError):
    """The router answered, and said no: trying the same again will not help."""
