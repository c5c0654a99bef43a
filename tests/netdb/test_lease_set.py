"""Lease sets of services with tunnels: building sets for routers, and refusing sets that routers would refuse."""

import struct

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.netdb.errors import LimitError, NetDbError, SignatureError, StructureError
from gf_i2p.netdb.lease_set import X25519, EncryptionKey, Lease, LeaseSet2, read_offered, shortened
from gf_i2p.netdb.limits import MAX_LEASE_SET_BYTES, MAX_LEASES
from gf_i2p.netdb.offline_signature import OFFLINE_SIGNATURE_BYTES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import SIGNATURE_BYTES
from tests.netdb.strategies import DELEGATED, KEYS, NOW, keys, mappings

PRIVATE = bytes(range(32))
KEY = EncryptionKey.of(PRIVATE)
leases = st.lists(
    st.builds(
        Lease,
        gateway=st.binary(min_size=32, max_size=32),
        tunnel=st.integers(0, 2**32 - 1),
        end=st.integers(NOW + 1, NOW + 65_535),
    ),
    min_size=1,
    max_size=MAX_LEASES,
)


def lease(number: int, end: int = NOW + 60) -> Lease:
    return Lease(bytes([number]) * 32, number, end)


def build(*leases: Lease, signer: DestinationKeys = KEYS, published: int = NOW, **options: str) -> LeaseSet2:
    return LeaseSet2.build(signer, published=published, encryption=[KEY], leases=leases or [lease(1)], options=options)


@given(signer=keys, offered=leases, options=mappings)
def test_what_is_built_is_parsed_again(signer: DestinationKeys, offered: list[Lease], options: dict[str, str]) -> None:
    built = LeaseSet2.build(signer, published=NOW, encryption=[KEY], leases=offered, options=options)
    parsed = LeaseSet2.parse(built.data)
    assert parsed == built
    assert (parsed.destination, parsed.published, parsed.offline) == (KEYS.destination, NOW, signer.offline)
    assert parsed.leases == tuple(offered)
    assert parsed.expires_at == max(each.end for each in offered)
    assert parsed.encryption == (KEY,)


@given(later=st.integers(NOW + 1, NOW + 65_535), offered=leases)
def test_a_set_may_outlast_its_leases(later: int, offered: list[Lease]) -> None:
    built = LeaseSet2.build(KEYS, published=NOW, encryption=[KEY], leases=offered, expires_at=later)
    assert LeaseSet2.parse(built.data) == built
    assert built.expires_at == max(later, *(each.end for each in offered))


def test_a_set_lasts_18_hours_at_most() -> None:
    with pytest.raises(LimitError, match="65535 s are the most"):
        LeaseSet2.build(KEYS, published=NOW, encryption=[KEY], leases=[lease(1)], expires_at=NOW + 65_536)


def test_the_bytes_field_by_field() -> None:
    data = build(lease(1, NOW + 60), lease(2, NOW + 50), a="b").data
    head = KEYS.destination.data + struct.pack(">IHH", NOW, 60, 0)
    options = b"\x00\x06\x01a=\x01b;"
    first = bytes([1]) * 32 + struct.pack(">II", 1, NOW + 60)
    second = bytes([2]) * 32 + struct.pack(">II", 2, NOW + 50)
    body = head + options + b"\x01\x00\x04\x00\x20" + KEY.key + b"\x02" + first + second
    assert data[:-SIGNATURE_BYTES] == body
    KEYS.destination.verify(data[-SIGNATURE_BYTES:], b"\x03" + body)
    assert len(build(signer=DELEGATED).data) == len(build().data) + OFFLINE_SIGNATURE_BYTES


def test_what_is_encrypted_to_the_public_key_can_be_read_with_the_private_one() -> None:
    assert KEY.type == X25519
    sender = X25519PrivateKey.generate()
    shared = X25519PrivateKey.from_private_bytes(PRIVATE).exchange(sender.public_key())
    assert sender.exchange(X25519PublicKey.from_public_bytes(KEY.key)) == shared


@given(signer=keys, data=st.data())
def test_a_bit_flipped_anywhere_is_refused(signer: DestinationKeys, data: st.DataObject) -> None:
    good = build(lease(1), lease(2), signer=signer, a="b").data
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises((SignatureError, StructureError)):
        LeaseSet2.parse(bytes(bad))


def test_every_truncation_and_addition_is_refused() -> None:
    good = build(lease(1), signer=DELEGATED, a="b").data
    for end in range(len(good)):
        with pytest.raises(StructureError):
            LeaseSet2.parse(good[:end])
    with pytest.raises(StructureError, match="follow"):
        LeaseSet2.parse(good + b"\0")
    with pytest.raises(StructureError, match="larger"):
        LeaseSet2.parse(bytes(MAX_LEASE_SET_BYTES + 1))


@given(st.binary(max_size=600))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(NetDbError):
        LeaseSet2.parse(KEYS.destination.data + data)


@pytest.mark.parametrize(
    ("given_leases", "published", "why"),
    [
        ([], NOW, "1 to 16 leases"),
        ([lease(n) for n in range(17)], NOW, "1 to 16 leases"),
        ([lease(1), lease(2, NOW)], NOW, "must end after the set is published"),
        ([lease(1, NOW + 65_536)], NOW, "65535 s are the most"),
        ([Lease(b"short", 1, NOW + 60)], NOW, "does not fit"),
    ],
)
def test_what_routers_refuse_is_not_made(given_leases: list[Lease], published: int, why: str) -> None:
    with pytest.raises(LimitError, match=why):
        LeaseSet2.build(KEYS, published=published, encryption=[KEY], leases=given_leases)


def test_a_set_needs_keys_and_one_that_may_still_sign() -> None:
    with pytest.raises(LimitError, match="encryption keys, not 0"):
        LeaseSet2.build(KEYS, published=NOW, encryption=[], leases=[lease(1)])
    with pytest.raises(LimitError, match="has 1 to 256 bytes"):
        LeaseSet2.build(KEYS, published=NOW, encryption=[EncryptionKey(X25519, b"")], leases=[lease(1)])
    assert DELEGATED.offline is not None
    late = DELEGATED.offline.expires
    with pytest.raises(LimitError, match="delegate a new one"):
        build(lease(1, late + 60), signer=DELEGATED, published=late)


def test_a_router_s_tunnels_are_read_and_shortened() -> None:
    old = b"".join(
        bytes([number]) * 32 + struct.pack(">IQ", number, end * 1000 + 999)
        for number, end in [(1, NOW + 600), (2, NOW + 30), (3, NOW)]
    )
    offered = read_offered(old)
    assert offered == (lease(1, NOW + 600), lease(2, NOW + 30), lease(3, NOW))
    assert shortened(offered, NOW, 60) == (lease(1, NOW + 60), lease(2, NOW + 30))
    for wrong in (b"", old[:-1], bytes(17 * 44)):
        with pytest.raises(StructureError, match="1 to 16 tunnels"):
            read_offered(wrong)
