"""The consensus core of one server of one farm: `step` takes one input and returns its effects.

In this folder's comments, "Raft 5.2" is a section of "In Search of an Understandable Consensus Algorithm" (Ongaro and
Ousterhout, extended version), and "thesis" is Ongaro's. This core is stricter than the paper or JRaft in these points:

- Leader stickiness (thesis 4.2.3): for the minimum election time-out after a leader's message, a server refuses vote
  requests and ignores their terms. Check-quorum: a leader that has not heard from a majority for the maximum
  election time-out steps down.
- A server asks the other members for the leader before each election (`inquiry`), and raises its term only when a
  majority hears no leader. The wire has no pre-vote, and these three rules replace the pre-vote. So a server that
  returns, or that has lost some of its links, deposes no leader that a majority hears.
- When the connection to the leader breaks and the leader cannot be dialled again, a follower waits only half the
  time (`Timing.doubt`), and a quarter when the leader's machine refuses the connection (`doubt_when_refused`). All
  other followers still regard the leader as live.
- A follower commits only entries that an AppendEntries has shown to be the same in the leader's log.
- Other servers raise this server's term at a bounded rate (`allowance`).
- An answer to a client is final: accepted means committed, refused means not in the log. When the outcome is unknown,
  the connection is closed.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from gf_i2p.raft.allowance import LAST_TERM, TERMS_A_SECOND, TERMS_AT_ONCE, Allowance
from gf_i2p.raft.candidate import Candidate
from gf_i2p.raft.configurations import Configurations
from gf_i2p.raft.effects import CheckSnapshot, Effects, HardState, Snapshot, Token
from gf_i2p.raft.election_timeout import LAST_RESORT, ElectionTimeout
from gf_i2p.raft.follower import Follower
from gf_i2p.raft.inputs import (
    Answered,
    Failed,
    Incoming,
    Input,
    Proposal,
    Propose,
    Reachable,
    Read,
    Snapshotted,
    StepDown,
    Stored,
    Tick,
    Unreachable,
)
from gf_i2p.raft.inquiry import Inquiry
from gf_i2p.raft.leader import Leader
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import LAN, Flow, Timing
from gf_i2p.raft.state import State
from gf_i2p.wire.log_values import Configuration
from gf_i2p.wire.messages import NOBODY, RESPONSE_TYPE, MessageType, OversizedRequest, Request


class Core:
    """The Raft state machine of one server.

    Arguments:
        server_id: this server's id, 0 to 2^32-2.
        hard_state: the stored term and vote; (0, `NOBODY`) for a new server.
        log: the stored log.
        configurations: the Configurations of the stored log, and the Configuration before the log.
        check_snapshot: checks the data of a received snapshot before the snapshot replaces anything.
        snapshot: the stored snapshot. None: there is none, or it is damaged and the leader must send another.
        uniform: returns a random float between its two arguments, for the election time-out.
        now: the present time in seconds. All times of a core come from one clock that never goes back.
    """

    def __init__(
        self,
        server_id: int,
        *,
        hard_state: HardState,
        log: Log,
        configurations: Configurations,
        uniform: Callable[[float, float], float],
        now: float,
        check_snapshot: CheckSnapshot,
        timing: Timing = LAN,
        flow: Flow | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._state = State(
            server_id,
            hard_state=hard_state,
            log=log,
            configurations=configurations,
            timing=timing,
            flow=flow or Flow(),
            snapshot=snapshot,
        )
        self._now = now
        self._term_allowance = Allowance(TERMS_AT_ONCE, TERMS_A_SECOND, now)
        self._role: Leader | Candidate | None = None  # None: follower
        self._heard_at = float("-inf")  # when the leader last sent something
        self._timeout = ElectionTimeout(self._state, uniform)
        self._older_log_asked = False  # whether, since a leader was heard, a voter with an older log wanted a vote
        self._follower = Follower(self._state, check_snapshot, now)
        self._inquiry = Inquiry(self._state)
        self._await_election()
        self._inquiry.begin_anew(self._now, self._state.timing.doubt)

    # For the driver to read -----------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """Id of this server."""
        return self._state.id

    @property
    def term(self) -> int:
        """The present term."""
        return self._state.term

    @property
    def vote(self) -> int:
        """Id of the server that has this server's vote in the present term, or `NOBODY`."""
        return self._state.vote

    @property
    def leader(self) -> int:
        """Id of the present term's leader; `NOBODY` when this server does not know the leader."""
        return self._state.leader

    @property
    def is_leader(self) -> bool:
        """Whether this server leads."""
        return isinstance(self._role, Leader)

    @property
    def role(self) -> str:
        """One of "leader", "candidate", "follower"."""
        return "follower" if self._role is None else type(self._role).__name__.lower()

    @property
    def log(self) -> Log:
        """The log. The caller must not change the log."""
        return self._state.log

    @property
    def commit(self) -> int:
        """Index of the last entry known to be committed."""
        return self._state.commit

    @property
    def applicable(self) -> int:
        """Index of the last entry that may be applied: it is committed, and durable on this server."""
        return min(self._state.commit, self._state.log.stored)

    @property
    def configuration(self) -> Configuration:
        """The Configuration in force: the newest one in the log, committed or not."""
        return self._state.configurations.current

    def configuration_at(self, index: int) -> Configuration:
        """Return the Configuration in force when the log ends at `index`; `index` is at least `log.base`."""
        return self._state.configurations.at(index)

    @property
    def is_voter(self) -> bool:
        """Whether the Configuration in force contains this server."""
        return self.id in self._state.configurations.voters

    @property
    def was_voter(self) -> bool:
        """Whether any Configuration in the log or the snapshot contains this server. False until the server joins."""
        return self._state.configurations.ever_has(self.id)

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot, or None."""
        return self._state.snapshot

    @property
    def contacts(self) -> dict[int, str]:
        """Endpoints, by server id, of the servers that this server must be connected to.

        These are the other voters and, on the leader, the servers that are joining or leaving.
        """
        servers = {server.id: server.endpoint for server in self._state.configurations.current.servers}
        if isinstance(self._role, Leader):
            servers = self._role.leavers | servers
            if self._role.changes.joining is not None:
                joining = self._role.changes.joining.server
                servers[joining.id] = joining.endpoint
        servers.pop(self.id, None)
        return servers

    @property
    def contacts_mark(self) -> object:
        """A value that changes whenever `contacts` changes. To compare marks is cheaper than to compare contacts."""
        role, changes = self._role, self._state.configurations.changes
        if not isinstance(role, Leader):
            return changes
        return changes, self.term, len(role.progress), id(role.changes.joining)

    @property
    def cannot_follow(self) -> str | None:
        """Why this server cannot follow the leader, in words: entries over a limit. None: this server can follow."""
        return None if self.is_leader else self._follower.obstacle

    @property
    def change_obstacle(self) -> str | None:
        """The reason, in words, why this server cannot begin a membership change now. None: no obstacle."""
        return self._role.changes.obstacle if isinstance(self._role, Leader) else "this server does not lead"

    @property
    def match(self) -> dict[int, int]:
        """On the leader: by follower id, the highest index known to match the leader's log. On other servers: empty."""
        role = self._role
        return {peer: p.match for peer, p in role.progress.items()} if isinstance(role, Leader) else {}

    @property
    def heard(self) -> dict[int, float]:
        """On the leader: by id of another voter, the time of its last answer in this term. On other servers: empty.

        For a voter that has not answered yet, the time is when the leader began to send to that voter.
        """
        role = self._role
        if not isinstance(role, Leader):
            return {}
        return {peer: p.heard_at for peer, p in role.progress.items() if not p.removed_at}

    @property
    def deadline(self) -> float:
        """Time at which the next `Tick` is due, in seconds by the core's clock."""
        if isinstance(self._role, Leader):
            return self._role.deadline(self._now)
        return min(self._timeout.at, self._inquiry.next_at)

    @property
    def stands_at(self) -> float:
        """End of the election time-out, in seconds by the core's clock; infinity on the leader.

        This server then stands for election, if a majority hears no leader.
        """
        return float("inf") if self.is_leader else self._timeout.at

    @property
    def timing(self) -> Timing:
        """The time-outs. A new value takes effect when the next time-out is drawn; `redraw` changes the running one."""
        return self._state.timing

    @timing.setter
    def timing(self, timing: Timing) -> None:
        self._state.timing = timing

    def redraw(self, now: float) -> None:
        """Draw the running election time-out again if the new `timing` could not have produced it.

        A time-out that ends later than the new maximum is drawn again. Until this server has heard a leader, a time-out
        that ends before the new minimum is drawn again, too: a leader's first message may still be on its way.
        """
        if self.is_leader:
            return
        self._timeout.redraw(now, unheard=self._role is None and self._heard_at == float("-inf"))

    # Inputs ----------------------------------------------------------------------------------------------------------

    def step(self, event: Input, now: float) -> Effects:
        """Take one input at the time `now` and return its effects.

        Steps must not overlap, and writes must be handed to the storage in the order of the steps.
        """
        self._now = max(self._now, now)
        match event:
            case Propose(proposals):
                self._propose(proposals)
            case Incoming(token, request):
                self._incoming(token, request)
            case Answered():
                self._answered(event)
            case Failed(peer, tag):
                if isinstance(self._role, Leader):
                    self._role.failed(peer, tag, self._now)
                self._inquiry.failed(peer, tag)
            case Stored(number):
                self._state.write_stored(number)
                if isinstance(self._role, Leader):
                    self._role.stored(self._now)
                elif isinstance(self._role, Candidate) and self._state.vote_is_durable:
                    self._role.voted()
                    self._lead_if_won(self._role)
            case Tick():
                self._tick()
            case Reachable(peer):
                if isinstance(self._role, Leader):
                    self._role.reachable(peer, self._now)
                else:
                    self._reachable(peer)
            case Unreachable(peer, refused):
                if self._role is None and peer == self.leader and self._timeout.is_news(refused=refused):
                    first = self._timeout.doubt(self._now, self._heard_at, refused=refused)
                    self._inquiry.next_at = min(self._inquiry.next_at, first)
            case Snapshotted(last_index, data, drop):
                self._snapshotted(last_index, data, drop)
            case StepDown():
                self._step_down()
            case Read(token):
                if isinstance(self._role, Leader) and not self._follower.needs_snapshot:
                    self._role.read(token, self._now)
                else:
                    self._state.effects.reads_refused.append(token)
            case _:  # pragma: no cover
                assert_never(event)
        if isinstance(self._role, Leader):
            if self._role.retired:
                self._role.tell_commit(self._now)
                self._follow(NOBODY)
            elif self._follower.needs_snapshot and (self._role.is_established or self._role.is_equalled):
                # A voter with this server's whole log can win, and has the state that this server lacks.
                self._step_down()
        return self._state.take_effects()

    def _tick(self) -> None:
        if isinstance(self._role, Leader):
            if self._now >= self._role.quorum_heard_at(self._now) + self._state.timing.election_max:
                self._follow(NOBODY)  # check-quorum
            else:
                self._role.tick(self._now)
        elif self._now >= self._timeout.at:
            self._election_due()
        elif self._now >= self._inquiry.next_at:
            self._ask()

    def _reachable(self, peer: int) -> None:
        if isinstance(self._role, Candidate):
            self._role.ask(peer)
        elif self._timeout.in_doubt and peer == self.leader:
            self._trust_leader()
        self._inquiry.forget_flight(peer)
        if not self._leader_is_live() and self._may_campaign() and peer in self._state.configurations.voters:
            self._inquiry.ask_peer(peer, self._now)

    # The question before an election ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        if self._may_campaign():
            self._inquiry.ask(self._now)
        else:
            self._inquiry.next_at = self._timeout.at

    def _election_due(self) -> None:
        """Become a candidate at the end of an election time-out, if a majority hears no leader.

        Otherwise ask the members, and become a candidate as soon as a majority has answered that nobody leads. If such
        a majority is no longer possible, or does not answer in time, the end of the next time-out decides again.
        """
        self._timeout.unheard += 1
        if self._may_campaign() and self._inquiry.agreed(self._now):
            self._campaign()
            return
        self._state.leader = NOBODY
        self._await_election()
        self._inquiry.is_due = self._may_campaign()
        self._ask()

    def _may_campaign(self) -> bool:
        """Return whether this server should become a candidate now.

        A voter should. A removed server should, too, while the Configuration without this server may be uncommitted:
        this server may be the only one that has that Configuration, and then no other can win (thesis 4.2.2). But the
        removed server waits until a voter with an older log has asked the removed server for a vote. The reason is
        JRaft: a JRaft leader sends nothing to a removed server, so the removed server never learns of the commit. Each
        election of the removed server would depose the JRaft leader.

        A server whose snapshot is damaged waits in the same way, because such a server can lead only until another
        voter has the same log. If the server has also lost the Configuration (`current_index` is 0), the server does
        not know the voters, and never becomes a candidate.

        A server that cannot follow its leader lacks entries that the leader has, and waits in the same way.

        All servers that could win may be waiting, for example a leader that has removed itself, and a server with a
        damaged snapshot. So the waiting ends after `LAST_RESORT` time-outs without a leader.
        """
        state = self._state
        if self._follower.needs_snapshot:
            if state.configurations.current_index == 0:
                return False
        elif self.is_voter and self._follower.obstacle is None:
            return True
        waited = self._older_log_asked or self._timeout.unheard > LAST_RESORT
        return waited and state.configurations.has_since(self.commit, self.id)

    def _snapshotted(self, last_index: int, data: bytes, drop: int) -> None:
        state = self._state
        assert drop <= last_index <= self.applicable, "a snapshot covers only applied entries"
        if last_index > (0 if state.snapshot is None else state.snapshot.index) and last_index >= state.log.base:
            term, configuration = state.log.term(last_index), state.configurations.at(last_index)
            state.take_snapshot(Snapshot(last_index, term, configuration, data), drop)

    def _propose(self, proposals: Sequence[Proposal]) -> None:
        if isinstance(self._role, Leader):
            self._role.propose(proposals, self._now)
            return
        for proposal in proposals:
            if proposal.entries:
                self._state.answer_client(proposal.token, accepted=False)
            else:  # a question for the leader, see `inquiry`
                hears = self._leader_is_live()
                next_index = self.log.last_index + 1 if hears else 0
                self._state.answer_client(proposal.token, accepted=False, next_index=next_index, known=hears)

    def _incoming(self, token: Token, request: Request) -> None:
        if isinstance(request, OversizedRequest):
            self._oversized(token, request)
            return
        match request.type:
            case MessageType.APPEND_ENTRIES_REQUEST:
                if self._hear_leader(token, request):
                    self._follower.append_entries(token, request)
            case MessageType.REQUEST_VOTE_REQUEST:
                self._request_vote(token, request)
            case MessageType.CLIENT_REQUEST:
                self._propose([Proposal(token, request.entries)])
            case MessageType.INSTALL_SNAPSHOT_REQUEST:
                if self._hear_leader(token, request):
                    self._follower.install_snapshot(token, request, self._now)
            case MessageType.JOIN_CLUSTER_REQUEST:
                if self._hear_leader(token, request):
                    self._follower.join_cluster(token, request)
            case MessageType.SYNC_LOG_REQUEST:
                if self._hear_leader(token, request):
                    self._follower.sync_log(token, request)
            case MessageType.LEAVE_CLUSTER_REQUEST:
                if self._hear_leader(token, request):
                    self._state.promise(token, request, accepted=True, next_index=self.log.last_index + 1)
            case MessageType.ADD_SERVER_REQUEST if isinstance(self._role, Leader):
                self._role.add_server(token, request, self._now)
            case MessageType.REMOVE_SERVER_REQUEST if isinstance(self._role, Leader):
                self._role.changes.remove(token, request, self._now)
            case _:
                self._state.answer_client(token, accepted=False, message_type=RESPONSE_TYPE[request.type])

    def _oversized(self, token: Token, request: OversizedRequest) -> None:
        """Hear a leader whose entries exceed a limit: the leader is live, but this server cannot take the entries."""
        voters = self._state.configurations.voters
        if self.is_voter and request.source not in voters:
            self._state.violated(token, f"server {request.source}, which is no member, sent {request.fault}")
        elif self._hear_leader(token, request):
            self._follower.pass_over(token, request)

    def _answered(self, event: Answered) -> None:
        response = event.response
        if response.source != event.peer:
            self._state.effects.violation = (
                f"server {event.peer} answers as server {response.source}: "
                "check that every endpoint leads to its server"
            )
            return
        if response.term > self._state.term:
            fault = self._raise_term(event.peer, response.term, is_answer=True)
            if fault is not None:
                self._inquiry.failed(event.peer, event.tag)  # ask again: more such answers may raise the term
                self._state.effects.violation = fault
                return
        elif response.term == self._state.term:
            if response.type != MessageType.REQUEST_VOTE_RESPONSE and isinstance(self._role, Leader):
                self._role.answered(event.peer, event.tag, response, self._now)
            elif response.type == MessageType.REQUEST_VOTE_RESPONSE and isinstance(self._role, Candidate):
                self._role.answered(event.peer, response)
                self._lead_if_won(self._role)
        is_answer = response.type == MessageType.APPEND_ENTRIES_RESPONSE and not isinstance(self._role, Leader)
        if is_answer and self._inquiry.completes(event.peer, event.tag, response, self._now):
            self._campaign()

    # Roles and terms -------------------------------------------------------------------------------------------------

    def _await_election(self) -> None:
        self._timeout.draw(self._now)

    def _trust_leader(self) -> None:
        """Return to the normal election time-out: the leader can be dialled again."""
        self._inquiry.next_at = max(self._inquiry.next_at, self._heard_at + self._state.timing.election_min)
        self._timeout.restore(self._heard_at)

    def _follow(self, leader: int) -> None:
        """Become a follower in the present term. `leader`: `NOBODY` while the leader is not known."""
        if isinstance(self._role, Leader):
            self._role.resign()
            self._await_election()  # only a leader had no time-out running
            self._inquiry.forget_flights()
            self._inquiry.begin_anew(self._now, self._state.timing.doubt)
        self._role = None
        self._timeout.trust(same_leader=leader == self._state.leader != NOBODY)
        self._state.leader = leader

    def _enter_term(self, term: int) -> None:
        """Enter a higher term as a follower without a leader (Raft 5.1)."""
        self._state.set_hard_state(term, NOBODY)
        self._follow(NOBODY)

    def _raise_term(self, server: int, term: int, *, is_answer: bool = False) -> str | None:
        """Enter a higher term that another server claims; see `allowance`.

        Return None if this server is now in that term. Otherwise return the fault in words: the term is too far away.
        Then this server may have entered a term in between.
        """
        state = self._state
        step = term - state.term
        if state.is_newcomer and term <= LAST_TERM:
            self._enter_term(term)
            return None
        far = f"server {server} claims term {term}, but this server is in term"
        # Requests are different: after a long absence, this server may not know the members.
        if is_answer and server not in state.configurations.voters and not self._term_allowance.has(step, self._now):
            return f"{far} {state.term}, and server {server} is no member: begin that server again with an empty log"
        taken = self._term_allowance.take(step, self._now)
        if taken:
            self._enter_term(state.term + taken)
        if taken == step:
            return None
        return (
            f"{far} {state.term}: server {server} is broken or hostile, or this server was away while such a server "
            "raised the terms; stop the broken or hostile server, or remove that server from the farm"
        )

    def _campaign(self) -> None:
        """Become a candidate: increment the term, vote for this server, ask the others (Raft 5.2)."""
        refused = isinstance(self._role, Candidate) and self._role.refused
        self._timeout.refusals = self._timeout.refusals + 1 if refused else 0
        self._follow(NOBODY)
        self._state.set_hard_state(self._state.term + 1, self.id)
        self._await_election()
        self._inquiry.begin_anew(self._now, self._state.timing.doubt)
        self._role = Candidate(self._state)

    def _lead_if_won(self, candidate: Candidate) -> None:
        if candidate.won:
            self._timeout.refusals = self._timeout.unheard = 0
            self._state.leader = self.id
            self._role = Leader(self._state, self._now)

    def _step_down(self) -> None:
        """If this server leads: become a follower, and leave the next two election time-outs to the other servers."""
        if isinstance(self._role, Leader):
            self._follow(NOBODY)
            self._timeout.give_way()

    # Requests of other servers ---------------------------------------------------------------------------------------

    def _leader_is_live(self) -> bool:
        if isinstance(self._role, Leader):
            return True  # check-quorum deposes a leader without a majority
        return self.leader != NOBODY and self._now < self._heard_at + self._timeout.patience

    def _request_vote(self, token: Token, request: Request) -> None:
        state = self._state
        if request.term > state.term:
            if self._leader_is_live():
                state.promise(token, request, accepted=False)
                return
            fault = self._raise_term(request.source, request.term)
            if fault is not None:
                state.violated(token, fault)
                return
        up_to_date = state.log.is_up_to_date(request.last_log_term, request.last_log_index)
        if not up_to_date and request.source in state.configurations.voters:
            self._older_log_asked = True
            self._timeout.forgive(self._now)
        granted = request.term == state.term and state.vote in {NOBODY, request.source} and up_to_date
        if granted:
            if state.vote == NOBODY:
                state.set_hard_state(state.term, request.source)
            self._timeout.refusals = 0
            self._await_election()
            self._inquiry.begin_anew(self._now, self._state.timing.doubt)
        state.promise(token, request, accepted=granted)

    def _hear_leader(self, token: Token, request: Request) -> bool:
        """Accept the sender of a request as the leader of the request's term, and return whether the sender leads.

        False: the request has been refused or dropped.
        """
        state = self._state
        if request.term < state.term:
            state.promise(token, request, accepted=False, next_index=state.log.last_index + 1)
            return False
        if request.term == state.term and self.leader not in {NOBODY, request.source}:
            state.violated(
                token,
                f"servers {self.leader} and {request.source} both claim to lead term {state.term}: "
                "one of them has lost its data or runs twice",
            )
            return False
        if request.term > state.term:
            fault = self._raise_term(request.source, request.term)
            if fault is not None:
                state.violated(token, fault)
                return False
        self._follow(request.source)
        self._older_log_asked = False
        self._timeout.refusals = self._timeout.unheard = 0
        self._heard_at = self._now
        self._await_election()
        self._inquiry.begin_anew(self._now, state.timing.election_min)
        return True
