"""SAM of Java I2P 2.8.0 about destinations that live or are dead, with the recorded answers (`recorded_java_sam.json`).

Java keeps a name that was found once, and never asks the floodfills about that name again. A stream to such a name is
tried for minutes. The minutes pass on a clock of the test's.
"""

import asyncio
import contextlib
import json
import math
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gf_i2p.netdb.destination import Destination
from tests.bridges.sam.scripted_sam import Answer, Connection, ScriptedSam, words_of
from tests.transport.harness import until


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded line of Java's SAM, and the seconds until the line came."""

    reply: str
    seconds: float


RECORDED: Final = {
    name: Recorded(exchange["reply"], exchange["seconds"])
    for name, exchange in json.loads(Path(__file__).with_name("recorded_java_sam.json").read_text())[
        "exchanges"
    ].items()
}
"""The answers: about the living, the dead, and nobody."""


class TestClock:
    """Seconds; only the test moves the clock."""

    __test__ = False  # no test class of pytest

    def __init__(self) -> None:
        self.now = 0.0
        self._moved = asyncio.Event()

    def advance(self, seconds: float) -> None:
        """Let this time pass."""
        self.now += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Return when this time has passed."""
        end = self.now + seconds
        while self.now < end:
            await self._moved.wait()


class JavaSam(ScriptedSam):
    """A simulated SAM of Java. Tests make one by `java_sam`."""

    def __init__(self) -> None:
        super().__init__({})
        self.clock = TestClock()
        self.living: dict[str, Destination] = {}
        """Destinations with a current lease set, by b32 address. A test lets one die by taking it out."""
        self._names: dict[str, Destination] = {}

    async def answer(self, connection: Connection) -> Answer:
        """See `ScriptedSam.answer`."""
        words = words_of(connection.heard[-1])
        match connection.verb:
            case "NAMING LOOKUP":
                return await self._look_up(words["NAME"])
            case "STREAM CONNECT":
                return await self._connect(words["DESTINATION"])
            case _:
                return await super().answer(connection)

    async def _look_up(self, name: str) -> bytes:
        found = self._names.setdefault(name, self.living[name]) if name in self.living else self._names.get(name)
        if found is None:
            return await self._after("lookup of nobody", NAME=name)
        return await self._after("lookup of the dead, later", NAME=name, VALUE=found.base64)

    async def _connect(self, name: str) -> Answer:
        if name in self.living:
            self._names[name] = self.living[name]
            return self.answers["STREAM CONNECT"]
        return await self._after("connect to the dead" if name in self._names else "connect to nobody")

    async def _after(self, name: str, **words: str) -> bytes:
        """Give a recorded answer after the recorded time, with these words in place of the recorded ones."""
        recorded = RECORDED[name]
        await self.clock.sleep(recorded.seconds)
        line = recorded.reply
        for key, word in words.items():
            line = re.sub(rf" {key}=\S+", f" {key}={word}", line)
        return line.encode() + b"\n"


@contextlib.asynccontextmanager
async def java_sam() -> AsyncIterator[JavaSam]:
    """Give a SAM that listens. In the end all clients have hung up."""
    found = JavaSam()
    await found.start()
    try:
        yield found
        found.clock.advance(math.inf)  # an answer that nobody waits for any more
        await until(lambda: all(connection.gone for connection in found.connections))
    finally:
        await found.stop()
