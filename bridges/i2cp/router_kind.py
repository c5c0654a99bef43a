"""Recognises the kind of router by the answer when a client ends a session that never existed."""

import asyncio

from bridges.errors import RouterError, RouterUnreachableError
from bridges.i2cp.connection import I2cpConnection
from bridges.i2cp.messages import NO_SESSION, Disconnect, SessionStatus, Status, destroy_session
from bridges.i2cp.settings import I2cpSettings, RouterKind


async def router_kind(settings: I2cpSettings) -> RouterKind:
    """Return the configured kind; for `AUTO`, ask the router on a separate connection. Raises `RouterError`.

    The question is a DestroySession for a session that does not exist. i2pd answers with SessionStatus "destroyed",
    and Java hangs up without a SessionStatus (i2pd 2.45.1, Java 2.8.0). The version in the router's SetDate does not
    help: i2pd 2.45 repeats the bridge's version.
    """
    if settings.kind is not RouterKind.AUTO:
        return settings.kind
    connection = await I2cpConnection.open(settings)
    try:
        await connection.send(destroy_session(NO_SESSION))
        async with asyncio.timeout(settings.deadlines.answer):
            return await _detect_kind(connection)
    except TimeoutError:
        raise RouterError(f"{settings} does not show whether it is i2pd or Java: set `kind`") from None
    finally:
        connection.close()


async def _detect_kind(connection: I2cpConnection) -> RouterKind:
    while True:
        try:
            message = await connection.receive()
        except RouterUnreachableError:
            # An i2pd that stops just now looks like Java. Then no session opens, and the next session asks again.
            return RouterKind.JAVA
        match message:
            case SessionStatus(session, Status.DESTROYED) if session == NO_SESSION:
                return RouterKind.I2PD
            case Disconnect():
                return RouterKind.JAVA
