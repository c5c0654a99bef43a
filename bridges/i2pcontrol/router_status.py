"""How the router does, by i2pcontrol: that part of `bridges.protocol` that i2pcontrol can answer.

Each call costs i2pd two lines in its log, for it reports the token and every name that it does not know as an error.
So we ask for what this router has answered before, and for settings seldom.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from bridges.errors import RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol import router_info as names
from bridges.i2pcontrol.access import Access
from bridges.i2pcontrol.jsonrpc_client import CALL_SECONDS, MAX_REQUEST_BYTES, JsonRpc, RpcError, UnknownMethodError
from bridges.i2pcontrol.router_info import Answer, Kind, ServerTunnel, server_tunnels
from bridges.i2pcontrol.strict_json import Json, clip
from gf_i2p.farm.record.router_facts import LeafStatus, RouterStatus
from gf_i2p.netdb.encoding import to_b32_address

KNOWN_SECONDS: Final = 600.0
"""How long we rely on what changes seldom: which values the router has, and its bandwidth limits."""
LAG_PERIOD_MS: Final = 60_000
"""Java keeps averages over this time."""
SAFE_TUNNELS_BYTES: Final = 640
"""Of the list of tunnels. i2pd has 1,024 for it and the 165 around it, and one more tunnel may add some 150."""
SAFE_TUNNELS: Final = 4
"""So many fit with names of up to 60 characters."""
MAX_NOTES: Final = 32

_USE_THE_LEAF: Final = "Configure the leaf's destination itself"


class I2pControl:
    """One router, asked by i2pcontrol. Methods raise `bridges.errors.RouterError`s, see `JsonRpc.call`.

    `ask_for_tunnels`: the operator says that this i2pd has at most `SAFE_TUNNELS` tunnels, servers and clients
    together. Without that the calls about leaves are refused, because they can kill the router: i2pd copies the list
    into a buffer without looking at its size (2.45.1 was well with 8 tunnels and died of 9; 2.58's source is the same).
    """

    def __init__(self, access: Access, *, ask_for_tunnels: bool = False) -> None:
        self.outages = 0
        """How often the router was found to be away: what was learnt before may be wrong now."""
        self._rpc = JsonRpc(access)
        self._ask_for_tunnels = ask_for_tunnels
        self._tunnels_bytes = 0
        self._keys: tuple[str, ...] = names.KEYS
        self._kind: Kind | None = None
        self._limits: tuple[int | None, int | None] | None = None
        self._known_until = 0.0
        self._notes: dict[str, None] = {}

    def __str__(self) -> str:
        return str(self._rpc)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was odd about this router's answers so far, each thing once, for people."""
        return tuple(self._notes)

    @property
    def kind(self) -> Kind | None:
        """Which router it is; None before the first status, and when that did not tell."""
        return self._kind

    async def call(
        self,
        method: str,
        params: Mapping[str, Json] | None = None,
        *,
        seconds: float = CALL_SECONDS,
        most: int = MAX_REQUEST_BYTES,
    ) -> dict[str, Json]:
        """Call any method; see `JsonRpc.call`. `UnknownMethodError` says that this router does not have it."""
        try:
            return await self._rpc.call(method, params, seconds=seconds, most=most)
        except RouterUnreachableError:
            self._forget()  # what comes back may be another version, or another router
            self.outages += 1
            raise

    async def close(self) -> None:
        """End all connections."""
        await self._rpc.close()

    # The router -----------------------------------------------------------------------------------------------------

    async def local_router_status(self) -> RouterStatus:
        """See `RouterBridge.local_router_status`. What the router does not say, or says oddly, is None; see `notes`."""
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
        answer = Answer(info, self._note)
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
        """In and out, bytes per second."""
        if self._limits is None:
            try:
                found = await self.call("NetworkSetting", {names.LIMIT_IN: None, names.LIMIT_OUT: None})
            except RpcError as error:
                self._note(str(error))
                found = {}
            answer = Answer(found, self._note)
            self._limits = _in_bytes(answer.count(names.LIMIT_IN)), _in_bytes(answer.count(names.LIMIT_OUT))
        return self._limits

    async def _job_lag(self) -> int | None:
        if self._kind is not Kind.JAVA:
            return None  # i2pd has no such thing
        try:
            rate = await self.call("GetRate", {"Stat": "jobQueue.jobLag", "Period": LAG_PERIOD_MS})
        except RpcError as error:
            self._note(str(error))
            return None
        return Answer(rate, self._note).count("Result")

    # Its leaves -----------------------------------------------------------------------------------------------------

    async def local_leaf_hash(self, tunnel_name: str) -> bytes:
        """Give the hash of the destination of the server tunnel with this name in i2pd's tunnels.conf."""
        tunnels = await self.tunnels()
        tunnel = next((tunnel for tunnel in tunnels if tunnel.name == tunnel_name), None)
        if tunnel is None:
            known = ", ".join(clip(each.name, 40) for each in tunnels[:5]) or "none at all"
            raise RouterRefusedError(
                f"{self} has no server tunnel {clip(tunnel_name)}; it has {known}. Take the name of a section "
                "of tunnels.conf; i2pd runs what stood there when it was started or reloaded"
            )
        found = tunnel.hash()
        if found is None:
            raise RouterRefusedError(
                f"{self} gives no b32 address for the server tunnel {clip(tunnel_name)}, but {clip(tunnel.address)}. "
                f"{_USE_THE_LEAF}"
            )
        return found

    async def local_leaf_status(self, leaf: bytes) -> LeafStatus:
        """See `LeafStatus`; only for leaves that are server tunnels of i2pd. Others are not up.

        `up` says less here than `RouterBridge.local_leaf_status`: that i2pd has the tunnel in its list.
        """
        address = to_b32_address(leaf)
        for tunnel in await self.tunnels():
            if tunnel.address.lower() == address:
                return LeafStatus(up=True, name=tunnel.name)
        return LeafStatus(up=False)

    async def tunnels(self) -> list[ServerTunnel]:
        """List i2pd's server tunnels. Refused when that is not safe."""
        if not self._ask_for_tunnels:
            raise RouterRefusedError(
                f"{self} is not asked for its tunnels: i2pd would write a long list past the end of a buffer, and die. "
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
                f"{self} does not tell its tunnels, for only i2pd does. {_USE_THE_LEAF}: Java shows it on the page of "
                "the hidden service"
            ) from error
        self._tunnels_bytes = len(json.dumps(services, separators=(",", ":")))
        return server_tunnels(services)

    def _note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[text] = None


def _in_bytes(limit: int | None) -> int | None:
    return None if limit is None else limit * names.LIMIT_UNIT
