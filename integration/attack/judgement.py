"""The judgement of one attack: compares the farm before and after, and names each harm in a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from integration.attack.attack import Attack, Load, Outcome
from integration.attack.attacked_farm import LogEntry, Memory

MOST_LOGIN_SECONDS: Final = 12.0
"""Longest time of an honest login and post while the leader stays. Strangers at the same address push out a login that
has begun (`gf_i2p/transport/connection_gate.py`), and the client tries again."""
MOST_KIB: Final = 288 << 10
"""Most memory of a node after an attack. A new node has 75 MiB. After posts of 16 MiB a node has 170 to 240 MiB, and
after the next ones no more: the log's cache has 16 MiB, and Python's heap does not shrink."""
PEAK_KIB: Final = 448 << 10
"""Most memory of a node during an attack. One user may have 64 MiB of half requests, and 32 MiB of posts, which a node
has several times over while the posts are decoded, kept and written."""
MOST_LINES: Final = 400
"""Most lines that a node may log in one attack."""
_DEFECTS: Final = ("Traceback", "defect", "[critical")
_HONEST: Final = '{"key":"0:'
_TOLD: Final = 160


@dataclass(frozen=True, slots=True)
class View:
    """The farm at one moment, as the nodes' own sockets and the kernel tell."""

    leader: int
    term: int
    endpoints: Mapping[int, str]
    """By server id, from the leader's Configuration."""
    memory: Memory
    entries: Mapping[int, Mapping[int, LogEntry]]
    """By server and index, committed entries. After an attack: also those that were there before."""
    last_index: int
    """Index of the leader's last entry."""
    strayed: int = 0
    """Number of servers whose log or snapshot has the attacker's bytes."""


@dataclass(frozen=True, slots=True)
class Service:
    """The answers to the honest client in a time."""

    seconds: Sequence[float]
    """Of each acknowledged post."""
    unanswered: int = 0
    """Posts that were refused, or whose outcome is unknown."""

    def percentile(self, share: float) -> float:
        """Return the time in seconds within which this share of the posts, 0 to 1, was acknowledged."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("inf")


@dataclass(frozen=True, slots=True)
class Trial:
    """All measurements of one attack on a farm."""

    attack: Attack
    load: Load
    before: View
    after: View
    usual: Service
    """Just before the attack."""
    meanwhile: Service
    """From the attack's begin until the farm commits again."""
    newcomer: float
    """Seconds of an honest client for a login and a post during the attack; infinite without an answer."""
    back_seconds: float
    """From the attack's end until the farm has committed a new post."""
    output: Mapping[int, Sequence[str]]
    """By server, the lines that the node has logged meanwhile."""


def harm(trial: Trial) -> list[str]:
    """Return each harm in a sentence; empty when the farm has borne the attack."""
    found = [*trial.load.harm, *_logged(trial), *_remembered(trial)]
    if trial.attack.outcome is Outcome.KEPT:
        found += _disturbed(trial)
    if trial.attack.outcome is not Outcome.SHOWN:
        found += _written(trial)
        if trial.before.endpoints != trial.after.endpoints:
            found.append(f"the servers have changed to {dict(trial.after.endpoints)}")
    return found


def _disturbed(trial: Trial) -> list[str]:
    """Return the harm to an honest client, and the loss of the leader."""
    found, before, after, service = [], trial.before, trial.after, trial.meanwhile
    if (before.leader, before.term) != (after.leader, after.term):
        found.append(
            f"server {before.leader} led term {before.term}, and afterwards server {after.leader} term {after.term}"
        )
    if service.unanswered:
        found.append(f"{service.unanswered} honest posts were refused, or have an unknown outcome")
    if (longest := service.percentile(1.0)) > trial.attack.most_seconds:
        found.append(f"an honest post took {longest:.1f} s")
    if trial.newcomer > MOST_LOGIN_SECONDS:
        found.append(f"an honest login and post took {trial.newcomer:.1f} s")
    return found


def _written(trial: Trial) -> list[str]:
    """Return the committed entries that have changed, differ between servers, or are the attacker's."""
    found = []
    first = min(trial.before.entries)
    reference = trial.after.entries[first]
    for server, entries in trial.after.entries.items():
        old = trial.before.entries[server]
        if changed := [index for index, entry in old.items() if entries.get(index, entry) != entry]:
            found.append(f"server {server} has changed its committed entries {changed[:5]}")
        if different := [index for index in entries if reference.get(index, entries[index]) != entries[index]]:
            found.append(f"servers {first} and {server} differ in their committed entries {different[:5]}")
    if not trial.attack.writes:
        for index, (_, kind, value) in reference.items():
            if index > trial.before.last_index and kind == "application" and not value.startswith(_HONEST):
                found.append(f"entry {index} is no honest client's: {value[:_TOLD]}")
                break
    return found


def _remembered(trial: Trial) -> list[str]:
    """Return the memory that is missing, and a peak that is too high."""
    found, after = [], trial.after.memory
    if after.now > MOST_KIB:
        found.append(f"a node keeps {after.now >> 10} MiB")
    if after.peak > PEAK_KIB:
        found.append(f"a node needed {after.peak >> 10} MiB for a time")
    return found


def _logged(trial: Trial) -> list[str]:
    """Return the lines of the nodes' output that report a defect, and an output that is too long."""
    found = []
    for server, lines in trial.output.items():
        defects = [line for line in lines if any(word in line for word in _DEFECTS)]
        found += [f"server {server} says: {line[:_TOLD]}" for line in defects[:3]]
        if len(lines) > MOST_LINES:
            found.append(f"server {server} has logged {len(lines)} lines, the last: {lines[-1][:_TOLD]}")
    return found
