"""Reasons why a router may have refused a session, with advice."""

from typing import Final

from bridges.errors import RouterRefusedError
from bridges.i2cp.messages import Status
from bridges.i2cp.settings import I2cpSettings, RouterKind
from gf_i2p.netdb.errors import SignatureError
from gf_i2p.netdb.session_config import SessionConfig

_JAVA_SECONDS: Final = 180
"""Most seconds between a SessionConfig's date and a Java router's clock."""


def session_refused(
    settings: I2cpSettings, kind: RouterKind, config: SessionConfig, router_ms: int, answer: int | str
) -> RouterRefusedError:
    """Make the error for a session that was not opened.

    Args:
        settings: for the router's address.
        kind: i2pd or Java.
        config: the refused config.
        router_ms: the router's clock at the refusal, milliseconds since the epoch.
        answer: the number in the router's SessionStatus, or the reason in the router's Disconnect (Java).
    """
    if isinstance(answer, int):
        text = f"SessionStatus {answer} ({Status(answer).name.lower() if answer in set(Status) else 'unknown'})"
    else:
        text = repr(answer)
    cause = (
        _i2pd_cause(config, answer) if kind is RouterKind.I2PD else _java_cause(config, router_ms, str(answer).lower())
    )
    return RouterRefusedError(f"{settings} refused the session of {config.destination.b32} with {text}: {cause}")


def _i2pd_cause(config: SessionConfig, answer: int | str) -> str:
    if answer != Status.INVALID:
        return "see the router's log"
    if config.delegated:
        return (
            "the session config is signed by a transient key, and i2pd takes only a config that the destination's "
            "own key has signed. Make such a config once with `gf-i2p keys delegate`, on the machine that has the "
            "destination's key; i2pd does not look at the config's date. The transient key may still sign the lease set"
        )
    try:
        config.verify()
    except SignatureError:
        return "the session config is not signed by the destination's own key: make it anew"
    return (
        "another client of this router holds the destination. Stop the program with the same keys: another node, a "
        "tunnel in tunnels.conf, a SAM session"
    )


def _java_cause(config: SessionConfig, router_ms: int, reason: str) -> str:
    if "duplicate" in reason:
        return (
            "another client of this router holds the destination. Stop the program with the same keys: another node, a "
            "tunnel in the Hidden Services Manager, a SAM session"
        )
    off = (config.date_ms - router_ms) / 1000
    if "skew" in reason or abs(off) > _JAVA_SECONDS:
        return (
            f"the session config's date is {abs(off):.0f} s {'after' if off > 0 else 'before'} the router's clock, and "
            f"Java allows {_JAVA_SECONDS} s. Make a fresh config for each session, and check the clocks of both "
            "machines"
        )
    if config.destination.crypto_type != 0:
        return (
            f"the destination's crypto type is {config.destination.crypto_type}, and Java takes only 0: the service "
            "needs a new destination to be published through Java, or an i2pd as its publisher"
        )
    if config.delegated:
        return (
            "the session config is signed by a transient key: check that the key's authorisation has not ended, and "
            "that this destination has signed the authorisation"
        )
    try:
        config.verify()
    except SignatureError:
        return "the session config is not signed by the destination's own key: make it anew"
    return "see the router's log"
