"""Scenario files: commands, and under each command `----` with all events, up to an empty line.

# A line that begins with a hash is a comment.
farm 3 [NAME=VALUE...]    three servers, all followers; NAME is a field of Flow
timeout 1 [2...]          the next time-outs of these servers pass; their questions for the leader are answered at once,
                          and shown only if a server stands for no election
tick 1                    the next deadline of server 1 passes: a time-out, or the time for questions
deliver [A B] [COUNT]     messages of the network arrive, from A to B only, COUNT at most
lose A B                  the messages on the way from A to B are lost
cut A B / isolate A / heal
disk A slow|fast          a slow disk makes a write durable only by `sync`
sync A                    all writes of A are durable
propose A TOKEN TEXT...   a client proposes entries
read A TOKEN              a client reads
reachable A B             A's connection to B comes up
unreachable A B           A's connection to B broke, and to dial again has failed
newcomer A                server A starts, empty and in no farm
add A B TOKEN             an administrator asks A to let B join
remove A B TOKEN          ... and to let B leave
snapshot A [KEEP]         A makes a snapshot of all that it may apply, and keeps the last KEEP entries
stepdown A                an operator wants another leader than A
members A                 the servers of A's newest Configuration, and whether it is committed
advance SECONDS           time passes, messages arrive at once and are not shown
crash A / restart A
status                    one line a server
deadline A                when A's next time-out (a leader's: next work) is due, in seconds from now
log A                     the log on A's disk
"""

import re
from collections.abc import Callable
from pathlib import Path

from gf_i2p.raft import inputs
from gf_i2p.raft.settings import Flow
from tests.raft.lab import Lab, Message, entry_name, name


class Scenario:
    """Runs the commands of a scenario file, and writes the transcript."""

    def __init__(self) -> None:
        self.lab = Lab(1)
        self.lines: list[str] = []

    def run(self, command: str) -> list[str]:
        self.lines = []
        verb, *words = command.split()
        action: Callable[..., None] = getattr(self, f"do_{verb}")
        action(*words)
        return self.lines

    def do_farm(self, servers: str, *settings: str) -> None:
        pairs = (setting.split("=") for setting in settings)
        self.lab = Lab(int(servers), flow=Flow(**{name: int(value) for name, value in pairs}))
        self.lab.on_event = self._note

    def _note(self, line: str) -> None:
        self.lines.append(line)

    def do_timeout(self, *servers: str) -> None:
        self.lab.timeout(*map(int, servers))

    def do_tick(self, server: str) -> None:
        self.lab.tick(int(server))

    def do_deliver(self, *words: str) -> None:
        if len(words) < 2:
            limit = int(words[0]) if words else None
            while self.lab.network and (limit is None or limit > 0):
                self.lab.deliver(self.lab.network.popleft())
                limit = None if limit is None else limit - 1
            return
        limit = int(words[2]) if len(words) > 2 else 1_000
        for message in self._between(words[0], words[1])[:limit]:
            self.lab.network.remove(message)
            self.lab.deliver(message)

    def do_lose(self, sender: str, receiver: str) -> None:
        for message in self._between(sender, receiver):
            self.lab.network.remove(message)
            self.lab.deliver(Message(message.sender, message.receiver, message.tag, message.payload, lost=True))

    def _between(self, sender: str, receiver: str) -> list[Message]:
        return [m for m in self.lab.network if (m.sender, m.receiver) == (int(sender), int(receiver))]

    def do_cut(self, one: str, other: str) -> None:
        self.lab.cuts |= {(int(one), int(other)), (int(other), int(one))}

    def do_isolate(self, server: str) -> None:
        self.lab.isolate(int(server))

    def do_heal(self) -> None:
        self.lab.heal()

    def do_disk(self, server: str, speed: str) -> None:
        self.lab.servers[int(server)].slow_disk = speed == "slow"

    def do_sync(self, server: str) -> None:
        self.lab.sync(int(server))

    def do_propose(self, server: str, token: str, *texts: str) -> None:
        self.lab.propose(int(server), token, *texts)

    def do_read(self, server: str, token: str) -> None:
        self.lab.step(int(server), inputs.Read(token))

    def do_reachable(self, server: str, peer: str) -> None:
        self.lab.step(int(server), inputs.Reachable(int(peer)))

    def do_unreachable(self, server: str, peer: str) -> None:
        self.lab.step(int(server), inputs.Unreachable(int(peer)))

    def do_newcomer(self, server: str) -> None:
        self.lab.newcomer(int(server))

    def do_add(self, server: str, other: str, token: str) -> None:
        self.lab.change(int(server), token, add=int(other))

    def do_remove(self, server: str, other: str, token: str) -> None:
        self.lab.change(int(server), token, remove=int(other))

    def do_snapshot(self, server: str, keep: str = "0") -> None:
        self.lab.snapshot(int(server), keep=int(keep))

    def do_stepdown(self, server: str) -> None:
        self.lab.step(int(server), inputs.StepDown())

    def do_members(self, server: str) -> None:
        core = self.lab.core(int(server))
        ids = " ".join(str(each.id) for each in core.configuration.servers)
        known = "committed" if core.configuration.log_index <= core.commit else "not committed"
        self.lines.append(f"{ids}, {known}")

    def do_advance(self, seconds: str) -> None:
        self.lab.advance(float(seconds))
        self.lines.clear()

    def do_crash(self, server: str) -> None:
        self.lab.crash(int(server))

    def do_restart(self, server: str) -> None:
        self.lab.restart(int(server))

    def do_status(self) -> None:
        for server in self.lab.servers.values():
            core = server.core
            self.lines.append(
                f"{server.id} {core.role if server.up else 'down':9} term {core.term} vote {name(core.vote)} "
                f"leader {name(core.leader)} last {core.log.last_index} stored {core.log.stored} commit {core.commit}"
            )

    def do_deadline(self, server: str) -> None:
        core = self.lab.core(int(server))
        self.lines.append(f"{(core.deadline if core.is_leader else core._timeout.at) - self.lab.now:.3f} s")

    def do_log(self, server: str) -> None:
        entries = self.lab.servers[int(server)].disk.entries
        base = self.lab.servers[int(server)].disk.base
        names = [f"{i}:{entry_name(entry)}" for i, entry in enumerate(entries, base + 1)]
        self.lines.append(" ".join([f"(snapshot) {base}"] * bool(base) + names) or "(empty)")


def replay(path: Path) -> str:
    """Run the commands of a scenario file and return the file with the right transcript."""
    scenario = Scenario()
    output: list[str] = []
    in_transcript = False
    for line in path.read_text().splitlines():
        if in_transcript:
            in_transcript = line != ""
        elif line == "----":
            in_transcript = True
        elif not line or line.startswith("#"):
            output.append(line)
        else:
            output += [line, "----", *(scenario.run(line) or ["(nothing)"]), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(output)).rstrip() + "\n"
