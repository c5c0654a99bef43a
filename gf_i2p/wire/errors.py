"""The errors of the wire: the side that broke the protocol, and the outcome of a request to the farm."""


class ProtocolError(Exception):
    """A violation of proposal 150; `str()` says which, in a sentence for the log."""


class LocalProtocolError(ProtocolError):
    """An illegal message was about to be sent: a defect of the caller. No byte has left the machine."""


class RemoteProtocolError(ProtocolError):
    """A peer sent an illegal message: close its connection, because the stream cannot be resynchronised."""


class EndpointError(ProtocolError, ValueError):
    """A text that should be an endpoint is none. Its author may be the operator or a peer."""


class NotCommittedError(Exception):
    """A request to the farm has surely changed nothing, and never will: a repetition is safe.

    `str()` says why, and gives advice.
    """


class OutcomeUnknownError(Exception):
    """The outcome of a request to the farm is unknown: it may be committed, and a repetition may store it twice."""
