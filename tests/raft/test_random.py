"""Whole farms under random faults, with Raft's five safety properties checked after every step.

The seed of a failure is in the test's name and message; the run is exactly repeatable.
"""

import random

import pytest

from gf_i2p.raft import inputs
from gf_i2p.raft.log import Log
from gf_i2p.raft.settings import LAN
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import Request
from tests.raft.lab import Disk, Lab, Message, Server

SEEDS = range(60)
STEPS = 1_500
MOST = 5


def entries(log: Log, first: int, last: int) -> list[Entry]:
    found: list[Entry] = []
    while first + len(found) <= last:
        found += log.slice(first + len(found), last, max_entries=1 << 30, max_bytes=1 << 30)
    return found


class Checked:
    """Watches a lab: election safety, log matching, leader completeness, state machine safety, votes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.committed_in = 0  # the term of the last commit
        self.votes: dict[tuple[int, int], int] = {}
        lab.after_step = self.check

    def check(self, server: Server) -> None:
        core, log = server.core, server.core.log
        if core.is_leader:
            assert self.leaders.setdefault(core.term, core.id) == core.id, "two leaders in one term"
            if core.commit < len(self.committed) and core.term > self.committed_in:
                assert log.last_index >= len(self.committed), "a leader lacks a committed entry"
                prefix = entries(log, log.base + 1, len(self.committed))
                assert prefix == self.committed[log.base :], "a leader has another entry in place of a committed one"
        if core.commit > len(self.committed):
            assert log.base <= len(self.committed), "what is dropped, or in a snapshot, was committed"
            self.committed_in = core.term
            first = len(self.committed) + 1
            self.committed += entries(log, first, core.commit)
            voters = [each.id for each in core.configuration.servers]
            holders = [voter for voter in voters if self.holds(self.lab.servers[voter].disk, first, core.commit)]
            assert len(holders) > len(voters) // 2, "committed without being durable on a majority"
        disk = server.disk
        installed = disk.base >= log.base  # otherwise a write that is under way replaces all of the log
        applied = disk.entries[: max(core.applicable - disk.base, 0)] if installed else []
        assert applied == self.committed[disk.base : disk.base + len(applied)], "another entry is applied at an index"
        if disk.snapshot is not None:
            snapshot = disk.snapshot
            assert snapshot.data == f"state at {snapshot.index}".encode(), "a snapshot is another one's"
            assert snapshot.term == self.committed[snapshot.index - 1].term
        vote = self.votes.setdefault((core.id, disk.hard_state.term), disk.hard_state.vote)
        if vote != disk.hard_state.vote:
            assert vote == 0xFFFFFFFF, "voted twice"
            self.votes[core.id, disk.hard_state.term] = disk.hard_state.vote

    def holds(self, disk: Disk, first: int, last: int) -> bool:
        """Whether these committed entries are on the disk, or in the disk's snapshot."""
        if disk.base >= last:
            return True
        first = max(first, disk.base + 1)
        return disk.entries[first - 1 - disk.base : last - disk.base] == self.committed[first - 1 : last]


def first_of_its_connection(lab: Lab, message: Message) -> Message:
    """Give the first message of this direction of a connection: such messages arrive in order."""
    kind = isinstance(message.payload, Request)
    same = (message.sender, message.receiver, kind)
    return next(m for m in lab.network if (m.sender, m.receiver, isinstance(m.payload, Request)) == same)


