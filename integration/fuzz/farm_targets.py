"""Targets of the farm: status records, admin entries, and the state in a snapshot."""

import json
from collections.abc import Iterator
from typing import Any, Final

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.admission import Admission, Ticket
from gf_i2p.farm.choice import tree
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.master_load import MasterLoad
from gf_i2p.farm.record.remote_sensing import MetaSensing, RemoteDestination, RemoteRouter
from gf_i2p.farm.record.status_record import MAX_RECORD_BYTES, Meta, ReportedConfig, StatusRecord
from gf_i2p.farm.sensed_floodfills import Floodfill, Sensed
from gf_i2p.farm.state import FarmState, SnapshotError, read_entry
from gf_i2p.farm.strict_json import RecordError, decode_object
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease
from integration.fuzz import samples
from integration.fuzz.target import Target

_FARM: Final = "farm"
_ADMISSION: Final = Admission(
    Ticket(4, "i2p", samples.NOW_MS, "admin-a", bytes(32)), "tcp://192.0.2.4:9001", None, bytes(32), bytes(64)
)
_MEMBER: Final = 2**31 + 5
_TOKENS: Final = (
    b'"cluster":"farm"', b'"date":', b'"router":{"up":true}', b'"meta":{', b'"destinations":[', b'"remoteRouters":[',
    b'"below":[', b'"publishConfig":"auto"', b'"hash":"', b'"up":false', b'"action":"set"', b'"action":"sensed"',
    b'"parameters":{', b'"by":"admin-a"', b"null", b"true", b"1e308", b"1e-400", b"-1", b"0e000", b'{"a":[]}',
    b"\\u0000", b"\\ud800", b"\t", b"\\", b'"', b"00000000000000000000000000000000000001", b"1" * 33,
    b"1" * 33 + b".0", b"1e+0400",
)  # fmt: skip


def _record(server: int, *, up: bool = True, date_ms: int = samples.NOW_MS) -> StatusRecord:
    leaf = samples.keys(f"leaf {server}").destination
    return StatusRecord(
        _FARM,
        date_ms,
        server,
        up,
        router={"uptime": 3_600_000, "version": "2.58.0", "configuredInboundBandwidth": 1_000_000, "jobLag": 1.5},
        meta=Meta(
            samples.keys().destination.base64,
            "auto",
            server == 1,
            samples.NOW_MS,
            samples.to_text(samples.meta_set().data) if server == 1 else None,
            attempted_ms=1,
            sent_ms=2,
            found_ms=3,
            confirmed_ms=4,
            load=MasterLoad(uptime_ms=5, current_connections=1),
        ),
        leaves=(
            Leaf(leaf.hash, up, leaf.base64, uptime_ms=1, current_connections=3, configured_connections=10),
            Leaf(samples.keys("branch").destination.hash, True, type=7, below=(bytes(32),), depth=2),
        ),
        config=ReportedConfig("meta", 30_000, "0.1.0"),
        remote_routers=(RemoteRouter(3, False, 1, 2, 3),),
        remote_destinations=(RemoteDestination(leaf.hash, True, 1, 2, samples.NOW_MS, 5),),
        meta_sensing=MetaSensing(samples.NOW_MS, 10, samples.NOW_MS),
        extra={"new": {"x": [1, 2.5, None]}},
    )


def _records() -> Iterator[bytes]:
    yield _record(1).encode()
    yield StatusRecord(_FARM, 1, _MEMBER, False).encode()
    yield b' {"cluster":"farm","date":0,"id":1,"router":{"up":true},"x":1E2,"y":-0.0e-7,"z":"\\u00e9\\ud83d\\ude00"} '


def _admin_entries() -> Iterator[bytes]:
    leaf = samples.keys("leaf 1").destination.hash
    floodfill = Floodfill(leaf, bytes(32), {"agreed": 5, "speed": 1.5})
    for entry in (
        AdminEntry(_FARM, samples.NOW_MS, "admin-a", "exclude", leaf, reason="broken"),
        AdminEntry(_FARM, samples.NOW_MS, "admin-a", "cost", leaf, cost=255),
        AdminEntry(_FARM, samples.NOW_MS, "admin-a", "cost", leaf),
        AdminEntry(_FARM, samples.NOW_MS, "server-2", "drain", server=2),
        AdminEntry(_FARM, samples.NOW_MS, "admin-a", "move", server=3),
        AdminEntry(_FARM, samples.NOW_MS, "admin-a", "release"),
        AdminEntry(_FARM, samples.NOW_MS, "server-2", "admit", admission=_ADMISSION),
        AdminEntry(_FARM, 1, "admin-a", "set", parameters={"freshMs": 200_000, "tree": "tree", "margin": None}),
        AdminEntry(_FARM, 1, "admin-a", "sensed", leaf, sensed=Sensed("2026-11-25", (floodfill,))),
    ):
        yield entry.encode()


