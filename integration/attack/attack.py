"""An attack: the attacker's rights, the state of the farm at the beginning, and the most that the farm may suffer."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

CLUSTER = "farm"
AHEAD = 10_000
"""Entries by which a made-up snapshot is ahead of the log: more than honest clients post during an attack."""
MOST_SECONDS = 2.0
HONEST = "load"
"""Name of the honest client."""
FOREIGN = "foreign"
"""Name of a client that logs in by a password."""


class Rights(StrEnum):
    """The attacker's credentials."""

    STRANGER = "stranger"
    """None at all."""
    LOCAL = "local"
    """None, but a process on the machine of a node."""
    CLIENT = "client"
    """The key of a client that may only post."""
    SERVER = "server"
    """The key of one of the farm's servers, whose own process runs on."""


class Outcome(StrEnum):
    """The most that an attack may do to the farm."""

    KEPT = "kept"
    """Term and leader stay, and every honest post is answered."""
    BACK = "back"
    """The leader may fall. The farm finds a leader again, and no committed entry changes."""
    SHOWN = "shown"
    """Servers trust each other so far (docs/design/access.md): the table says what happened. The farm commits again."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The farm before an attack, as the attacker knows the farm."""

    directory: str
    """The directory of the farm, with the files of servers and clients."""
    seconds: float
    """Most seconds of the attack."""
    seed: int
    """For attacks that draw random numbers."""
    leader: int
    term: int
    commit: int
    proved: int
    """Index of a committed entry, not the last one."""
    proved_term: int
    """Term of that entry."""
    servers: tuple[int, ...] = (1, 2, 3)

    @property
    def seized(self) -> int:
        """The server whose key the attacker has: the highest id that does not lead."""
        return max(server for server in self.servers if server != self.leader)

    @property
    def others(self) -> tuple[int, ...]:
        """The servers that the attacker does not have, the leader first."""
        others = [server for server in self.servers if server != self.seized]
        return tuple(sorted(others, key=lambda server: server != self.leader))

    def client_file(self, name: str) -> Path:
        """Path of a client's file."""
        return Path(self.directory) / f"client-{name}.toml"

    def node(self, server: int) -> Path:
        """Directory of a server."""
        return Path(self.directory) / f"server-{server}"

    def encode(self) -> str:
        """Return the scene as JSON, for the attacker's process."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read the text of `encode`."""
        fields = json.loads(text)
        return cls(**{**fields, "servers": tuple(fields["servers"])})


@dataclass(frozen=True, slots=True)
class Load:
    """The load that an attack has put on the farm."""

    text: str
    """For the table: a few words with numbers."""
    harm: tuple[str, ...] = ()
    """Answers that the attacker must never get, each as a sentence."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack of the catalogue. The docstring of `run` tells the attacker's rights and the intended harm."""

    name: str
    rights: Rights
    outcome: Outcome
    run: Callable[[Scene], Awaitable[Load]]
    writes: bool = False
    """Whether the attacker may post, so that posts of the attacker may stand in the log."""
    most_seconds: float = MOST_SECONDS
    """Longest time of an honest post while the leader stays."""


def named_after(run: Callable[[Scene], Awaitable[Load]]) -> str:
    """Return the name of an attack from the name of its function."""
    return run.__name__.replace("_", "-")
