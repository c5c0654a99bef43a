"""The errors of the wire: which side broke the protocol, and what became of a request to the farm."""


class ProtocolError(Exception):
    """Something does not follow proposal 150; `str()` says what, in a sentence for the log."""


class LocalProtocolError(ProtocolError):
    """We were about to send something illegal: a defect of the caller, nothing has left the machine."""


class RemoteProtocolError(ProtocolError):
    """A peer sent something illegal: close its connection, its stream has no way to find its place again."""


class EndpointError(ProtocolError, ValueError):
    """A text that should be an endpoint is none; the operator's own file or a peer may have written it."""


class NotCommittedError(Exception):
    """A request to the farm has surely changed nothing, and never will: to send it again is safe.

    `str()` says why, and what to do.
    """


class OutcomeUnknownError(Exception):
    """Nobody knows whether a request to the farm is committed, or will be: sent again, it may be stored twice."""
