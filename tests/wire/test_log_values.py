"""Log values: gf_i2p/wire/log_values.py."""

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.limits import (
    MAX_ENDPOINT_BYTES,
    MAX_ENTRIES,
    MAX_ID,
    MAX_INTEGER,
    MAX_LOG_PACK_BYTES,
    MAX_SERVERS,
    MAX_SNAPSHOT_BLOCK_BYTES,
    MAX_VALUE_BYTES,
)
from gf_i2p.wire.log_values import (
    ClusterServer,
    Configuration,
    LogPack,
    SnapshotSyncRequest,
    decode_server_id,
    encode_server_id,
    record_bytes,
)
from tests.wire import jraft, strategies

KIB, MIB = 2**10, 2**20
SERVER = ClusterServer(4, "tcp://localhost:9004")
CONFIGURATION = Configuration(17, 1, (SERVER, ClusterServer(2, "tcp://localhost:9002")))
BLOCK = SnapshotSyncRequest(50, 4, CONFIGURATION, 4096, b"tail", done=True)
ENTRIES = (
    Entry(3, ValueType.CONFIGURATION, CONFIGURATION.encode()),
    Entry(3, ValueType.APPLICATION, b""),
    Entry(4, ValueType.LOG_PACK, b"kept and ignored"),
    Entry(MAX_INTEGER, ValueType.APPLICATION, b"{}"),
)


class Value(Protocol):
    def encode(self) -> bytes: ...

    @classmethod
    def decode(cls, data: bytes) -> "Value": ...


def servers_of(fields: list[list[Any]]) -> tuple[ClusterServer, ...]:
    return tuple(ClusterServer(server_id, endpoint) for server_id, endpoint in fields)


# --- JRaft's own bytes ------------------------------------------------------------------------------------


@jraft.parameters("configuration")
def test_jraft_configurations_round_trip(fields: dict[str, Any], data: bytes) -> None:
    expected = Configuration(fields["log_index"], fields["last_log_index"], servers_of(fields["servers"]))
    assert Configuration.decode(data) == expected
    assert expected.encode() == data


@jraft.parameters("cluster_server")
def test_jraft_cluster_servers_round_trip(fields: dict[str, Any], data: bytes) -> None:
    expected = ClusterServer(**fields)
    assert ClusterServer.decode(data) == expected
    assert expected.encode() == data


@jraft.parameters("snapshot_sync")
def test_jraft_snapshot_blocks_round_trip(fields: dict[str, Any], data: bytes) -> None:
    expected = SnapshotSyncRequest(
        fields["last_log_index"],
        fields["last_log_term"],
        Configuration.decode(bytes.fromhex(fields["config_hex"])),
        fields["offset"],
        bytes.fromhex(fields["data_hex"]),
        fields["done"],
    )
    assert SnapshotSyncRequest.decode(data) == expected
    assert expected.encode() == data


@jraft.parameters("log_pack")
def test_jraft_log_packs_round_trip(fields: dict[str, Any], data: bytes) -> None:
    """The base is the size of the entries before the first packed one in the sender's log."""
    entries = jraft.entries(fields["entries"])
    whole_log = next(LogPack.decode(pack).entries for pack in jraft.messages("log_pack"))
    expected = LogPack(entries, record_bytes(whole_log[: fields["first_index"] - 1]))
    assert LogPack.decode(data) == expected
    encoded = expected.encode()
    assert gzip.decompress(encoded) == gzip.decompress(data)
    assert encoded[:10] == data[:10], "the gzip header would tell JRaft's from ours"


def test_every_kind_of_vector_is_tested() -> None:
    assert jraft.kinds() == {"configuration", "cluster_server", "request", "response", "log_pack", "snapshot_sync"}


# --- Any bytes --------------------------------------------------------------------------------------------


@given(st.one_of(strategies.cluster_servers, strategies.configurations, strategies.snapshot_sync_requests))
def test_values_round_trip(value: Value) -> None:
    assert type(value).decode(value.encode()) == value


