"""Hypothesis strategies for legal messages and values, and for bytes with small damage."""

from hypothesis import strategies as st

from gf_i2p.wire.entries import Entry, ValueType, encode_entries
from gf_i2p.wire.limits import MAX_ID, MAX_INTEGER
from gf_i2p.wire.log_values import ClusterServer, Configuration, LogPack, SnapshotSyncRequest, encode_server_id
from gf_i2p.wire.messages import MessageType, Request, Response

# The ends of the range and small numbers are where mistakes are.
integers = st.one_of(st.integers(0, 300), st.integers(0, MAX_INTEGER), st.just(MAX_INTEGER))
ids = st.one_of(st.integers(0, 5), st.integers(0, MAX_ID), st.just(MAX_ID))
server_ids = st.integers(0, MAX_ID - 1)
values = st.binary(max_size=40)


def entries_of(*types: ValueType) -> st.SearchStrategy[tuple[Entry, ...]]:
    """Up to five entries of these types, with any bytes as values."""
    one = st.builds(Entry, integers, st.sampled_from(types), values)
    return st.lists(one, max_size=5).map(tuple)


endpoints = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
cluster_servers = st.builds(ClusterServer, server_ids, endpoints)
configurations = st.builds(
    Configuration,
    integers,
    integers,
    st.lists(cluster_servers, max_size=4, unique_by=lambda server: server.id).map(tuple),
)
snapshot_sync_requests = st.builds(
    SnapshotSyncRequest, integers, integers, configurations, integers, values, st.booleans()
)
log_packs = st.builds(
    LogPack,
    entries_of(*ValueType).filter(bool),
    st.one_of(st.integers(0, 300), st.integers(0, MAX_INTEGER - 1000)),
)


def _requests() -> st.SearchStrategy[Request]:
    def request(request_type: MessageType, entries: st.SearchStrategy[tuple[Entry, ...]]) -> st.SearchStrategy[Request]:
        return st.builds(Request, st.just(request_type), ids, ids, integers, integers, integers, integers, entries)

    def single(value_type: ValueType, value: st.SearchStrategy[bytes]) -> st.SearchStrategy[tuple[Entry, ...]]:
        return st.tuples(st.builds(Entry, integers, st.just(value_type), value))

    none: st.SearchStrategy[tuple[Entry, ...]] = st.just(())
    return st.one_of(
        request(MessageType.REQUEST_VOTE_REQUEST, none),
        request(MessageType.APPEND_ENTRIES_REQUEST, entries_of(*ValueType)),
        request(MessageType.CLIENT_REQUEST, entries_of(ValueType.APPLICATION)),
        request(
            MessageType.ADD_SERVER_REQUEST,
            single(ValueType.CLUSTER_SERVER, cluster_servers.map(ClusterServer.encode)),
        ),
        request(MessageType.REMOVE_SERVER_REQUEST, single(ValueType.CLUSTER_SERVER, server_ids.map(encode_server_id))),
        request(MessageType.SYNC_LOG_REQUEST, single(ValueType.LOG_PACK, log_packs.map(LogPack.encode))),
        request(
            MessageType.JOIN_CLUSTER_REQUEST,
            single(ValueType.CONFIGURATION, configurations.map(Configuration.encode)),
        ),
        request(MessageType.LEAVE_CLUSTER_REQUEST, none),
        request(
            MessageType.INSTALL_SNAPSHOT_REQUEST,
            single(ValueType.SNAPSHOT_SYNC_REQUEST, snapshot_sync_requests.map(SnapshotSyncRequest.encode)),
        ),
    )


requests = _requests()
responses = st.builds(
    Response,
    st.sampled_from([each for each in MessageType if each.name.endswith("_RESPONSE")]),
    ids,
    ids,
    integers,
    integers,
    st.booleans(),
)
encoded_entries = entries_of(*ValueType).map(encode_entries)


@st.composite
def mutated(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """A legal encoding with some bytes changed, cut out or put in."""
    data = bytearray(draw(originals))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from(("change", "cut", "insert", "end")))
        if what == "change" and position < len(data):
            data[position] = draw(st.sampled_from((0, 1, 2, 5, 6, 0x7F, 0x80, 0xFF)))
        elif what == "cut":
            del data[position : position + draw(st.integers(1, 9))]
        elif what == "insert":
            data[position:position] = draw(st.binary(min_size=1, max_size=9))
        elif what == "end":
            del data[position:]
    return bytes(data)
