"""A run as text: one aligned line for each event."""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from gf_i2p.raft import inputs
from gf_i2p.simulator.events import Events
from gf_i2p.simulator.facts import voters_of
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import NOBODY, Request, Response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.server import SimulatedServer


class Trace:
    """Writes one line for each event: seconds, server, role, term, commit index / last index, event.

    `digest` covers all lines: two runs with the same digest are the same run.
    """

    def __init__(self, events: Events, write: Callable[[str], None] | None = None) -> None:
        self._events = events
        self._write = write
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of all lines so far, as hexadecimal digits."""
        return self._hash.hexdigest()

    def line(self, server_id: int, state: str, event: str) -> None:
        """Write one line. `state`: the server's state in a few words; `event`: the event in words."""
        text = f"{self._events.now:12.6f}  s{server_id}  {state:<25}  {event}"
        self._hash.update(text.encode() + b"\n")
        if self._write is not None:
            self._write(text)

    def step(self, server: "SimulatedServer", event: inputs.Input) -> None:
        """Write a line for a core's step. The line has the server's state after the step."""
        core = server.core
        state = f"{core.role:<9} t{core.term:<4} {core.commit:>4}/{core.log.last_index:<4}"
        self.line(server.id, state, _describe_input(event))


def _describe_input(event: inputs.Input) -> str:
    match event:
        case inputs.Incoming(_, request):
            return f"<- {request.source}  {describe_message(request)}"
        case inputs.Answered(peer, tag, response):
            return f"<- {peer}  {describe_message(response)} (to #{tag})"
        case inputs.Failed(peer, tag):
            return f"-x {peer}  #{tag} failed"
        case inputs.Propose(proposals):
            return "proposes " + " ".join(_entry(entry) for proposal in proposals for entry in proposal.entries)
        case inputs.Stored(number):
            return f"stored up to write {number}"
        case inputs.Tick():
            return "time-out"
        case inputs.Reachable(peer):
            return f"-- {peer}  connected"
        case inputs.Unreachable(peer, refused):
            return f"-- {peer}  {'refuses connections' if refused else 'cannot be dialled'}"
        case inputs.Read():
            return "read"
        case inputs.Snapshotted(last_index, _, drop):
            return f"keeps a snapshot up to {last_index}, drops up to {drop}"
        case inputs.StepDown():
            return "is told to step down"


def describe_message(message: Request | Response) -> str:
    """Return one line of text that describes a message."""
    kind = message.type.name.title().replace("_", "")
    if isinstance(message, Response):
        answer = "yes" if message.accepted else "no"
        return f"{kind} t{message.term}: {answer}, next {message.next_index}, for {_server(message.destination)}"
    line = f"{kind} t{message.term}, after {message.last_log_index} (t{message.last_log_term})"
    line += f", commit {message.commit_index}"
    if message.entries:
        line += ": " + " ".join(_entry(entry) for entry in message.entries)
    return line


def _server(server_id: int) -> str:
    return "nobody" if server_id == NOBODY else str(server_id)


def _entry(entry: Entry) -> str:
    if entry.value_type is ValueType.CONFIGURATION:
        return f"{entry.term}/servers {','.join(map(str, voters_of(entry)))}"
    if entry.value_type is not ValueType.APPLICATION:
        return entry.value_type.name.lower().replace("_", " ")
    text = entry.value.decode("utf-8", "replace")
    return f"{entry.term}/" + ("status" if text.startswith("{") else f"[{text.removeprefix('register ')}]")