@given(strategies.server_ids)
def test_server_ids_round_trip(server_id: int) -> None:
    assert decode_server_id(encode_server_id(server_id)) == server_id


@given(strategies.log_packs)
def test_log_packs_round_trip_whatever_their_base(pack: LogPack) -> None:
    assert LogPack.decode(pack.encode()) == pack


@pytest.mark.parametrize("kind", [ClusterServer, Configuration, SnapshotSyncRequest])
@given(data=st.data())
def test_any_bytes_are_a_value_or_refused(kind: type[Value], data: st.DataObject) -> None:
    values: dict[type[Any], st.SearchStrategy[Any]] = {
        ClusterServer: strategies.cluster_servers,
        Configuration: strategies.configurations,
        SnapshotSyncRequest: strategies.snapshot_sync_requests,
    }
    legal = values[kind].map(lambda value: value.encode())
    encoded = data.draw(st.one_of(st.binary(max_size=90), strategies.mutated(legal)))
    try:
        value = kind.decode(encoded)
    except RemoteProtocolError:
        return
    assert value.encode() == encoded


@given(st.binary(max_size=8))
def test_any_bytes_are_a_server_id_or_refused(data: bytes) -> None:
    try:
        server_id = decode_server_id(data)
    except RemoteProtocolError:
        return
    assert encode_server_id(server_id) == data


@given(st.one_of(st.binary(max_size=90), strategies.mutated(strategies.log_packs.map(LogPack.encode))))
def test_any_bytes_are_a_log_pack_or_refused(data: bytes) -> None:
    try:
        pack = LogPack.decode(data)
    except RemoteProtocolError:
        return
    assert LogPack.decode(pack.encode()) == pack


@given(
    st.one_of(
        st.binary(max_size=90),
        strategies.mutated(strategies.log_packs.map(lambda pack: gzip.decompress(pack.encode()))),
    )
)
def test_any_unpacked_bytes_are_a_log_pack_or_refused(data: bytes) -> None:
    """Mutations behind the check sum; nearly all other mutations stop at the check sum."""
    try:
        pack = LogPack.decode(gzip.compress(data))
    except RemoteProtocolError:
        return
    assert gzip.decompress(pack.encode()) == data


@pytest.mark.parametrize(
    "value", [SERVER, CONFIGURATION, BLOCK, LogPack(ENTRIES)], ids=lambda each: type(each).__name__
)
def test_a_value_cut_anywhere_or_with_more_behind_it_is_refused(value: Value) -> None:
    data = value.encode()
    # A Configuration cut behind a server is a Configuration of fewer servers.
    whole = {len(data)} | {len(replace(CONFIGURATION, servers=CONFIGURATION.servers[:n]).encode()) for n in range(2)}
    for end in range(len(data)):
        if type(value) is Configuration and end in whole:
            continue
        with pytest.raises(RemoteProtocolError):
            type(value).decode(data[:end])
    with pytest.raises(RemoteProtocolError):
        type(value).decode(data + b"\0")


# --- Limits -----------------------------------------------------------------------------------------------


def test_both_forms_of_cluster_server() -> None:
    assert SERVER.encode() == bytes.fromhex("00000004 00000014") + b"tcp://localhost:9004"
    assert encode_server_id(4) == bytes.fromhex("00000004")
    with pytest.raises(RemoteProtocolError):
        ClusterServer.decode(encode_server_id(4))
    with pytest.raises(RemoteProtocolError):
        decode_server_id(SERVER.encode())


def test_nobody_is_no_server() -> None:
    data = b"\xff\xff\xff\xff"
    for refused in (lambda: decode_server_id(data), lambda: ClusterServer.decode(data + bytes(4))):
        with pytest.raises(RemoteProtocolError, match=r"id is outside 0 to 4294967294: 4294967295"):
            refused()
    for server_id in (-1, MAX_ID, 2**32):
        with pytest.raises(LocalProtocolError, match="id is outside"):
            encode_server_id(server_id)
        with pytest.raises(LocalProtocolError, match="id is outside"):
            ClusterServer(server_id, "").encode()


