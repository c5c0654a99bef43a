"""The inputs of the core: every `Core.step` takes exactly one of these, and the time."""

from collections.abc import Sequence
from typing import NamedTuple

from gf_i2p.raft.effects import Token
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import Request, Response


class Tick(NamedTuple):
    """Time has passed; due when `Core.deadline` is reached."""


class Incoming(NamedTuple):
    """A request arrived. A reply with this token answers it, or the token is dropped."""

    token: Token
    request: Request


class Answered(NamedTuple):
    """The response to the request with this tag."""

    peer: int
    tag: int
    response: Response


class Failed(NamedTuple):
    """The request with this tag will never be answered: the connection broke, or there was none."""

    peer: int
    tag: int


class Reachable(NamedTuple):
    """A connection to this peer has come up."""

    peer: int


class Unreachable(NamedTuple):
    """The connection to this peer broke, and a later attempt to dial the peer has failed.

    Not to be given when the fault may be this server's own, that is, when no other peer is connected.
    """

    peer: int


class Proposal(NamedTuple):
    """Entries that one caller wants in the log, in order. The leader fills in the terms.

    When the caller is dropped, some first part of the entries may be in the log, or get there, because messages to
    followers are cut by size.
    """

    token: Token
    entries: Sequence[Entry]


class Propose(NamedTuple):
    """Proposals that arrived together; in one step, they share one write and one round of messages."""

    proposals: Sequence[Proposal]


class Read(NamedTuple):
    """A caller wants a linearizable read of the state machine."""

    token: Token


class Snapshotted(NamedTuple):
    """The state machine's state after applying the entry at `last_index`: `data`, not empty.

    Entries up to `drop`, at most `last_index`, are no longer needed.
    """

    last_index: int
    data: bytes
    drop: int


class StepDown(NamedTuple):
    """The operator wants another server to lead: step down, and leave the next elections to others."""


class Stored(NamedTuple):
    """Every write up to this number (`Write.number`) is durable."""

    number: int


Input = Tick | Incoming | Answered | Failed | Reachable | Unreachable | Propose | Read | Snapshotted | StepDown | Stored
