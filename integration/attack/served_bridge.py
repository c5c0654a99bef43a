"""Attacks of a local process on `gf-i2p bridge serve`, on the production endpoint in the attacker's process."""

import asyncio
import json
import time
from typing import Any, Final

from bridges.serving.caller_access import PAUSE_SECONDS
from integration.attack.attack import Attack, Load, Outcome, Rights, Scene, named_after
from integration.attack.connections import bounded
from tests.bridges.serving.harness import PASSWORD, Served, serving

_GUESSERS: Final = 80
"""Connections that guess at once: more than the endpoint holds."""


async def local_guesses(scene: Scene) -> Load:
    """A local process guesses the password of `gf-i2p bridge serve` on 80 connections.

    Harm: the right caller is locked out, or waits as long as the guesser.
    """
    guesses, times = 0, list[float]()

    async def guess(endpoint: Served) -> None:
        nonlocal guesses
        while True:
            guesses += 1
            await endpoint.post(_login(f"guess {guesses}"))

    async def log_in(endpoint: Served) -> None:
        while True:
            began = time.monotonic()
            answer = await endpoint.post(_login(PASSWORD))
            times.append(time.monotonic() - began if b'"Token"' in answer else float("inf"))
            await asyncio.sleep(0.05)

    async with serving() as endpoint:
        work: list[Any] = [guess(endpoint) for _ in range(_GUESSERS)]
        await bounded(scene, asyncio.gather(*work, log_in(endpoint)))
    refused = times.count(float("inf"))
    slowest = max((each for each in times if each != float("inf")), default=float("inf"))
    harm = [f"{refused} of {len(times)} right passwords got no token"] if refused else []
    harm += [f"a right password took {slowest:.1f} s"] if slowest > PAUSE_SECONDS else []
    return Load(f"{guesses:,} guesses; {len(times)} right, {1000 * slowest:.0f} ms", tuple(harm))


def _login(password: str) -> bytes:
    call = {"id": 1, "jsonrpc": "2.0", "method": "Authenticate", "params": {"API": 1, "Password": password}}
    return json.dumps(call).encode()


ATTACKS: Final = (Attack(named_after(local_guesses), Rights.LOCAL, Outcome.KEPT, local_guesses),)