def test_endpoints_are_printable_ascii_of_limited_length() -> None:
    longest = ClusterServer(1, "x" * MAX_ENDPOINT_BYTES)
    assert ClusterServer.decode(longest.encode()) == longest
    with pytest.raises(LocalProtocolError, match="printable ASCII"):
        ClusterServer(1, "x" * (MAX_ENDPOINT_BYTES + 1)).encode()
    with pytest.raises(RemoteProtocolError, match="the limit is 265"):
        ClusterServer.decode(struct.pack(">II", 1, 266) + b"x" * 266)
    for bad in ("tcp://h\x1b[2J:1", "tcp://h\n:1", "tcp://h\x7f:1", "tcp://ä:1"):
        with pytest.raises(LocalProtocolError, match="printable ASCII"):
            ClusterServer(1, bad).encode()
        with pytest.raises(RemoteProtocolError, match="printable ASCII"):
            ClusterServer.decode(struct.pack(">II", 1, len(bad)) + bad.encode("latin-1"))


def test_a_configuration_names_a_limited_number_of_servers_and_none_twice() -> None:
    servers = tuple(ClusterServer(number, "") for number in range(MAX_SERVERS + 1))
    largest = Configuration(1, 0, servers[:-1])
    assert Configuration.decode(largest.encode()) == largest
    with pytest.raises(RemoteProtocolError, match="more than 64 servers"):
        Configuration.decode(largest.encode() + servers[-1].encode())
    with pytest.raises(LocalProtocolError, match="more than 64 servers"):
        Configuration(1, 0, servers).encode()
    twice = (SERVER, ClusterServer(SERVER.id, "tcp://localhost:9999"))
    with pytest.raises(LocalProtocolError, match="twice"):
        Configuration(1, 0, twice).encode()
    with pytest.raises(RemoteProtocolError, match="twice"):
        Configuration.decode(bytes(16) + twice[0].encode() + twice[1].encode())


@pytest.mark.parametrize(
    ("value", "fields"),
    [(CONFIGURATION, ["log_index", "last_log_index"]), (BLOCK, ["last_log_index", "last_log_term", "offset"])],
    ids=["Configuration", "SnapshotSyncRequest"],
)
def test_terms_and_indexes_end_at_the_highest_signed_number(
    value: Configuration | SnapshotSyncRequest, fields: list[str]
) -> None:
    for field in fields:
        change: dict[str, Any] = {field: MAX_INTEGER}
        highest = replace(value, **change)
        data = bytearray(highest.encode())
        assert type(value).decode(bytes(data)) == highest
        data[data.index(b"\x7f\xff\xff\xff")] = 0x80
        with pytest.raises(RemoteProtocolError, match="outside 0 to"):
            type(value).decode(bytes(data))
        for number in (-1, MAX_INTEGER + 1, 2**64):
            change = {field: number}
            with pytest.raises(LocalProtocolError, match="outside 0 to"):
                replace(value, **change).encode()


def test_a_snapshot_block_has_a_limit_and_its_done_byte_two_values() -> None:
    largest = replace(BLOCK, data=bytes(MAX_SNAPSHOT_BLOCK_BYTES))
    assert SnapshotSyncRequest.decode(largest.encode()) == largest
    larger = replace(BLOCK, data=bytes(MAX_SNAPSHOT_BLOCK_BYTES + 1))
    with pytest.raises(LocalProtocolError, match="snapshot block of 1048577 bytes"):
        larger.encode()
    head = BLOCK.encode()[: -len(BLOCK.data) - 1 - 4]
    with pytest.raises(RemoteProtocolError, match="snapshot block of 1048577 bytes"):
        SnapshotSyncRequest.decode(head + struct.pack(">I", len(larger.data)) + larger.data + b"\0")
    with pytest.raises(RemoteProtocolError, match="done byte is 2"):
        SnapshotSyncRequest.decode(BLOCK.encode()[:-1] + b"\x02")


