"""The errors of the transport: each `str()` is a sentence that says what to check. And the text of an `OSError`."""

import os


class TransportError(Exception):
    """The settings cannot work: a file cannot be read, or an endpoint must not be dialled or listened on."""


class DialError(TransportError):
    """A peer could not be reached, or is not the peer that the settings name."""


class UnreachableError(DialError):
    """The peer did not answer at all: the peer does not run, or the way to the peer is broken."""


class PeerRefusedError(DialError):
    """The peer's certificate is not the one that the settings name. Nothing was sent to the peer."""


def credentials_refused(peer: str, user: str) -> DialError:
    """Return the error for a peer that answers credentials with a challenge: wrong credentials, or no farm node."""
    return DialError(
        f"{peer} refuses user {user} or its password, or asks for credentials again and again: check both here and in "
        "the peer's secrets, and that the peer is a node of the farm."
    )


def error_text(error: OSError) -> str:
    """Return the system's text for an error, because event loops put other texts into `strerror`."""
    return os.strerror(error.errno) if error.errno else str(error)
