"""The ways between servers: how long a message takes, which ways are cut, and how likely a message is lost."""

from collections import Counter
from random import Random
from typing import Final, NamedTuple

from gf_i2p.simulator.events import Events

CLIENTS: Final = 0
"""The one id of all clients; no server has this id."""


class Delay(NamedTuple):
    """Random duration, in seconds: `least`, and up to `jitter` more.

    With the chance `spike_chance`, 0 to 1, the duration is up to `spike` longer than that.
    """

    least: float
    jitter: float
    spike_chance: float = 0.0
    spike: float = 0.0

    def seconds(self, rng: Random) -> float:
        """Return a random duration, in seconds."""
        seconds = self.least + self.jitter * rng.random() ** 3
        if self.spike_chance and rng.random() < self.spike_chance:
            seconds += self.spike * rng.random()
        return seconds


LAN: Final = Delay(0.0002, 0.002, 0.002, 0.3)
"""Delay of switched Ethernet; the spikes stand for garbage collections."""
I2P: Final = Delay(0.3, 1.2, 0.01, 20.0)
"""Delay of I2P tunnels of three hops each; the spikes stand for tunnels that are being rebuilt."""


_LATE_SHARE: Final = 0.25
"""Share of the broken connections whose lost requests the core hears of late, perhaps after the next connection."""


class SimulatedNetwork:
    """The network of one run: each pair of a sender and a receiver has a way."""

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
        """Begin without cuts and losses.

        Args:
            events: the run's events.
            rng: the run's source of random numbers.
            ways: by (sender, receiver), the delay of a message.
            counts: gets the number of each kind of message fault.
            retry: seconds after which a held-up message tries again.
            patience: seconds for which a sender waits for one answer.
        """
        self.events = events
        self.rng = rng
        self.counts = counts
        self.retry = retry
        self.patience = patience
        self.drop_chance = 0.0
        """Chance, 0 to 1, that a message is lost, where messages travel alone (`datagrams`). `duplicate_chance` and
        `straggle_chance` are the chances that such a message arrives twice, or much later."""
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

    def late(self, longest: float) -> float:
        """Return after how many seconds, up to `longest`, a core hears of the requests that a lost connection had.

        Nobody promises that a core hears of lost requests before it hears of the next connection.
        """
        return longest * self.rng.random() if self.rng.random() < _LATE_SHARE else 0.0

    def seconds(self, sender: int, receiver: int) -> float:
        """Return the random duration of a message's way, in seconds."""
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
        """Let no dial in this direction succeed before `until`: the dialler does not find the new address earlier."""
        self._found_at[dialler, acceptor] = until

    def hidden(self, dialler: int, acceptor: int) -> float:
        """Return the seconds until a dial in this direction can begin; 0 usually."""
        return max(self._found_at.get((dialler, acceptor), 0.0) - self.events.now, 0.0)

    def next_connection(self) -> int:
        """Return the number of a new connection: 1, 2, 3, ..."""
        self._connections += 1
        return self._connections
