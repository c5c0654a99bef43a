"""Targets of the netDb: destinations, keys, lease sets, router infos and their texts."""

from collections.abc import Callable, Iterator
from typing import Final

from gf_i2p.netdb import lease_set, meta_lease_set
from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import from_b32_address, from_base64, to_b32_address, to_base64
from gf_i2p.netdb.errors import NetDbError, SignatureError, StructureError
from gf_i2p.netdb.lease_set import LeaseSet2, read_offered
from gf_i2p.netdb.limits import MAX_ROUTER_INFO_BYTES
from gf_i2p.netdb.mapping import encode_mapping, read_mapping
from gf_i2p.netdb.meta_lease_set import MetaLeaseSet
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.router_info import RouterInfo
from gf_i2p.netdb.session_config import SessionConfig, session_config
from gf_i2p.netdb.signing import SIGNATURE_BYTES
from gf_i2p.node.publish.publishing_keys import PublishingKeys, Purpose
from integration.fuzz import samples
from integration.fuzz.target import Target

_STRUCTURE: Final = (StructureError,)
_NETDB: Final = (NetDbError,)


def _destination(data: bytes) -> None:
    destination = Destination.parse(data)
    assert destination.data == data
    assert Destination.from_base64(destination.base64) == destination
    assert from_b32_address(destination.b32) == destination.hash


def _base64(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    found = from_base64(text, 4096)
    assert to_base64(found).rstrip("=") == text.rstrip("=")


def _b32(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    assert to_b32_address(from_b32_address(text)) == text.lower()


def _signed_again(store_type: int, data: bytes, parse: Callable[[bytes], object]) -> None:
    """Parse a set; if only its signature is wrong, sign the set with the known key, and parse again."""
    try:
        parse(data)
    except SignatureError:
        body = data[:-SIGNATURE_BYTES]
        for keys in (samples.keys(), samples.delegated_keys()):
            parse(body + keys.key.sign(bytes([store_type]) + body))


def _meta(data: bytes) -> None:
    def parse(signed: bytes) -> None:
        found = MetaLeaseSet.parse(signed)
        found.objection(samples.NOW)

    _signed_again(meta_lease_set.STORE_TYPE, data, parse)


def _lease_set(data: bytes) -> None:
    _signed_again(lease_set.STORE_TYPE, data, LeaseSet2.parse)


def _offered(data: bytes) -> None:
    for lease in read_offered(data):
        lease.encode()


def _keys(data: bytes) -> None:
    assert DestinationKeys.parse(data).encode() == data


def _publishing_keys(data: bytes) -> None:
    keys = PublishingKeys.parse(data)
    keys.described(samples.NOW)
    again = PublishingKeys.parse(keys.encode())
    assert again.keys.encode() == keys.keys.encode()


def _publishing_key_files() -> Iterator[bytes]:
    yield samples.keys().encode()
    yield samples.delegated_keys().encode()
    signed = {each: session_config(samples.keys(), samples.NOW_MS, each.options) for each in Purpose}
    yield PublishingKeys(samples.delegated_keys(), signed, 3).encode()


def _router_info(data: bytes) -> None:
    info = RouterInfo.parse(data)
    assert info.net_id is None or 0 <= info.net_id < 1000
    info.caps.encode("utf-8")
    info.version.encode("utf-8")


def _session(data: bytes) -> None:
    config = SessionConfig.parse(data)
    assert config.data == data
    config.verify()


def _mapping(data: bytes) -> None:
    for in_order in (True, False):
        reader = Reader(data, "a Mapping")
        pairs = read_mapping(reader, max_bytes=MAX_ROUTER_INFO_BYTES, in_order=in_order)
        reader.finish()
        assert all(text.encode("utf-8") is not None for pair in pairs.items() for text in pair)


TARGETS: Final = (
    Target(
        "destination",
        _destination,
        _STRUCTURE,
        lambda: (samples.keys().destination.data, samples.keys("leaf").destination.data),
    ),
    Target(
        "base64",
        _base64,
        _STRUCTURE,
        lambda: (b"AA==", b"-~", samples.keys().destination.base64.encode()),
    ),
    Target(
        "b32-address",
        _b32,
        _STRUCTURE,
        lambda: (samples.keys().destination.b32.encode(), samples.keys().destination.b32.upper().encode()),
    ),
    Target(
        "meta-lease-set",
        _meta,
        _NETDB,
        lambda: (samples.meta_set().data,),
    ),
    Target(
        "lease-set",
        _lease_set,
        _NETDB,
        lambda: (samples.lease_set().data,),
    ),
    Target(
        "offered-leases",
        _offered,
        _STRUCTURE,
        lambda: (bytes(44), bytes(range(44)) * 3),
    ),
    Target(
        "private-keys",
        _keys,
        _NETDB,
        lambda: (samples.keys().encode(), samples.delegated_keys().encode()),
    ),
    Target(
        "key-file",
        _publishing_keys,
        _NETDB,
        _publishing_key_files,
    ),
    Target(
        "router-info",
        _router_info,
        _NETDB,
        lambda: samples.recorded_files("netdb/vectors", "routerInfo-*.dat"),
    ),
    Target(
        "session-config",
        _session,
        _NETDB,
        lambda: (session_config(samples.keys(), samples.NOW_MS), session_config(samples.delegated_keys(), 1)),
    ),
    Target(
        "mapping",
        _mapping,
        _STRUCTURE,
        lambda: (encode_mapping({"caps": "fR", "netId": "2", "router.version": "0.9.65"}), bytes(2)),
        (b"\x01a=\x01b;", b"=", b";"),
    ),
)
