"""Messages that no honest server sends, from a member that is broken or hostile: each must be refused as a whole.

Most forgeries come in the name of the leader that the server follows, since the server heeds nobody else. To add a
forgery: write a function that makes the input for a server, or returns None while the server cannot get such a message,
and add the function to `_KINDS`.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from gf_i2p.raft.core import Core
from gf_i2p.raft.inputs import Answered, Incoming, Input
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.log_values import Configuration, LogPack, SnapshotSyncRequest
from gf_i2p.wire.messages import NOBODY, MessageType, OversizedRequest, Request, Response

if TYPE_CHECKING:
    from gf_i2p.simulator.cluster.farm import SimulatedFarm

_STRANGER: Final = 99
"""An id that no server of a run has."""
_FAR: Final = 1 << 53
"""A step of indexes that no server takes (`raft/allowance.py`)."""
_TOO_FAR: Final = 1 << 40
"""A step of indexes that a newcomer takes, and no other server."""


class _Caller:
    """The sender of a forgery, who gets no answer."""

    asks = False

    def answer(self, response: Response) -> None:
        """Ignore the answer: `ForgeriesRefused` has looked at it already."""

    def drop(self) -> None:
        """Ignore the end of the connection."""


def _entry(term: int) -> Entry:
    return Entry(term, ValueType.APPLICATION, b"forged")


def _from(core: Core, source: int, message_type: MessageType, last: tuple[int, int], *entries: Entry) -> Incoming:
    """Make a request in the core's term. `last`: the log index and the term in the request's header."""
    index, term = last
    return Incoming(_Caller(), Request(message_type, source, core.id, core.term, term, index, core.commit, entries))


def _appends(core: Core, previous: int, *entries: Entry) -> Incoming | None:
    """Make an AppendEntries of the core's leader; None for a server that lacks the state before its log."""
    if not _follows(core) or _is_damaged(core):
        return None
    last = previous, core.log.term(previous)
    return _from(core, core.leader, MessageType.APPEND_ENTRIES_REQUEST, last, *entries)


def _installs(
    core: Core, last: tuple[int, int], servers: Configuration | None = None, *, data: bytes | None = None
) -> Incoming | None:
    """Make a whole snapshot of the core's leader. `data`: None for the data of the core's own snapshot, if any."""
    if not _follows(core) or _is_damaged(core):
        return None
    configuration = core.configuration_at(core.log.base) if servers is None else servers
    if data is None:
        data = b"forged" if core.snapshot is None else core.snapshot.data
    block = SnapshotSyncRequest(*last, configuration, 0, data, done=True)
    entry = Entry(core.term, ValueType.SNAPSHOT_SYNC_REQUEST, block.encode())
    return _from(core, core.leader, MessageType.INSTALL_SNAPSHOT_REQUEST, last, entry)


def _follows(core: Core) -> bool:
    return core.leader not in {NOBODY, core.id}


def _is_damaged(core: Core) -> bool:
    return core.snapshot is None and core.log.base > 0


def _falling_terms(core: Core) -> Input | None:
    return _appends(core, core.log.last_index, _entry(core.term), _entry(core.term - 1)) if core.term > 1 else None


def _old_term(core: Core) -> Input | None:
    last = core.log.last_index
    return _appends(core, last, _entry(core.log.term(last) - 1)) if core.log.term(last) > 1 else None


def _term_zero(core: Core) -> Input | None:
    return _appends(core, core.log.last_index, _entry(0))


def _term_above_the_senders(core: Core) -> Input | None:
    return _appends(core, core.log.last_index, _entry(core.term + 1))


def _replaces_a_committed_entry(core: Core) -> Input | None:
    commit = core.commit
    if commit <= core.log.base or core.log.term(commit) == core.term:
        return None
    return _appends(core, commit - 1, _entry(core.term))


