"""The ways between servers: how long a message takes, which ways are cut, and how likely a message is lost."""

from collections import Counter
from random import Random
from typing import Final, NamedTuple

from gf_i2p.simulator.events import Events

CLIENTS: Final = 0
"""The one id of all clients; no server has this id."""


class Delay(NamedTuple):
    """Duration of one way, in seconds: `least`, and up to `jitter` more; seldom, up to `spike` more than that."""

    least: float
    jitter: float
    spike_chance: float = 0.0
    spike: float = 0.0

    def seconds(self, rng: Random) -> float:
        """Draw a duration."""
        seconds = self.least + self.jitter * rng.random() ** 3
        if self.spike_chance and rng.random() < self.spike_chance:
            seconds += self.spike * rng.random()
        return seconds


LAN: Final = Delay(0.0002, 0.002, 0.002, 0.3)
"""Switched Ethernet, and a garbage collection now and then."""
I2P: Final = Delay(0.3, 1.2, 0.01, 20.0)
"""Tunnels of three hops each, some of which are being rebuilt."""


class SimulatedNetwork:
    """All ways of one run."""

    def __init__(
        self,
        events: Events,
        rng: Random,
        ways: dict[tuple[int, int], Delay],
        counts: Counter[str],
        *,
        retry: float,
        patience: float,
    ) -> None:
        """`retry`: seconds until a held-up message tries again. `patience`: seconds for one answer."""
        self.events = events
        self.rng = rng
        self.counts = counts
        self.retry = retry
        self.patience = patience
        self.drop_chance = 0.0
        """Chance that a message is lost, where messages travel alone. The next two: chances of a double and a delay."""
        self.duplicate_chance = 0.0
        self.straggle_chance = 0.0
        self._ways = ways
        self._cuts: Counter[tuple[int, int]] = Counter()
        self._found_at: dict[tuple[int, int], float] = {}
        self._connections = 0

    def calm(self) -> None:
        """End the network's own faults: no losses, no spikes. Messages on the way may still be late."""
        self.drop_chance = self.duplicate_chance = self.straggle_chance = 0.0
        self._found_at.clear()
        self._ways = {pair: way._replace(spike_chance=0.0) for pair, way in self._ways.items()}

    def seconds(self, sender: int, receiver: int) -> float:
        """Draw the duration of a message."""
        return self._ways[sender, receiver].seconds(self.rng)

    def is_cut(self, sender: int, receiver: int) -> bool:
        """Whether nothing passes in this direction now."""
        return self._cuts[sender, receiver] > 0

    def cut(self, sender: int, receiver: int) -> None:
        """Let nothing pass in this direction, until `heal` was called as often as `cut`."""
        self._cuts[sender, receiver] += 1

    def heal(self, sender: int, receiver: int) -> None:
        """Undo one `cut`."""
        assert self._cuts[sender, receiver] > 0
        self._cuts[sender, receiver] -= 1

    def hide(self, dialler: int, acceptor: int, until: float) -> None:
        """Let no dial in this direction succeed before that time: the acceptor's new address is not found yet."""
        self._found_at[dialler, acceptor] = until

    def hidden(self, dialler: int, acceptor: int) -> float:
        """Return the seconds until a dial in this direction can begin; 0 usually."""
        return max(self._found_at.get((dialler, acceptor), 0.0) - self.events.now, 0.0)

    def next_connection(self) -> int:
        """Return the number of a new connection: 1, 2, 3, ..."""
        self._connections += 1
        return self._connections
