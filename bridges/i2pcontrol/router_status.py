"""The router's status by i2pcontrol: the part of `bridges.router_protocol` that i2pcontrol can answer.

Each call adds two lines to i2pd's log, because i2pd reports the token and every unknown name as an error. So we only
ask for names that this router has answered before, and seldom for settings.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from bridges.errors import RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol import router_answers as names
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.jsonrpc_client import CALL_SECONDS, MAX_REQUEST_BYTES, JsonRpc, RpcError, UnknownMethodError
from bridges.i2pcontrol.router_answers import CheckedAnswer, I2pdTunnel, RouterProgram, server_tunnels
from bridges.i2pcontrol.strict_json import Json, clip
from gf_i2p.farm.record.router_facts import LeafStatus, RouterStatus
from gf_i2p.netdb.encoding import to_b32_address

KNOWN_SECONDS: Final = 600.0
"""Seconds for which facts that change seldom are kept: the names that the router answers, and its bandwidth limits."""
LAG_PERIOD_MS: Final = 60_000
"""Period of Java's averages, in ms."""
SAFE_TUNNELS_BYTES: Final = 640
"""Safe size of the list of tunnels, in bytes. i2pd's buffer has 1,024; the rest of the answer needs 165, and a new
tunnel may add about 150."""
SAFE_TUNNELS: Final = 4
"""Most tunnels, with names of up to 60 characters, whose list does not crash i2pd."""
MAX_NOTES: Final = 32

_USE_THE_LEAF: Final = "Configure the leaf's destination itself"