def _second_leader(core: Core) -> Input | None:
    if core.leader == NOBODY:
        return None
    source = next(each for each in range(1, _STRANGER) if each not in {core.leader, core.id})
    return _from(core, source, MessageType.APPEND_ENTRIES_REQUEST, (0, 0))


def _unreadable_snapshot(core: Core) -> Input | None:
    return _installs(core, (core.commit + 1, core.term), data=b"forged")


def _snapshot_of_a_later_term(core: Core) -> Input | None:
    return _installs(core, (core.commit + 1, core.term + 1))


def _snapshot_of_an_old_term(core: Core) -> Input | None:
    old = core.log.term(core.commit) - 1
    return _installs(core, (core.commit + 1, old)) if old > 0 else None


def _snapshot_of_the_far_future(core: Core) -> Input | None:
    return _installs(core, (core.commit + _FAR, core.term))


def _snapshot_too_far_for_a_member(core: Core) -> Input | None:
    return _installs(core, (core.commit + _TOO_FAR, core.term)) if core.is_voter else None


def _snapshot_without_data(core: Core) -> Input | None:
    return _installs(core, (core.commit + 1, core.term), data=b"")


def _snapshot_without_servers(core: Core) -> Input | None:
    return _installs(core, (core.commit + 1, core.term), Configuration(0, 0, ()))


def _snapshot_with_later_servers(core: Core) -> Input | None:
    servers = core.configuration.servers
    if not servers:
        return None
    return _installs(core, (core.commit + 1, core.term), Configuration(core.commit + 2, 0, servers))


def _answer_in_anothers_name(core: Core) -> Input | None:
    peer = next(iter(core.contacts), None)
    if peer is None:
        return None
    response = Response(MessageType.APPEND_ENTRIES_RESPONSE, _STRANGER, core.id, core.term + 1, 1, accepted=False)
    return Answered(peer, -1, response)


def _strangers_large_request(core: Core) -> Input | None:
    if not core.is_voter:
        return None
    header = MessageType.APPEND_ENTRIES_REQUEST, _STRANGER, core.id, core.term, 0, 0, 0
    return Incoming(_Caller(), OversizedRequest(*header, fault="forged"))


def _unreadable_pack(core: Core) -> Input | None:
    if not _follows(core) or core.is_voter:
        return None  # a voter refuses each pack, unless the voter was invited
    pack = Entry(core.term, ValueType.LOG_PACK, b"forged")
    return _from(core, core.leader, MessageType.SYNC_LOG_REQUEST, (0, 0), pack)


def _pack_of_a_later_term(core: Core) -> Input | None:
    newcomer = core._follower._newcomer  # noqa: SLF001 -- nobody else asks
    is_invited = newcomer is not None and (newcomer.leader, newcomer.term) == (core.leader, core.term)
    if not _follows(core) or (core.is_voter and not is_invited):
        return None
    agreed = newcomer.agreed if newcomer is not None and is_invited else core.commit
    if agreed < core.log.base:
        return None  # a pack of entries that a snapshot covers brings nothing new
    pack = Entry(core.term, ValueType.LOG_PACK, LogPack((_entry(core.term + 1),), 0).encode())
    return _from(core, core.leader, MessageType.SYNC_LOG_REQUEST, (agreed, 0), pack)


def _unreadable_server(message_type: MessageType) -> Callable[[Core], Input | None]:
    def make(core: Core) -> Input | None:
        if not core.is_leader:
            return None
        return _from(core, _STRANGER, message_type, (0, 0), Entry(0, ValueType.CLUSTER_SERVER, b"forged"))

    return make


