"""RouterInfos: files of a real i2pd, and RouterInfos that the project makes."""

import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.encoding import to_base64
from gf_i2p.netdb.errors import NetDbError, SignatureError, StructureError
from gf_i2p.netdb.limits import MAX_ROUTER_INFO_BYTES
from gf_i2p.netdb.router_info import RouterAddress, RouterIdentity, RouterInfo
from gf_i2p.netdb.signing import SigningKey
from integration.harness import made_up_netdb
from tests.netdb.strategies import mappings

KEY = SigningKey(bytes(range(32)))
CRYPTO_KEY, FILLER = b"\x11" * 32, b"\x22" * 32
NOW_MS = 1_700_000_000_123
ADDRESS = RouterAddress("NTCP2", {"host": "192.0.2.1", "port": "20000", "v": "2"}, 3)
OPTIONS = {"caps": "XfR", "netId": "2", "router.version": "0.9.65"}

VECTORS = Path(__file__).parent / "vectors"
FLOODFILL = "pBFf-DE-miVjcbwMfd-fxywVMWe~COQuh~KecChAeF0="
OTHER = "qGUwbijnjyOtb3~hqZOB6~6aFnAkkP9nO0SyaCut05s="


def build(*addresses: RouterAddress, options: dict[str, str] | None = None, published: int = NOW_MS) -> RouterInfo:
    return made_up_netdb.build(
        KEY,
        crypto_key=CRYPTO_KEY,
        filler=FILLER,
        published=published,
        addresses=addresses,
        options=OPTIONS if options is None else options,
    )


def vector(name: str) -> bytes:
    """Read a stored RouterInfo of i2pd 2.45.1, recorded in a private network."""
    return (VECTORS / f"routerInfo-{name}.dat").read_bytes()


@pytest.mark.parametrize(
    ("name", "caps", "published", "host"),
    [(FLOODFILL, "Xf", 1_795_362_560_988, "198.18.0.10"), (OTHER, "X", 1_795_362_560_978, "198.18.0.11")],
)
def test_what_i2pd_has_written_is_read_and_verified(name: str, caps: str, published: int, host: str) -> None:
    info = RouterInfo.parse(vector(name))
    assert to_base64(info.hash) == name, "the name of the file"
    assert (info.caps, info.floodfill, info.net_id, info.version) == (caps, "f" in caps, 77, "0.9.57")
    assert (info.published, info.verified) == (published, True)
    assert [(address.style, address.cost) for address in info.addresses] == [("NTCP2", 3), ("SSU2", 8)]
    assert [address.options["host"] for address in info.addresses] == [host, host]
    assert (info.identity.signature_type, info.identity.crypto_type) == (7, 4)


def test_what_i2pd_has_written_we_would_have_written_too() -> None:
    data = vector(FLOODFILL)
    info = RouterInfo.parse(data)
    key = data[:32]
    again = made_up_netdb.identity(info.identity.signing_key or b"", key, data[32:64])
    assert again[:64] + again[352:] == data[:64] + data[352:391], "all but the filler, which is its own affair"
    rest = b"".join(map(made_up_netdb.encode_address, info.addresses))
    assert data[391 + 8 + 1 :].startswith(rest)


@given(
    st.lists(st.builds(RouterAddress, st.text(max_size=20), mappings, st.integers(0, 255)), max_size=4),
    mappings,
    st.integers(0, 2**64 - 1),
)
def test_what_is_built_is_parsed_again(addresses: list[RouterAddress], options: dict[str, str], published: int) -> None:
    built = build(*addresses, options=options, published=published)
    parsed = RouterInfo.parse(built.data)
    assert parsed == built
    assert (list(parsed.addresses), parsed.options, parsed.published) == (addresses, options, published)


def test_the_bytes_field_by_field() -> None:
    data = build(ADDRESS).data
    identity = CRYPTO_KEY + FILLER * 10 + KEY.public + b"\x05\x00\x04\x00\x07\x00\x04"
    address = b"\x03" + bytes(8) + b"\x05NTCP2\x00\x24\x04host=\x09192.0.2.1;\x04port=\x0520000;\x01v=\x012;"
    options = b"\x00\x2d\x04caps=\x03XfR;\x05netId=\x012;\x0erouter.version=\x060.9.65;"
    body = identity + struct.pack(">Q", NOW_MS) + b"\x01" + address + b"\x00" + options
    assert data == body + KEY.sign(body)
    assert RouterInfo.parse(data).hash == hashlib.sha256(identity).digest()


