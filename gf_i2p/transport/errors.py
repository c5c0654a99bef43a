"""The errors of the transport, each with a sentence that says what to check; and the system's text for an `OSError`."""

import os

from gf_i2p.wire.errors import ProtocolError
from gf_i2p.wire.http_get import PeerNotReached, Retry, UserRefused
from gf_i2p.wire.proxy_login import ProxyLoginError


class TransportError(Exception):
    """The settings cannot work: a file cannot be read, or an endpoint must not be dialled or listened on."""


class DialError(TransportError):
    """A peer could not be reached, or is not the peer that the settings name."""


class UnreachableError(DialError):
    """The peer did not answer at all: the peer does not run, or the way to the peer is broken."""


class NotListeningError(UnreachableError):
    """The peer's machine has answered that no process listens at the peer's address: the peer does not run."""


class RejectedError(DialError):
    """No further attempt can help before somebody changes the settings, here or at the peer."""


class PeerRefusedError(RejectedError):
    """The peer's certificate is not the one that the settings name. Nothing was sent to the peer."""


class ProxyAccessError(DialError):
    """The router's proxy wants a login that is not set, or refuses the login: the peer was not asked at all."""


def dial_error_of(error: ProtocolError) -> type[DialError]:
    """Return the class of the error for a handshake that ended with this error."""
    if isinstance(error, ProxyLoginError):
        return ProxyAccessError
    if isinstance(error, UserRefused):
        return RejectedError
    return UnreachableError if isinstance(error, PeerNotReached) else DialError


def credentials_refused(peer: str, user: str) -> DialError:
    """Return the error for a peer that got credentials and asks for credentials again.

    Either the credentials are wrong, or the peer is no node of the farm.
    """
    return RejectedError(
        f"{peer} refuses user {user} or its password, or asks for credentials again and again: check both here and in "
        "the peer's secrets, and that the peer is a node of the farm."
    )


def challenged_again(retry: Retry, peer: str, user: str) -> DialError:
    """Return the error for a peer, or a proxy on the way, that asks for credentials once too often."""
    if not retry.by_proxy:
        return credentials_refused(peer, user)
    return ProxyAccessError(
        f"{peer} was not reached: the router's HTTP proxy asks for a user and a password again and again: check "
        "proxy_user and proxy_password, here and in the router."
    )


def error_text(error: OSError) -> str:
    """Return the system's text for an error, because event loops put other texts into `strerror`."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)  # of a name that is not found, the number is below 0