def _state() -> FarmState:
    """Make a state in which every part of a snapshot has something."""
    state = FarmState(_FARM)
    state.configure((1, 2, 3))
    for number, date_ms in enumerate(range(samples.NOW_MS, samples.NOW_MS + 200_000, 50_000)):
        for server in (1, 2, 3, _MEMBER):
            record = _record(server, up=server != 2 or number > 1, date_ms=date_ms)
            if server == _MEMBER:
                record = StatusRecord(_FARM, date_ms, server, True, leaves=record.leaves[:1])
            state.apply(record.encode(), 10 * number + server % 10)
    for number, entry in enumerate(_admin_entries()):
        state.apply(entry, 100 + number)
    return state


def _states() -> Iterator[bytes]:
    yield FarmState(_FARM).encode()
    yield _state().encode()
    small = json.loads(_state().encode())
    small["posters"] = small["posters"][:1]
    yield json.dumps(small, separators=(",", ":")).encode()


def _status_record(data: bytes) -> None:
    record = StatusRecord.parse(data)
    encoded = record.encode()
    if len(encoded) > MAX_RECORD_BYTES:
        return  # written anew, a text can be longer: an umlaut takes six characters
    assert _parsed_again(encoded) == encoded
    _ = record.bandwidth_used
    _ = None if record.meta is None else record.meta.hash


def _parsed_again(encoded: bytes) -> bytes | str:
    try:
        return StatusRecord.parse(encoded).encode()
    except RecordError as error:
        return str(error)


def _admin_entry(data: bytes) -> None:
    entry = AdminEntry.parse(data)
    entry.what.encode("utf-8", "surrogatepass")
    assert AdminEntry.parse(entry.encode()).encode() == entry.encode()


def _entry(data: bytes) -> None:
    """Apply any value of the log to a farm: nothing may be raised, and the snapshot must be readable."""
    entry = read_entry(data)
    if entry is None:
        return
    state = FarmState.decode(_FARM, _STATE)
    state.apply_entry(entry, data, 1000)
    _ = state.choice
    assert FarmState.decode(_FARM, state.encode()).encode() == state.encode()


def _snapshot(data: bytes) -> None:
    state = FarmState.decode(_FARM, data)
    encoded = state.encode()
    assert FarmState.decode(_FARM, encoded).encode() == encoded
    # The state must bear what comes next: a record, an administrator's entry, another Configuration.
    server = state.servers[0] if state.servers else 1
    state.apply(_record(server, date_ms=samples.NOW_MS + 300_000).encode(), 2**40)
    state.apply(_RELEASE, 2**40 + 1)
    choice = state.choice
    for entry in (*choice.entries, *(entry for branch in choice.branches for entry in branch.entries)):
        MetaLease(entry.hash, 1, entry.cost, LeaseType(entry.type)).encode()
    assert all(0 <= branch.number < tree.BRANCHES for branch in choice.branches)
    _ = state.now_ms, state.mode
    for each in state.servers:
        state.objection(each)
        state.score(each)
    state.configure(state.servers[:1])
    _ = state.choice
    state.encode()


def _object(data: bytes) -> dict[str, Any]:
    """Read an object, and compare with Python's own reader where both read the text."""
    found = decode_object(data, "a value", max_bytes=64 << 10, max_openings=256)
    assert repr(found) == repr(json.loads(data.decode("utf-8")))
    return found


_STATE: Final = _state().encode()
_RELEASE: Final = AdminEntry(_FARM, samples.NOW_MS, "admin-a", "release").encode()
TARGETS: Final = (
    Target(
        "json-object",
        _object,
        (RecordError,),
        lambda: (*_records(), b'{"a":[1,-2.5e-3,"\\"",true,null,{}],"b":' + b"9" * 32 + b"}"),
        _TOKENS,
    ),
    Target(
        "status-record",
        _status_record,
        (RecordError,),
        _records,
        _TOKENS,
    ),
    Target(
        "admin-entry",
        _admin_entry,
        (RecordError,),
        _admin_entries,
        _TOKENS,
    ),
    Target(
        "log-entry",
        _entry,
        (),
        lambda: (*_records(), *_admin_entries()),
        _TOKENS,
    ),
    Target(
        "farm-state",
        _snapshot,
        (SnapshotError,),
        _states,
        (
            *_TOKENS,
            b'"accused":[[1,2,3]]',
            b'"able":[[1,2]]',
            b'"listed":[]',
            b'"movedTo":',
            b'"format":2',
            b"Infinity",
        ),
    ),
)
