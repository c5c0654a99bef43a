"""The inputs of the core: each call of `Core.step` takes one of these classes, and the time."""

from collections.abc import Sequence
from typing import NamedTuple

from gf_i2p.raft.effects import Token
from gf_i2p.wire.entries import Entry
from gf_i2p.wire.messages import Request, Response


class Tick(NamedTuple):
    """The time `Core.deadline` has been reached."""


class Incoming(NamedTuple):
    """A request has arrived. The core later answers its token (`SendReply`) or drops the token (`Effects.dropped`)."""

    token: Token
    request: Request


class Answered(NamedTuple):
    """The response to the request with this tag (`Send`) has arrived."""

    peer: int
    tag: int
    response: Response


class Failed(NamedTuple):
    """No response to the request with this tag will arrive: the connection broke, or there was none."""

    peer: int
    tag: int


class Reachable(NamedTuple):
    """A connection to this peer has come up."""

    peer: int


class Unreachable(NamedTuple):
    """The connection to this peer broke, and a later attempt to dial the peer has failed.

    The driver gives this input only while another peer is connected. Otherwise this server's own line may be down.
    """

    peer: int
    refused: bool = False
    """Whether the peer's machine has answered that no process listens there."""


class Proposal(NamedTuple):
    """Entries that one caller wants in the log, in order. The leader fills in the terms.

    The leader may split the entries over several messages. So when the core drops the caller (`Effects.dropped`),
    none, some first part, or all of the entries may become committed.
    """

    token: Token
    entries: Sequence[Entry]


class Propose(NamedTuple):
    """Proposals that arrived together. They share one write and one message to each follower."""

    proposals: Sequence[Proposal]


class Read(NamedTuple):
    """A caller wants a linearizable read of the state machine."""

    token: Token


class Snapshotted(NamedTuple):
    """The state machine has made a snapshot.

    `data`: the machine's state after the entry at `last_index`; not empty. `drop`: the log may drop the entries up to
    this index, which is at most `last_index`.
    """

    last_index: int
    data: bytes
    drop: int


class StepDown(NamedTuple):
    """The operator wants another server to lead. A leader steps down, and is no candidate for a while."""


class Stored(NamedTuple):
    """All writes up to this `Write.number` are durable."""

    number: int


Input = Tick | Incoming | Answered | Failed | Reachable | Unreachable | Propose | Read | Snapshotted | StepDown | Stored