# --- LogPack ----------------------------------------------------------------------------------------------


def pack_of(offsets: list[int], records: bytes) -> bytes:
    index = struct.pack(f">{len(offsets)}Q", *offsets)
    return gzip.compress(struct.pack(">II", len(index), len(records)) + index + records)


RECORDS = bytes(7) + b"\x03\x01abc" + bytes(7) + b"\x04\x02"


@pytest.mark.parametrize("base", [0, 1, 213, 2**40, MAX_INTEGER - 12])
def test_a_received_pack_is_cut_by_its_own_offsets(base: int) -> None:
    assert LogPack.decode(pack_of([base, base + 12], RECORDS)) == LogPack(
        (Entry(3, ValueType.APPLICATION, b"abc"), Entry(4, ValueType.CONFIGURATION, b"")), base
    )


def test_a_sent_pack_counts_from_the_senders_first_stored_entry() -> None:
    unpacked = gzip.decompress(LogPack(ENTRIES[1:], record_bytes(ENTRIES[:1])).encode())
    first = 9 + len(ENTRIES[0].value)
    assert struct.unpack(">II3Q", unpacked[:32]) == (24, 9 + 25 + 11, first, first + 9, first + 34)
    assert unpacked[32:41] == bytes(7) + b"\x03\x01"


@pytest.mark.parametrize(
    "offsets",
    [[0, 0], [12, 0], [0, 8], [0, 13], [0, 21], [0, 22], [0, 2**63 - 1], [5, 12]],
    ids=str,
)
def test_offsets_that_do_not_rise_by_a_records_header_or_leave_the_data_are_refused(offsets: list[int]) -> None:
    with pytest.raises(RemoteProtocolError, match=r"must rise by at least 9"):
        LogPack.decode(pack_of(offsets, RECORDS))


def test_offsets_beyond_the_highest_signed_number_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="outside 0 to"):
        LogPack.decode(pack_of([2**63], RECORDS[:12]))
    with pytest.raises(LocalProtocolError, match="outside 0 to"):
        LogPack(ENTRIES, MAX_INTEGER).encode()
    with pytest.raises(LocalProtocolError, match="outside 0 to"):
        LogPack(ENTRIES, -1).encode()


def test_records_obey_the_rules_of_entries() -> None:
    for bad, match in (
        (b"\x80" + RECORDS[1:12], "term"),
        (RECORDS[:8] + b"\x00abc", "type 0"),
        (RECORDS[:8] + b"\x06abc", "type 6"),
        (RECORDS[:9] + bytes(MAX_VALUE_BYTES + 1), "the limit is 1048576"),
    ):
        with pytest.raises(RemoteProtocolError, match=match):
            LogPack.decode(pack_of([0], bad))
    for entry, match in (
        (Entry(-1, ValueType.APPLICATION, b""), "term"),
        (Entry(1, ValueType.APPLICATION, bytes(MAX_VALUE_BYTES + 1)), "the limit is 1048576"),
    ):
        with pytest.raises(LocalProtocolError, match=match):
            LogPack((entry,)).encode()


def test_a_pack_holds_one_entry_to_the_limit() -> None:
    most = LogPack((Entry(1, ValueType.APPLICATION, b""),) * MAX_ENTRIES)
    assert LogPack.decode(most.encode()) == most
    for count in (0, MAX_ENTRIES + 1):
        with pytest.raises(LocalProtocolError, match="bytes of offsets"):
            LogPack(most.entries[:1] * count).encode()
        with pytest.raises(RemoteProtocolError, match="bytes of offsets"):
            LogPack.decode(pack_of([9 * number for number in range(count)], bytes(9 * count)))
    with pytest.raises(RemoteProtocolError, match="12 bytes of offsets"):
        LogPack.decode(gzip.compress(struct.pack(">II", 12, 100) + bytes(112)))
    with pytest.raises(RemoteProtocolError, match="17 bytes of records for 2 entries"):
        LogPack.decode(pack_of([0, 9], bytes(17)))