@given(st.data())
def test_a_bit_flipped_anywhere_is_refused_or_not_verified(data: st.DataObject) -> None:
    good = build(ADDRESS).data
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    try:
        parsed = RouterInfo.parse(bytes(bad))
    except NetDbError:
        return
    assert not parsed.verified
    assert parsed.identity.signature_type != 7, "only a signature of a type that is not ours is believed"


def test_every_truncation_and_addition_is_refused() -> None:
    good = build(ADDRESS).data
    for end in range(len(good)):
        with pytest.raises(StructureError):
            RouterInfo.parse(good[:end])
    with pytest.raises(StructureError, match="1 bytes follow"):
        RouterInfo.parse(good + b"\0")
    with pytest.raises(StructureError, match="up to 65536 bytes"):
        RouterInfo.parse(bytes(MAX_ROUTER_INFO_BYTES + 1))


def test_another_key_s_signature_is_refused() -> None:
    data = build().data
    with pytest.raises(SignatureError):
        RouterInfo.parse(data[:-64] + SigningKey(bytes(32)).sign(data[:-64]))


@pytest.mark.parametrize(
    ("certificate", "length", "kind"),
    [
        (b"\x00\x00\x00", 40, 0),  # DSA, as all routers had once
        (b"\x05\x00\x04\x00\x01\x00\x00", 64, 1),
        (b"\x05\x00\x08\x00\x03\x00\x00" + bytes(4), 132, 3),  # four bytes of a key that is too long
        (b"\x05\x00\x04\x00\x63\x00\x04", 77, 99),  # of the future
    ],
)
def test_a_signature_of_another_type_is_not_verified(certificate: bytes, length: int, kind: int) -> None:
    good = build(ADDRESS).data
    data = bytes(384) + certificate + good[391:-64] + bytes(length)
    info = RouterInfo.parse(data)
    assert (info.verified, info.identity.signature_type, info.caps) == (False, kind, "XfR")
    assert info.hash == hashlib.sha256(bytes(384) + certificate).digest()
    if kind != 99:
        with pytest.raises(StructureError, match="follow"):
            RouterInfo.parse(data + b"\0")


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (b"\x05\x00\x03\x00\x07\x00", "4 bytes at least, not 3"),
        (b"\x05\x00\x59" + bytes(89), "up to 88 bytes, not 89"),
        (b"\x01\x00\x00", "certificate type 1"),
        (b"\x00\x00\x01\x00", "certificate type 0"),
    ],
)
def test_certificates_that_no_router_has_are_refused(certificate: bytes, why: str) -> None:
    with pytest.raises(StructureError, match=why):
        RouterIdentity.read(Reader(bytes(384) + certificate + bytes(64), "a test"))


def test_options_in_another_order_are_read_but_none_twice() -> None:
    def signed(options: bytes) -> bytes:
        body = build(options={}).data[:-66] + len(options).to_bytes(2, "big") + options
        return body + KEY.sign(body)

    assert RouterInfo.parse(signed(b"\x05netId=\x012;\x04caps=\x01f;")).floodfill
    with pytest.raises(StructureError, match="twice"):
        RouterInfo.parse(signed(b"\x04caps=\x01f;\x04caps=\x01X;"))


def test_old_peers_are_skipped_and_too_many_addresses_refused() -> None:
    good = build(options={}).data
    body = good[:400] + b"\x02" + bytes(64) + good[401:-64]
    assert RouterInfo.parse(body + KEY.sign(body)).options == {}
    body = good[:399] + b"\x11" + made_up_netdb.encode_address(ADDRESS) * 17 + good[400:-64]
    with pytest.raises(StructureError, match="up to 16 addresses, not 17"):
        RouterInfo.parse(body + KEY.sign(body))


@pytest.mark.parametrize(("text", "net_id"), [("2", 2), ("", None), ("x", None), ("\u0662", None), ("1" * 9, None)])
def test_the_network_is_a_number_or_not_known(text: str, net_id: int | None) -> None:
    info = build(options={})
    assert RouterInfo(info.data, info.identity, 0, (), {"netId": text}, verified=True).net_id == net_id


@given(st.binary(max_size=400))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(NetDbError):
        RouterInfo.parse(build().identity.data + data)
