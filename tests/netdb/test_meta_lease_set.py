"""Meta lease sets: building sets for both routers, and refusing sets that routers would refuse."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.netdb.errors import LimitError, NetDbError, SignatureError, StructureError
from gf_i2p.netdb.lease_set_header import LeaseSet2Header
from gf_i2p.netdb.limits import MAX_EXPIRES_SECONDS, MAX_LEASE_SET_BYTES, MAX_META_ENTRIES
from gf_i2p.netdb.meta_lease_set import LeaseType, MetaLease, MetaLeaseSet
from gf_i2p.netdb.offline_signature import OFFLINE_SIGNATURE_BYTES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import SIGNATURE_BYTES
from tests.netdb.strategies import DELEGATED, KEYS, NOW, entries, keys, mappings


def lease(number: int, end: int = NOW + 600, **changes: object) -> MetaLease:
    return replace(MetaLease(bytes([number]) * 32, end), **changes)  # type: ignore[arg-type]


def build(*leases: MetaLease, signer: DestinationKeys = KEYS, published: int = NOW, **options: str) -> MetaLeaseSet:
    return MetaLeaseSet.build(signer, published=published, entries=leases or [lease(1)], options=options)


@given(signer=keys, leases=entries, options=mappings)
def test_what_is_built_is_parsed_again(
    signer: DestinationKeys, leases: list[MetaLease], options: dict[str, str]
) -> None:
    built = MetaLeaseSet.build(signer, published=NOW, entries=leases, options=options)
    parsed = MetaLeaseSet.parse(built.data)
    assert parsed == built
    assert (parsed.destination, parsed.published, parsed.offline) == (KEYS.destination, NOW, signer.offline)
    assert parsed.entries == tuple(leases)
    assert parsed.expires_at == max(each.end for each in leases)


def test_the_sizes_are_those_that_java_writes() -> None:
    for count in (1, 2, MAX_META_ENTRIES):
        leases = [lease(number) for number in range(count)]
        assert len(build(*leases).data) == 467 + 40 * count
        assert len(build(*leases, signer=DELEGATED).data) == 467 + 40 * count + OFFLINE_SIGNATURE_BYTES


def test_the_bytes_field_by_field() -> None:
    data = build(lease(1, NOW + 600, cost=7), lease(2, NOW + 60, type=LeaseType.META), a="b").data
    head = KEYS.destination.data + struct.pack(">IHH", NOW, 600, 0)
    options = b"\x00\x06\x01a=\x01b;"
    first = bytes([1]) * 32 + b"\x00\x00\x03\x07" + (NOW + 600).to_bytes(4, "big")
    second = bytes([2]) * 32 + b"\x00\x00\x07\x00" + (NOW + 60).to_bytes(4, "big")
    body = head + options + b"\x02" + first + second + b"\x00"
    assert data[:-SIGNATURE_BYTES] == body
    KEYS.destination.verify(data[-SIGNATURE_BYTES:], b"\x07" + body)


@given(signer=keys, data=st.data())
def test_a_bit_flipped_anywhere_is_refused(signer: DestinationKeys, data: st.DataObject) -> None:
    good = build(lease(1), lease(2), signer=signer, a="b").data
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises((StructureError, SignatureError)):
        MetaLeaseSet.parse(bytes(bad))


@pytest.mark.parametrize("signer", [KEYS, DELEGATED], ids=["own", "delegated"])
def test_every_bit_once(signer: DestinationKeys) -> None:
    good = build(lease(1), signer=signer, a="b").data
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises((StructureError, SignatureError)):
            MetaLeaseSet.parse(bytes(bad))


@given(st.data())
def test_a_part_or_more_than_the_whole_is_refused(data: st.DataObject) -> None:
    good = build(lease(1)).data
    cut = data.draw(st.integers(0, len(good) - 1))
    with pytest.raises(StructureError):
        MetaLeaseSet.parse(good[:cut])
    with pytest.raises(StructureError):
        MetaLeaseSet.parse(good + data.draw(st.binary(min_size=1, max_size=50)))


@given(st.binary(max_size=600))
def test_any_bytes_give_the_documented_errors(data: bytes) -> None:
    for start in (b"", KEYS.destination.data):
        with pytest.raises((StructureError, SignatureError)):
            MetaLeaseSet.parse(start + data)


# Limits of the routers ---------------------------------------------------------------------------------------------


def test_what_a_router_would_refuse_is_not_built() -> None:
    many = [lease(number) for number in range(MAX_META_ENTRIES + 1)]
    for leases, expected in [
        ([], "1 to 16 entries, not 0"),
        (many, "1 to 16 entries, not 17"),
        ([lease(1), lease(1)], "the same destination"),
        ([MetaLease(KEYS.destination.hash, NOW + 1)], "in circles"),
        ([lease(1), lease(2, NOW)], "must end after the set is published"),
        ([lease(1, NOW + MAX_EXPIRES_SECONDS + 1)], "65536 s after"),
        ([lease(1, cost=256)], "does not fit"),
        ([lease(1, cost=-1)], "does not fit"),
        ([replace(lease(1), hash=b"short")], "does not fit"),
    ]:
        with pytest.raises(LimitError, match=expected):
            MetaLeaseSet.build(KEYS, published=NOW, entries=leases)
    with pytest.raises(LimitError, match="4 or 2 bytes"):
        build(lease(1, 5), published=-1)


def test_a_set_is_not_signed_with_a_key_whose_time_is_over() -> None:
    assert DELEGATED.offline is not None
    end = DELEGATED.offline.expires
    assert build(lease(1, end + 60), published=end - 1, signer=DELEGATED).offline is not None
    with pytest.raises(LimitError, match="delegate a new one"):
        build(lease(1, end + 60), published=end, signer=DELEGATED)


def signed(body: bytes, signer: DestinationKeys = KEYS) -> bytes:
    """Sign a body that `MetaLeaseSet.build` would not make."""
    return body + signer.key.sign(b"\x07" + body)


def body_of(
    *leases: bytes, header: LeaseSet2Header | None = None, options: bytes = b"\x00\x00", revocations: bytes = b"\x00"
) -> bytes:
    head = header or LeaseSet2Header(KEYS.destination, NOW, 600)
    return head.encode() + options + bytes([len(leases)]) + b"".join(leases) + revocations


def test_well_signed_sets_that_a_router_refuses_are_refused() -> None:
    good = lease(1).encode()
    assert MetaLeaseSet.parse(signed(body_of(good))).entries == (lease(1),)
    flagged = good[:32] + b"\x00\x01" + good[34:]
    unknown = good[:34] + b"\x02" + good[35:]
    reserved = body_of(good).replace(struct.pack(">IHH", NOW, 600, 0), struct.pack(">IHH", NOW, 600, 8))
    for body, expected in [
        (body_of(), "1 to 16 entries, not 0"),
        (body_of(*[good] * 17), "1 to 16 entries, not 17"),
        (body_of(good, header=LeaseSet2Header(KEYS.destination, NOW, 601)), "Java expects the end of the last entry"),
        (body_of(good, revocations=b"\x01" + bytes(32)), "1 revocations"),
        (body_of(flagged), "flags 0x0001"),
        (body_of(unknown), "type 2"),
        (body_of(good, options=b"\x00\x0a\x01b=\x00;\x01a=\x00;"), "ascending"),
        (reserved, "not defined"),
    ]:
        with pytest.raises(StructureError, match=expected):
            MetaLeaseSet.parse(signed(body))


def test_a_signature_by_a_key_that_was_not_authorised_or_no_longer_is_refused() -> None:
    good = lease(1).encode()
    offline = DELEGATED.offline
    assert offline is not None
    with pytest.raises(SignatureError):
        MetaLeaseSet.parse(signed(body_of(good), DELEGATED))
    header = LeaseSet2Header(KEYS.destination, NOW, 600, offline)
    MetaLeaseSet.parse(signed(body_of(good, header=header), DELEGATED))
    with pytest.raises(SignatureError):
        MetaLeaseSet.parse(signed(body_of(good, header=header), KEYS))
    late = LeaseSet2Header(KEYS.destination, offline.expires, 600, offline)
    with pytest.raises(SignatureError, match="was good until"):
        MetaLeaseSet.parse(signed(body_of(lease(1, offline.expires + 600).encode(), header=late), DELEGATED))


def test_flags_of_the_header() -> None:
    header = LeaseSet2Header(KEYS.destination, NOW, 600, unpublished=True, blinded=True)
    assert MetaLeaseSet.parse(signed(body_of(lease(1).encode(), header=header))).header == header


def test_a_set_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(StructureError, match="larger than"):
        MetaLeaseSet.parse(bytes(MAX_LEASE_SET_BYTES + 1))


# Time --------------------------------------------------------------------------------------------------------------


def test_when_routers_take_it() -> None:
    one = build(lease(1, NOW + 3600), lease(2, NOW + 300))
    assert one.objection(NOW) is None
    assert one.objection(NOW - 60) is None
    assert "in the future" in str(one.objection(NOW - 61))
    assert one.objection(NOW + 599) is None
    assert "600 s old" in str(one.objection(NOW + 600))
    short = build(lease(1, NOW + 10))
    assert "expired, 0 s ago" in str(short.objection(NOW + 10))
    assert DELEGATED.offline is not None
    end = DELEGATED.offline.expires
    last = build(lease(1, end + 60), published=end - 10, signer=DELEGATED)
    assert last.objection(end - 1) is None
    assert "was good until 0 s ago" in str(last.objection(end))


def test_errors_are_of_one_family() -> None:
    assert issubclass(LimitError, NetDbError)
    assert issubclass(StructureError, NetDbError)
    assert issubclass(NetDbError, ValueError)