_KINDS: Final[tuple[Callable[[Core], Input | None], ...]] = (
    _falling_terms,
    _old_term,
    _term_zero,
    _term_above_the_senders,
    _replaces_a_committed_entry,
    _second_leader,
    _unreadable_snapshot,
    _snapshot_of_a_later_term,
    _snapshot_of_an_old_term,
    _snapshot_of_the_far_future,
    _snapshot_too_far_for_a_member,
    _snapshot_without_data,
    _snapshot_without_servers,
    _snapshot_with_later_servers,
    _answer_in_anothers_name,
    _strangers_large_request,
    _unreadable_pack,
    _pack_of_a_later_term,
    _unreadable_server(MessageType.ADD_SERVER_REQUEST),
    _unreadable_server(MessageType.REMOVE_SERVER_REQUEST),
)


def _vote_of_the_far_future(core: Core) -> Input | None:
    source = next((voter for voter in core.contacts if voter != core.leader), None)
    if source is None:
        return None
    last = core.log.last_index, core.log.last_term
    request = _from(core, source, MessageType.REQUEST_VOTE_REQUEST, last).request
    return Incoming(_Caller(), replace(request, term=core.term + _FAR))


def _leader_of_the_far_future(core: Core) -> Input | None:
    source = next(iter(core.contacts), None)
    if source is None:
        return None
    request = _from(core, source, MessageType.APPEND_ENTRIES_REQUEST, (0, 0)).request
    return Incoming(_Caller(), replace(request, term=core.term + _FAR))


def _answer_of_the_far_future(core: Core) -> Input | None:
    """An answer of a member, or of a server that is joining or leaving."""
    peer = max(core.contacts, default=None)
    if peer is None:
        return None
    term = core.term + _FAR
    return Answered(peer, -1, Response(MessageType.APPEND_ENTRIES_RESPONSE, peer, core.id, term, 1, accepted=False))


_FAR_TERMS: Final = (_vote_of_the_far_future, _leader_of_the_far_future, _answer_of_the_far_future)
"""Claims of a term that no farm reaches. A server may go a part of the way, see `gf_i2p/raft/allowance.py`."""


def _too_large(message_type: MessageType) -> Callable[[Core], Input | None]:
    def make(core: Core) -> Input | None:
        knows = not core.is_voter or core.leader in {server.id for server in core.configuration.servers}
        if not _follows(core) or not knows:
            return None  # a voter accuses a leader that is no member
        last = core.log.last_index
        header = message_type, core.leader, core.id, core.term, core.log.term(last), last, core.commit
        return Incoming(_Caller(), OversizedRequest(*header, fault="an entry is too large"))

    return make


_OVER_A_LIMIT: Final = tuple(
    map(
        _too_large,
        (
            MessageType.APPEND_ENTRIES_REQUEST,
            MessageType.SYNC_LOG_REQUEST,
            MessageType.INSTALL_SNAPSHOT_REQUEST,
        ),
    )
)
"""Requests of an honest leader that has no limits, as a leader of JRaft (docs/design/jraft.md, Limits)."""


class Forger:
    """Gives some server a forged message now and then, or a request over a limit, if the plan says so."""

    def __init__(self, farm: "SimulatedFarm") -> None:
        self._farm = farm
        self._rng = Random(f"forges {farm.plan.seed}")  # noqa: S311 -- it must be repeatable, and keeps no secret

    def begin(self) -> None:
        """Begin to forge, if the plan says so."""
        if self._farm.plan.forge:
            self._plan_next()

    def _plan_next(self) -> None:
        self._farm.events.after(self._rng.expovariate(1 / self._farm.plan.forge), self._forge)

    def _forge(self) -> None:
        farm = self._farm
        if farm.calm:
            return
        self._plan_next()
        server = self._rng.choice(list(farm.servers.values()))
        make = self._rng.choice(_FAR_TERMS if farm.plan.far_terms else (*_KINDS, *_OVER_A_LIMIT))
        message = None if not server.up or server.paused else make(server.core)
        if message is None:
            return
        is_forged = make in _KINDS
        farm.counts["requests over a limit" if make in _OVER_A_LIMIT else "messages forged"] += 1
        farm.checker.facts.forged = is_forged
        try:
            server.step(message)
        finally:
            farm.checker.facts.forged = False
