"""The errors of the transport: each `str()` is a sentence that says what to check."""


class TransportError(Exception):
    """Settings that cannot work: files that cannot be read, an endpoint that must not be dialled or listened on."""


class DialError(TransportError):
    """A peer could not be reached, or is not the one that the settings name."""


class UnreachableError(DialError):
    """The peer did not say a word: it does not run, or the way there is broken, at its end or at ours."""


class PeerRefusedError(DialError):
    """The peer's certificate is not the one that the settings name. Nothing of ours was sent to it."""


def credentials_refused(peer: str, user: str) -> DialError:
    """Give the error for a peer that answers credentials with a challenge: they are wrong, or it is something else."""
    return DialError(
        f"{peer} refuses user {user} or its password, or asks for credentials again and again: check both here and in "
        "the peer's secrets, and that it is one farm node's."
    )
