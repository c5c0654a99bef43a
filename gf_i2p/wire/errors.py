"""The errors of the wire: violations of the protocol by each side, and failed requests to the farm."""


class ProtocolError(Exception):
    """A violation of proposal 150; `str()` says which, in a sentence for the log."""


class LocalProtocolError(ProtocolError):
    """An illegal message was about to be sent: a defect of the caller. No byte has left the machine."""


class RemoteProtocolError(ProtocolError):
    """A peer sent an illegal message: close its connection, because the stream cannot be resynchronised."""


class OversizeError(RemoteProtocolError):
    """A peer sent entries that are well-formed as far as they were read, and exceed a limit of `wire/limits.py`."""


class EndpointError(ProtocolError, ValueError):
    """A text is not a legal endpoint. The text may come from the operator or from a peer."""


class NotCommittedError(Exception):
    """A request to the farm has changed nothing, and never will: the caller can safely repeat the request.

    `str()` gives the reason, and advice.
    """


class OutcomeUnknownError(Exception):
    """The farm may have committed the request, or may commit it later. A repeated request may be stored twice."""