def disturb(lab: Lab, rng: random.Random, proposals: dict[str, list[str]]) -> None:
    server = rng.choice(list(lab.servers.values()))
    dice = rng.random()
    if lab.network and dice < 0.75:
        message = first_of_its_connection(lab, rng.choice(lab.network))
        lab.network.remove(message)
        if rng.random() < 0.03:  # the connection breaks
            pair = {message.sender, message.receiver}
            broken = [message, *(m for m in lab.network if {m.sender, m.receiver} == pair)]
            for lost in broken:
                if lost is not message:
                    lab.network.remove(lost)
            for lost in broken:
                lab.deliver(Message(lost.sender, lost.receiver, lost.tag, lost.payload, lost=True))
        else:
            lab.deliver(message)
    elif dice < 0.85 and server.up:
        lab.now += rng.uniform(0, 0.1)
        lab.step(server.id, inputs.Tick())
    elif dice < 0.88 and server.up and server.unwritten:
        lab.sync(server.id, rng.randint(1, len(server.unwritten)))
    elif dice < 0.94 and server.up:
        token = f"t{len(proposals)}"
        proposals[token] = [f"{token}-{i}" for i in range(rng.randint(1, 3))]
        leaders = [s.id for s in lab.servers.values() if s.up and s.core.is_leader] or [server.id]
        lab.propose(rng.choice(leaders), token, *proposals[token])
    elif dice < 0.95 and server.up:
        lab.step(server.id, inputs.Read(f"r{len(lab.reads)}-{rng.random()}"))
    elif dice < 0.952 and server.up:
        core = server.core
        if core.applicable > core.log.base and core.applicable > (core.snapshot.index if core.snapshot else 0):
            lab.snapshot(server.id, keep=rng.randint(0, core.applicable - core.log.base))
    elif dice < 0.955:
        change_servers(lab, rng)
    elif dice < 0.96:
        if server.up:
            lab.crash(server.id)
        else:
            lab.restart(server.id)
            lab.servers[server.id].slow_disk = rng.random() < 0.5
    elif dice < 0.97:
        other = rng.choice(list(lab.servers))
        lab.cuts ^= {(server.id, other)}
    elif dice < 0.975:
        lab.heal()
    else:
        lab.now += rng.uniform(0, LAN.election_max)


def change_servers(lab: Lab, rng: random.Random) -> None:
    """Have a leader add a server, a new or an old one, or remove a server, perhaps the leader."""
    leaders = [server for server in lab.servers.values() if server.up and server.core.is_leader]
    if not leaders:
        return
    leader = rng.choice(leaders)
    voters = [each.id for each in leader.core.configuration.servers]
    token = f"change-{len(lab.replies)}-{rng.random()}"
    if len(voters) <= 2 or (len(voters) < MOST and rng.random() < 0.5):
        others = [server for server in lab.servers if server not in voters]
        if not others:
            others = [max(lab.servers) + 1]
            lab.newcomer(others[0])
        lab.change(leader.id, token, add=rng.choice(others))
    else:
        lab.change(leader.id, token, remove=rng.choice(voters))


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_and_the_farm_recovers(seed: int) -> None:
    rng = random.Random(seed)
    lab = Lab(rng.choice([3, 3, 4, 5]), uniform=rng.uniform, cache_bytes=rng.choice([200, 1 << 20]))
    checked = Checked(lab)
    for server in lab.servers.values():
        server.slow_disk = rng.random() < 0.5
    proposals: dict[str, list[str]] = {}
    for _ in range(STEPS):
        disturb(lab, rng, proposals)

    lab.heal()
    for server in list(lab.servers.values()):
        if not server.up:
            lab.restart(server.id)
        lab.servers[server.id].slow_disk = False
        lab.sync(server.id)
    lab.advance(20 * LAN.election_max)

    leaders = [server.id for server in lab.servers.values() if server.core.is_leader]
    assert len(leaders) == 1, f"seed {seed}: one leader when the faults have stopped"
    settled = lab.servers[leaders[0]].core.configuration
    voters = [lab.servers[each.id] for each in settled.servers]
    assert leaders[0] in {voter.id for voter in voters}
    assert {voter.core.commit for voter in voters} == {len(checked.committed)}, f"seed {seed}: equal logs"
    assert {voter.core.configuration for voter in voters} == {settled}
    assert all(checked.holds(voter.disk, 1, len(checked.committed)) for voter in voters)
    values = [e.value.decode() for e in checked.committed if e.value_type == ValueType.APPLICATION]
    for token, texts in proposals.items():
        found = [value for value in values if value.rsplit("-", 1)[0] == token]
        reply = lab.replies.get(token)
        if reply is not None and reply.accepted:
            assert found == texts, f"seed {seed}: {token} was acknowledged"
        elif reply is not None:
            assert found == [], f"seed {seed}: {token} was refused"
        else:
            assert found == texts[: len(found)], f"seed {seed}: of {token} nobody knows, but a prefix, once"
    assert not lab.violations, f"seed {seed}: {lab.violations}"
