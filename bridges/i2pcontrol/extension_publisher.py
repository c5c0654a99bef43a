"""Publishes through an i2pcontrol endpoint that has gf-i2p's extension (docs/reference/router-interface.md)."""

import asyncio
from typing import Final

from bridges.errors import RouterError, RouterUnreachableError
from bridges.i2pcontrol.extension import (
    MAX_REQUEST_BYTES,
    Code,
    Method,
    PublicationPhase,
    PublicationState,
    decode_publication_state,
    encode_publication,
)
from bridges.i2pcontrol.jsonrpc_client import CALL_SECONDS, RpcError, UnknownMethodError
from bridges.i2pcontrol.router_status import I2pControl
from bridges.i2pcontrol.strict_json import Json
from bridges.router_protocol import Publication
from gf_i2p.netdb.encoding import to_base64

ANSWER_SECONDS: Final = 2.0
"""Seconds for which an endpoint may keep a call open: the node's other calls wait meanwhile."""
POLL_SECONDS: Final = 1.0
"""Seconds between two questions for the state while tunnels are built."""
OPENING_SECONDS: Final = 300.0
"""Seconds until the node gives up an opening. An endpoint that publishes by I2CP gives up earlier (`Deadlines`)."""
WATCH_SECONDS: Final = 10.0
"""Seconds between two checks of the published sets."""
MISSES: Final = 3
"""Missing answers in a row after which the endpoint and its sets count as lost. Fewer may be a restart."""
CLOSE_SECONDS: Final = 5.0


class ExtensionPublisher:
    """Implements `MetaPublishing` by calls to an i2pcontrol endpoint, which publishes in the node's place.

    A task checks every `WATCH_SECONDS` whether the endpoint still publishes each set.
    """

    def __init__(self, control: I2pControl) -> None:
        """The caller makes and closes `control`, the client of the i2pcontrol endpoint."""
        self._control = control
        self._troubles: dict[bytes, str | None] = {}  # of each published master
        self._misses = 0
        self._watching: asyncio.Task[None] | None = None

    async def available(self) -> bool:
        """Return whether the endpoint has the extension. Raises `RouterError` when the answer leaves that open."""
        try:
            await self._control.call(Method.PUBLISH, {})
        except UnknownMethodError:
            return False
        except RpcError as error:
            if error.code == Code.PARAMETERS:  # an endpoint that misses parameters knows the method
                return True
            raise
        return False

    async def publish_meta_lease_set(self, publication: Publication) -> None:
        """See `MetaPublishing`. While the endpoint builds tunnels, this method asks for the state every second."""
        master = publication.lease_set.destination.hash
        self._troubles[master] = "the first set is on its way"
        try:
            await self._publish(master, publication)
        except RouterError as error:
            self._note(master, str(error))
            raise
        self._note(master, None)
        self._misses = 0
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def stop_publishing_meta_lease_set(self, master: bytes) -> None:
        """See `MetaPublishing`."""
        if master in self._troubles:
            del self._troubles[master]
            await self._stop(master, CALL_SECONDS)

    def publication_trouble(self, master: bytes) -> str | None:
        """See `MetaPublishing`. Trouble shows some seconds late: the endpoint is asked every `WATCH_SECONDS`."""
        return self._troubles.get(master, "nothing is published")

    async def close(self) -> None:
        """Stop all publications. An endpoint that cannot be reached ends a publication later, when no renewal comes."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        masters = list(self._troubles)
        self._troubles.clear()
        await asyncio.gather(*(self._stop(master, CLOSE_SECONDS) for master in masters), return_exceptions=True)

    async def _publish(self, master: bytes, publication: Publication) -> None:
        params = encode_publication(publication, ANSWER_SECONDS)
        state = decode_publication_state(await self._control.call(Method.PUBLISH, params, max_bytes=MAX_REQUEST_BYTES))
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                while _under_way(state, publication.lease_set.published):
                    await asyncio.sleep(POLL_SECONDS)
                    state = await self._ask_state(master)
        except TimeoutError as error:
            raise RouterUnreachableError(
                f"{self._control} has not given the set to the router within {OPENING_SECONDS:g} s: see its log"
            ) from error
        if state.state is not PublicationPhase.SENT:
            raise RouterError(_failure_text(self._control, state))

    async def _ask_state(self, master: bytes) -> PublicationState:
        return decode_publication_state(await self._control.call(Method.PUBLICATION, _master_params(master)))

    async def _stop(self, master: bytes, seconds: float) -> None:
        await self._control.call(Method.STOP, {**_master_params(master), "Timeout": seconds}, seconds=seconds)

    # Checks of published sets -----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while self._troubles:
            await asyncio.sleep(WATCH_SECONDS)
            for master in list(self._troubles):
                await self._check(master)

    async def _check(self, master: bytes) -> None:
        try:
            state = await self._ask_state(master)
        except RouterUnreachableError as error:
            self._misses += 1
            if self._misses >= MISSES:
                self._note(master, str(error))
        except RouterError as error:
            self._note(master, str(error))
        else:
            self._misses = 0
            well = state.state in {PublicationPhase.SENT, PublicationPhase.OPENING}
            self._note(master, None if well else _failure_text(self._control, state))

    def _note(self, master: bytes, trouble: str | None) -> None:
        if master in self._troubles:  # publishing may have been stopped meanwhile
            self._troubles[master] = trouble


def _under_way(state: PublicationState, published: int) -> bool:
    """Return whether the router has yet to get the set of this `published`. Until then the set before may be "sent"."""
    if state.state is PublicationPhase.SENT:
        return state.published is not None and state.published < published
    return state.state is PublicationPhase.OPENING


def _master_params(master: bytes) -> dict[str, Json]:
    return {"MasterHash": to_base64(master)}


def _failure_text(control: I2pControl, state: PublicationState) -> str:
    if state.state is PublicationPhase.IDLE:
        return f"{control} publishes nothing for this master: the endpoint stopped meanwhile, or restarted"
    return f"{control} has lost the publication: {state.reason or 'no reason is given'}"