class I2pControl:
    """One router's i2pcontrol. Methods raise `bridges.errors.RouterError`s, see `JsonRpc.call`.

    `ask_for_tunnels`: the operator says that this i2pd has at most `SAFE_TUNNELS` tunnels, servers and clients
    together. Otherwise the calls about leaves are refused, because such a call can crash the router: i2pd copies the
    list into a buffer without checking the size. i2pd 2.45.1 worked with 8 tunnels, and crashed with 9. i2pd 2.58 has
    the same source.
    """

    def __init__(self, access: I2pControlAccess, *, ask_for_tunnels: bool = False) -> None:
        self.outages = 0
        """How often the router was away. A higher number means that earlier facts may be wrong now."""
        self._rpc = JsonRpc(access)
        self._ask_for_tunnels = ask_for_tunnels
        self._tunnels_bytes = 0
        self._keys: tuple[str, ...] = names.KEYS
        self._kind: RouterProgram | None = None
        self._limits: tuple[int | None, int | None] | None = None
        self._known_until = 0.0
        self._notes: dict[str, None] = {}

    def __str__(self) -> str:
        return str(self._rpc)

    @property
    def notes(self) -> tuple[str, ...]:
        """Unexpected values in this router's answers so far, each once, as sentences for the operator."""
        return tuple(self._notes)

    @property
    def kind(self) -> RouterProgram | None:
        """The kind of router; None before the first status, and when the last status did not show the kind."""
        return self._kind

    async def call(
        self,
        method: str,
        params: Mapping[str, Json] | None = None,
        *,
        seconds: float = CALL_SECONDS,
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> dict[str, Json]:
        """Call any method; see `JsonRpc.call`. Raises `UnknownMethodError` when this router lacks the method."""
        try:
            return await self._rpc.call(method, params, seconds=seconds, max_bytes=max_bytes)
        except RouterUnreachableError:
            self._forget()  # another version or another router may come back
            self.outages += 1
            raise

    async def close(self) -> None:
        """End all connections."""
        await self._rpc.close()

    # The router -----------------------------------------------------------------------------------------------------

    async def local_router_status(self) -> RouterStatus:
        """See `RouterBridge.local_router_status`. A value that is missing or out of range is None.

        `notes` then has a sentence about the value.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._known_until:
            self._forget()
            self._known_until = now + KNOWN_SECONDS
        info = await self.call("RouterInfo", dict.fromkeys(self._keys))
        self._kind = names.kind(info)
        if self._kind is None:
            self._note("the router's answer does not tell whether it is i2pd or Java I2P")
            self._keys = names.KEYS
        else:
            self._keys = tuple(name for name in self._keys if name in info)
        answer = CheckedAnswer(info, self._note)
        inbound, outbound = await self._bandwidth_limits()
        return RouterStatus(
            uptime_ms=answer.count(names.UPTIME),
            version=answer.text(names.VERSION),
            reachability=names.reachability(self._kind, answer, self._note),
            participating_tunnels=answer.count(names.PARTICIPATING),
            job_lag_ms=await self._job_lag(),
            configured_inbound=inbound,
            configured_outbound=outbound,
            current_inbound=answer.amount(names.INBOUND),
            current_outbound=answer.amount(names.OUTBOUND),
            known_peers=answer.count(names.KNOWN_PEERS),
            active_peers=answer.count(names.ACTIVE_PEERS),
        )

    def _forget(self) -> None:
        self._keys = names.KEYS
        self._kind = None
        self._limits = None
        self._known_until = 0.0

    async def _bandwidth_limits(self) -> tuple[int | None, int | None]:
        """Return the limits in and out, in bytes per second."""
        if self._limits is None:
            try:
                limits = await self.call("NetworkSetting", {names.LIMIT_IN: None, names.LIMIT_OUT: None})
            except RpcError as error:
                self._note(str(error))
                limits = {}
            answer = CheckedAnswer(limits, self._note)
            self._limits = _in_bytes(answer.count(names.LIMIT_IN)), _in_bytes(answer.count(names.LIMIT_OUT))
        return self._limits

    async def _job_lag(self) -> int | None:
        if self._kind is not RouterProgram.JAVA:
            return None  # i2pd does not measure a job lag
        try:
            rate = await self.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": LAG_PERIOD_MS})
        except RpcError as error:
            self._note(str(error))
            return None
        return CheckedAnswer(rate, self._note).count("Result")

    # The leaves -----------------------------------------------------------------------------------------------------

    async def local_leaf_hash(self, tunnel_name: str) -> bytes:
        """Return the destination's hash for the server tunnel with this name in i2pd's tunnels.conf."""
        tunnels = await self.tunnels()
        tunnel = next((tunnel for tunnel in tunnels if tunnel.name == tunnel_name), None)
        if tunnel is None:
            listing = ", ".join(clip(each.name, 40) for each in tunnels[:5]) or "none at all"
            raise RouterRefusedError(
                f"{self} has no server tunnel {clip(tunnel_name)}; it has {listing}. Take the name of a section "
                "of tunnels.conf. A new section works after a restart or reload of i2pd"
            )
        leaf_hash = tunnel.hash()
        if leaf_hash is None:
            raise RouterRefusedError(
                f"{self} gives no b32 address for the server tunnel {clip(tunnel_name)}, but {clip(tunnel.address)}. "
                f"{_USE_THE_LEAF}"
            )
        return leaf_hash

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """Return the state of a leaf that is a server tunnel of i2pd. Any other leaf counts as not up.

        Here `up` only means that i2pd lists the tunnel, which is less than in `RouterBridge.local_leaf_status`.
        """
        address = to_b32_address(leaf)
        for tunnel in await self.tunnels():
            if tunnel.address.lower() == address:
                return LeafStatus(up=True, name=tunnel.name)
        return LeafStatus(up=False)

    async def tunnels(self) -> list[I2pdTunnel]:
        """List i2pd's server tunnels. Raises `RouterRefusedError` when the question is not safe."""
        if not self._ask_for_tunnels:
            raise RouterRefusedError(
                f"{self} is not asked for its tunnels: i2pd would write a long list past a buffer's end, and crash. "
                f"{_USE_THE_LEAF}, or, if this i2pd has at most {SAFE_TUNNELS} tunnels, servers and clients together, "
                "allow the question"
            )
        if self._tunnels_bytes > SAFE_TUNNELS_BYTES:
            raise RouterRefusedError(
                f"{self} is not asked for its tunnels any more: the list had {self._tunnels_bytes} bytes, and a longer "
                f"one could kill i2pd. {_USE_THE_LEAF}"
            )
        try:
            services = await self.call("ClientServicesInfo", {"I2PTunnel": None})
        except UnknownMethodError as error:
            raise RouterRefusedError(
                f"{self} does not tell its tunnels: only i2pd does. {_USE_THE_LEAF}. Java shows the destination on the "
                "page of the hidden service"
            ) from error
        self._tunnels_bytes = len(json.dumps(services, separators=(",", ":")))
        return server_tunnels(services)

    def _note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[text] = None


def _in_bytes(limit: int | None) -> int | None:
    return None if limit is None else limit * names.LIMIT_UNIT
