"""Logs of eventful farms, made from a seed."""

import random
from typing import Any

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination, RemoteRouter
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID, Leaf
from gf_i2p.farm.state import FarmState
from tests.farm.strategies import MASTER, NOW, record

SERVERS = [1, 2, 3, 4, 5]
MEMBERS = [FIRST_LEAF_MEMBER_ID + number for number in range(4)]
Entry = bytes | list[int]


def log(seed: int, length: int) -> list[Entry]:
    """Make the values of a log: records, admin entries, and Configurations as lists of servers."""
    chance = random.Random(seed)
    skews = {server: chance.choice([0, 0, 0, -600_000, 600_000, 40_000]) for server in SERVERS}
    liveliness = chance.choice([0.02, 0.3])
    now, entries = NOW, list[Entry]()
    for _ in range(length):
        now += chance.choice([0, 3000, 10_000, 10_000, 10_000, 30_000] + [200_000, 3_000_000] * (chance.random() < 0.1))
        kind = chance.random()
        if kind < 0.02:
            entries.append(sorted(chance.sample(SERVERS, chance.randint(2, 5))))
        elif kind < 0.1:
            entries.append(_command(chance).encode())
        elif kind < 0.12:
            entries.append(chance.randbytes(5))
        else:
            poster = chance.choice([*SERVERS, *SERVERS, *SERVERS, *MEMBERS, 77])
            entries.append(_record(chance, poster, now + skews.get(poster, 0), liveliness))
    return entries


def take(state: FarmState, index: int, entry: Entry) -> None:
    if isinstance(entry, list):
        state.configure(entry)
    else:
        state.apply(entry, index)


def _record(chance: random.Random, who: int, date: int, liveliness: float) -> bytes:
    def now_and_then(value: Any, usual: Any) -> Any:
        return value if chance.random() < liveliness else usual

    leaves = [
        Leaf(
            now_and_then(chance.choice([MASTER.hash, bytes(32)]), (100 * (who % 1000) + number).to_bytes(32)),
            now_and_then(False, True),
            type=now_and_then(7, 3),
            below=now_and_then((MASTER.hash,), ()),
            current_connections=chance.randrange(60),
            configured_connections=now_and_then(None, 50),
        )
        for number in range(now_and_then(chance.randrange(40), 4))
    ]
    return record(
        who,
        *leaves,
        date=max(date + now_and_then(chance.choice([-600_000, 600_000]), 0), 0),
        up=now_and_then(False, True),
        publish=now_and_then(chance.choice(["on", "off", None]), "auto"),
        mode=now_and_then(chance.choice(["failover", "off", None]), "meta"),
        published=now_and_then(date + chance.choice([0, 10**7]), 0),
        router=now_and_then({"uptime": "?", "jobLag": True, "reachability": 5}, {"jobLag": chance.choice([5, 9000])}),
        remote_routers=tuple(
            RemoteRouter(server, reachable=chance.random() < 0.5)
            for server in now_and_then(chance.sample(SERVERS, 2), [])
        ),
        remote_destinations=tuple(
            RemoteDestination((100 * server).to_bytes(32), reachable=chance.random() < 0.7) for server in SERVERS
        ),
        meta_sensing=now_and_then(MetaSensing(chance.choice([None, date]), None, date), None),
    ).encode()


def _command(chance: random.Random) -> AdminEntry:
    action = chance.choice(["exclude", "include", "cost", "move", "drain", "undrain", "release", "set", "set", "set"])
    parameters = {
        "tree": chance.choice(["best", "tree", "tree"]),
        "maxEntries": chance.choice([1, 3, 4, 16]),
        "freshMs": chance.choice([None, 35_000]),
        "leafUpMs": chance.choice([0, 600_000]),
        "margin": chance.choice([0, 50, 1000]),
        "holdMs": chance.choice([0, None]),
    }
    return AdminEntry(
        "farm",
        NOW,
        "admin-a",
        action,
        hash=(100 * chance.choice(SERVERS)).to_bytes(32) if action in {"exclude", "include", "cost"} else None,
        cost=chance.choice([None, 0, 255]),
        server=chance.choice(SERVERS),
        parameters=dict(chance.sample(sorted(parameters.items()), 2)) if action == "set" else {},
    )
