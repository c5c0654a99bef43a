"""Destinations and their private keys."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from i2plib.sam import Destination as OtherDestination

from gf_i2p.netdb.destination import Destination, address_of
from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.netdb.errors import LimitError, NetDbError, SignatureError, StructureError
from gf_i2p.netdb.offline_signature import OFFLINE_SIGNATURE_BYTES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import SignatureType, SigningKey
from tests.netdb.strategies import DELEGATED, KEYS, NOW, entropy


def test_a_new_destination_has_the_layout_of_the_specification() -> None:
    destination = KEYS.destination
    data = destination.data
    assert len(data) == 391
    assert data[:352] == data[:32] * 11, "compressible filler (proposal 161)"
    assert data[352:384] == KEYS.key.public
    assert data[384:] == bytes.fromhex("05 0004 0007 0000")
    assert destination.hash == hashlib.sha256(data).digest()
    assert len(destination.base64) == 524
    assert (destination.signature_type, destination.crypto_type) == (SignatureType.ED25519, 0)


def test_two_new_destinations_differ() -> None:
    assert DestinationKeys.generate().destination != DestinationKeys.generate().destination


def test_it_is_what_i2plib_reads() -> None:
    other = OtherDestination(KEYS.destination.base64)
    assert (other.base64, other.base32 + ".b32.i2p") == (KEYS.destination.base64, KEYS.destination.b32)
    assert other.data == KEYS.destination.data
    private = OtherDestination(KEYS.base64, has_private_key=True)
    assert private.private_key.data == KEYS.encode()
    assert private.base32 + ".b32.i2p" == KEYS.destination.b32


def test_parsing_gives_it_back() -> None:
    assert Destination.parse(KEYS.destination.data) == KEYS.destination
    assert Destination.from_base64(KEYS.destination.base64 + "\n") == KEYS.destination


def changed(offset: int, value: str) -> bytes:
    data = bytearray(KEYS.destination.data)
    raw = bytes.fromhex(value)
    data[offset : offset + len(raw)] = raw
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "ends after 0 bytes"),
        (KEYS.destination.data[:-1], "ends after 390 bytes"),
        (KEYS.destination.data + b"x", "1 bytes follow a Destination"),
        (changed(384, "00 0000"), "certificate type 0 is not supported"),
        (changed(385, "0003"), "has 4 bytes, not 3"),
        (changed(385, "0008") + bytes(4), "has 4 bytes, not 8"),
        (changed(387, "0008"), "signature type 8 is not supported"),
        (changed(389, "0001"), "crypto type 1 is not supported"),
    ],
)
def test_other_bytes_are_refused(data: bytes, expected: str) -> None:
    with pytest.raises(StructureError, match=expected):
        Destination.parse(data)


def test_a_red_dsa_destination_with_an_x25519_key_is_read() -> None:
    destination = Destination.parse(changed(387, "000b 0004"))
    assert (destination.signature_type, destination.crypto_type) == (SignatureType.RED_DSA, 4)
    signature = KEYS.key.sign(b"data")
    destination.verify(signature, b"data")
    with pytest.raises(SignatureError):
        destination.verify(signature, b"date")


def test_a_public_key_that_is_no_point_verifies_nothing() -> None:
    destination = Destination.parse(changed(352, "ff" * 32))
    with pytest.raises(SignatureError):
        destination.verify(KEYS.key.sign(b"data"), b"data")


# Private keys ------------------------------------------------------------------------------------------------------


def test_key_files_have_the_lengths_of_the_routers_and_round_trip() -> None:
    assert len(KEYS.encode()) == 679
    assert len(DELEGATED.encode()) == 679 + OFFLINE_SIGNATURE_BYTES + 32
    for keys in (KEYS, DELEGATED):
        again = DestinationKeys.from_base64(keys.base64)
        assert (again.destination, again.offline, again.encode()) == (keys.destination, keys.offline, keys.encode())


def test_the_unused_crypto_key_stays_as_it_was() -> None:
    data = bytearray(KEYS.encode())
    data[391:647] = b"x" * 256
    assert DestinationKeys.parse(bytes(data)).encode() == data


def test_a_transient_key_signs_for_the_destination_and_the_own_key_is_not_there() -> None:
    offline = DELEGATED.offline
    assert offline is not None
    assert DELEGATED.key.public == offline.key != KEYS.key.public
    assert KEYS.key.private not in DELEGATED.encode()
    offline.verify(KEYS.destination, NOW)
    with pytest.raises(SignatureError, match="was good until"):
        offline.verify(KEYS.destination, offline.expires)
    with pytest.raises(SignatureError, match="cannot authorise"):
        DELEGATED.delegate(NOW + 1)


def test_an_authorisation_by_someone_else_is_worth_nothing() -> None:
    other = DestinationKeys.generate(entropy(9))
    with pytest.raises(SignatureError):
        DestinationKeys(other.destination, DELEGATED.key, DELEGATED.offline)


def test_the_signature_of_an_authorisation_is_over_date_type_and_key() -> None:
    offline = DELEGATED.offline
    assert offline is not None
    signed = offline.expires.to_bytes(4, "big") + b"\x00\x07" + offline.key
    KEYS.destination.verify(offline.signature, signed)
    assert offline.encode() == signed + offline.signature


def test_a_key_of_another_destination_is_refused() -> None:
    data = KEYS.encode()[:-32] + SigningKey(bytes(range(32))).private
    with pytest.raises(SignatureError, match="does not belong"):
        DestinationKeys.parse(data)


@pytest.mark.parametrize("cut", [0, 390, 391, 646, 678])
def test_half_a_key_file_is_refused(cut: int) -> None:
    with pytest.raises(StructureError):
        DestinationKeys.parse(KEYS.encode()[:cut])


def test_what_we_cannot_sign_with_is_refused_and_named() -> None:
    data = KEYS.encode()
    with pytest.raises(StructureError, match="crypto type"):
        DestinationKeys.parse(data[:389] + b"\x00\x04" + data[391:])
    with pytest.raises(StructureError, match="a destination's own key must be Ed25519"):
        DestinationKeys.parse(data[:387] + b"\x00\x0b" + data[389:])
    with pytest.raises(StructureError):
        DestinationKeys.parse(data + b"x")
    with pytest.raises(StructureError, match="32 bytes, not 31"):
        SigningKey(bytes(31))
    with pytest.raises(LimitError):
        KEYS.delegate(2**32)


def test_secrets_are_never_shown() -> None:
    for keys in (KEYS, DELEGATED):
        for text in (repr(keys), str(keys), repr(keys.key)):
            assert keys.key.private.hex() not in text
            assert str(keys.key.private) not in text
    assert issubclass(SignatureError, NetDbError)


def test_our_signatures_are_those_of_rfc_8032() -> None:
    # Section 7.1, test 2.
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    key = SigningKey(seed)
    assert key.public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert key.sign(b"\x72").hex().startswith("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da")
    assert key.sign(b"\x72") == Ed25519PrivateKey.from_private_bytes(seed).sign(b"\x72")


@pytest.mark.parametrize(
    "data",
    [
        KEYS.destination.data,
        bytes(384) + bytes.fromhex("00 0000"),  # DSA-SHA1
        bytes(384) + bytes.fromhex("05 0008 0003 0000") + bytes(4),  # ECDSA-P521
        bytes(384) + bytes.fromhex("05 0058") + bytes(88),  # the longest
    ],
)
def test_any_destination_has_an_address(data: bytes) -> None:
    assert address_of(to_base64(data) + "\n") == to_b32_address(hashlib.sha256(data).digest())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        KEYS.destination.data[:386],
        KEYS.destination.data[:-1],
        KEYS.destination.data + b"x",
        bytes(384) + bytes.fromhex("05 005b") + bytes(91),
    ],
)
def test_what_is_no_destination_has_no_address(data: bytes) -> None:
    with pytest.raises(StructureError):
        address_of(to_base64(data))
