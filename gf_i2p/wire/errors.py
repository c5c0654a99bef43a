"""The errors of the wire: who broke the protocol, we or the peer."""


class ProtocolError(Exception):
    """Something does not follow proposal 150; `str()` says what, in a sentence for the log."""


class LocalProtocolError(ProtocolError):
    """We were about to send something illegal: a defect of the caller, nothing has left the machine."""


class RemoteProtocolError(ProtocolError):
    """A peer sent something illegal: close its connection, its stream has no way to find its place again."""


class EndpointError(ProtocolError, ValueError):
    """A text that should be an endpoint is none; the operator's own file or a peer may have written it."""
