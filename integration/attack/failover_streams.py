"""Attacks on the streams of mode `failover`, on the production forwarder and acceptor in the attacker's process."""

import asyncio
from typing import Final

from gf_i2p.netdb.private_keys import DestinationKeys
from integration.attack.attack import Attack, Load, Outcome, Rights, Scene, named_after
from integration.runs.streams import Loopback, serve_pages

_ATTACKERS: Final = 8
_FIRST_PACKETS: Final = 512
_CLIENTS: Final = 10
_PAGE_BYTES: Final = 2_000


async def first_packets(scene: Scene) -> Load:  # noqa: ARG001 -- the streams need no farm
    """Eight destinations send 512 first packets, half of them with a part of a request, and nothing more.

    Harm: ten honest clients get no stream. An older version answered none of them in 30 s.
    """
    server = await asyncio.start_server(serve_pages, "127.0.0.1", 0)
    line = Loopback(server.sockets[0].getsockname()[:2])
    try:
        attackers = [DestinationKeys.generate() for _ in range(_ATTACKERS)]
        for number in range(_FIRST_PACKETS):
            line.knock(attackers[number % _ATTACKERS], b"GET / HT" if number % 16 < _ATTACKERS else b"")
        honest = [DestinationKeys.generate() for _ in range(_CLIENTS)]
        times = await asyncio.gather(*(line.get(keys, _PAGE_BYTES) for keys in honest))
    finally:
        await line.forwarder.close()
        server.close()
    answered = [seconds for seconds in times if seconds is not None]
    harm = () if len(answered) == _CLIENTS else (f"{_CLIENTS - len(answered)} of {_CLIENTS} clients got no page",)
    slowest = f", slowest {1000 * max(answered):.0f} ms" if answered else ""
    return Load(f"512 from 8: {len(answered)} of {_CLIENTS} served{slowest}", harm)


ATTACKS: Final = (Attack(named_after(first_packets), Rights.STRANGER, Outcome.KEPT, first_packets),)