def test_a_pack_larger_than_the_limit_is_not_sent() -> None:
    value = bytes(MAX_VALUE_BYTES - 17)
    largest = LogPack((Entry(1, ValueType.APPLICATION, value),) * 16)
    assert LogPack.decode(largest.encode()) == largest
    with pytest.raises(LocalProtocolError, match="the limit is 16777216"):
        LogPack((*largest.entries, ENTRIES[1])).encode()


# --- Gzip -------------------------------------------------------------------------------------------------


def zeros(head: bytes, mebibytes: int) -> bytes:
    """Make a gzip of `head` and many MiB of zeros, without compressing each MiB."""
    deflate = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    start = deflate.compress(head) + deflate.flush(zlib.Z_FULL_FLUSH)
    mebibyte = deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    # After a full flush no byte refers back, so the same bytes again are another MiB. No decoder reaches the checksum.
    return gzip.compress(b"")[:10] + start + mebibyte * mebibytes + deflate.flush() + bytes(8)


@contextmanager
def memory_stays_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


HEADS = {
    "no head at all": b"",
    "announces little": struct.pack(">II", 8, 9),
    "announces more than legal": struct.pack(">II", 8, MAX_LOG_PACK_BYTES - 7),
    "announces as much as can be": b"\xff" * 8,
    "announces offsets without end": struct.pack(">II", 2**32 - 8, 9),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_bomb_of_10_kib_is_refused_in_little_memory(name: str) -> None:
    """Deflate packs 1,032 to 1 at best: 10 KiB hold 10 MiB of zeros."""
    bomb = zeros(HEADS[name], 10)
    assert len(bomb) < 12 * KIB
    with memory_stays_below(128 * KIB), pytest.raises(RemoteProtocolError):
        LogPack.decode(bomb)


@pytest.mark.parametrize("name", HEADS)
def test_a_bomb_of_10_gib_in_a_legal_request_is_refused_in_the_memory_that_it_took_itself(name: str) -> None:
    bomb = zeros(HEADS[name], 10 * KIB)
    assert len(bomb) < 11 * MIB
    with memory_stays_below(len(bomb) * 2 + 128 * KIB), pytest.raises(RemoteProtocolError):
        LogPack.decode(bomb)


def test_a_bomb_that_announces_the_largest_legal_size_costs_no_more_than_that() -> None:
    bomb = zeros(struct.pack(">II", 8, MAX_LOG_PACK_BYTES - 8), 10 * KIB)
    with (
        memory_stays_below(3 * MAX_LOG_PACK_BYTES + 2 * len(bomb)),
        pytest.raises(RemoteProtocolError, match="does not unpack to the 16777216 bytes"),
    ):
        LogPack.decode(bomb)


def test_nested_gzip_of_10_gib_in_10_kib_is_unpacked_once() -> None:
    bomb = gzip.compress(zeros(struct.pack(">II", 8, 9), 10 * KIB), 9)
    assert len(bomb) < 40 * KIB
    with memory_stays_below(128 * KIB), pytest.raises(RemoteProtocolError):
        LogPack.decode(bomb)


def test_several_gzip_members_are_refused() -> None:
    """Nobody has announced the size of the bytes after the first member."""
    good = LogPack(ENTRIES).encode()
    for more in (good, gzip.compress(b""), gzip.compress(bytes(10 * MIB)) * 10):
        with memory_stays_below(MIB), pytest.raises(RemoteProtocolError, match="does not unpack to"):
            LogPack.decode(good + more)


def test_a_wrong_check_sum_or_length_is_refused() -> None:
    good = LogPack(ENTRIES).encode()
    for position in (-8, -1):
        bad = bytearray(good)
        bad[position] ^= 1
        with pytest.raises(RemoteProtocolError, match="not valid gzip"):
            LogPack.decode(bytes(bad))


@pytest.mark.parametrize("make", [zlib.compress, bytes], ids=["zlib", "none"])
def test_other_compressions_are_refused(make: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        LogPack.decode(make(gzip.decompress(LogPack(ENTRIES).encode())))
