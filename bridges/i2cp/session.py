"""Beginning and end of a session on a connection, for publishing and for serving."""

import asyncio

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import Disconnect, SessionStatus, Status, create_session, destroy_session
from bridges.i2cp.refusals import session_refused
from bridges.i2cp.settings import I2cpSettings, RouterKind
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.session_config import SessionConfig


async def begin_session(connection: I2cpConnection, kind: RouterKind, config: SessionConfig) -> int:
    """Open a session, and return its number. Raises `RouterError`."""
    settings = connection.settings
    await connection.send(create_session(config.data))
    try:
        async with asyncio.timeout(settings.deadlines.answer):
            while True:
                answer: int | str
                match await connection.receive():
                    case SessionStatus(number, Status.CREATED):
                        return number
                    case SessionStatus(_, status):
                        answer = status
                    case Disconnect(reason):
                        answer = reason
                    case _:
                        continue
                raise session_refused(settings, kind, config, connection.router_ms(), answer)
    except TimeoutError as error:
        raise RouterUnreachableError(
            f"{settings} did not say within {settings.deadlines.answer:g} s whether it opens a session: see the "
            "router's log"
        ) from error


async def end_session(connection: I2cpConnection, number: int) -> None:
    """End the session at the router, wait for the end, and hang up. Before its end the router refuses a new session."""
    try:
        await connection.send(destroy_session(number))
        await connection.wait_for_end()
    except RouterError:
        pass  # the router is gone already
    finally:
        connection.close()


def session_ended(settings: I2cpSettings, reason: str) -> RouterRefusedError:
    """Make the error for a router that hangs up with a reason."""
    advice = "see the router's log"
    if "leaseset" in reason.lower():
        advice = "the router refused the lease set; check the clocks of both machines, and see the router's log"
    return RouterRefusedError(f"{settings} ended the session and says {reason!r}: {advice}")


def no_request(settings: I2cpSettings) -> RouterUnreachableError:
    """Make the error for a router that does not ask for the lease set of an open session."""
    return RouterUnreachableError(
        f"{settings} did not ask for the lease set within {settings.deadlines.tunnels:g} s: the tunnels are not built. "
        "See in the router's console whether the router knows peers and builds tunnels; after a start that takes "
        "minutes"
    )


def read_config(data: bytes, destination: Destination, *, subject: str, owner: str) -> SessionConfig:
    """Read a SessionConfig for a session of this destination. Raises `RouterRefusedError`.

    `subject` and `owner` are words of the error message: "its config is for ADDRESS, and {subject} for ADDRESS. Make
    the config for {owner}".
    """
    try:
        config = SessionConfig.parse(data)
    except NetDbError as error:
        raise RouterRefusedError(
            f"no session was opened: its config is broken, {error}. Make another config"
        ) from error
    if config.destination != destination:
        raise RouterRefusedError(
            f"no session was opened: its config is for {config.destination.b32}, and {subject} for {destination.b32}. "
            f"Make the config for {owner}"
        )
    return config
