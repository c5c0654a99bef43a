"""Packets of streaming, byte for byte; nothing else is taken."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.streaming.errors import PacketError
from bridges.streaming.limits import MAX_NACKS, MAX_PACKET
from bridges.streaming.packet import CHOKE_MS, Flag, Packet, meant_for, signing_key
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.signing import verify
from tests.bridges.streaming.streaming_client import CLIENT, CLIENT_DELEGATED, first_packet
from tests.netdb.strategies import DELEGATED, KEYS, NOW, entropy

numbers = st.integers(0, 2**32 - 1)
HASH = KEYS.destination.hash


@st.composite
def packets(draw: st.DrawFn) -> tuple[Packet, DestinationKeys | None]:
    """A packet, and the keys that sign the packet."""
    flags = Flag(draw(st.sampled_from([0, Flag.SYNCHRONIZE, Flag.CLOSE, Flag.RESET, Flag.NO_ACK, Flag.ECHO])))
    signer = draw(st.sampled_from([KEYS, DELEGATED]))
    source = offline = None
    if flags & Flag.SYNCHRONIZE:
        flags |= Flag.FROM
        source = signer.destination
        if signer.offline is not None:
            flags |= Flag.OFFLINE_SIGNATURE
            offline = signer.offline
    signed = bool(flags & (Flag.SYNCHRONIZE | Flag.CLOSE | Flag.RESET))
    if signed:
        flags |= Flag.SIGNATURE
    delay_ms = draw(st.none() | st.integers(0, 65_535))
    max_payload = draw(st.none() | st.integers(0, 65_535))
    flags |= Flag(0) if delay_ms is None else Flag.DELAY
    flags |= Flag(0) if max_payload is None else Flag.MAX_PAYLOAD
    packet = Packet(
        draw(numbers),
        draw(numbers),
        draw(st.integers(0, 2**31 - 1)),
        draw(numbers),
        tuple(draw(st.lists(numbers, max_size=MAX_NACKS))),
        flags,
        draw(st.binary(max_size=500)),
        delay_ms,
        source,
        max_payload,
        offline,
        draw(st.integers(0, 255)),
    )
    return packet, signer if signed else None


@given(packets())
def test_what_is_encoded_is_parsed_again(made: tuple[Packet, DestinationKeys | None]) -> None:
    packet, signer = made
    data = packet.encode(signer.key.sign if signer is not None else None)
    parsed = Packet.parse(data)
    assert parsed == packet
    if signer is not None:
        parsed.verify(signer.key.public)
    else:
        with pytest.raises(PacketError, match="must be signed has no signature"):
            parsed.verify(KEYS.key.public)


def test_a_packet_with_data_byte_for_byte() -> None:
    packet = Packet(1, 2, 3, 4, (5, 6), Flag.DELAY, b"data", delay_ms=CHOKE_MS, resend_delay=9)
    head = struct.pack(">IIIIBII", 1, 2, 3, 4, 2, 5, 6)
    assert packet.encode() == head + b"\x09\x00\x40\x00\x02" + struct.pack(">H", CHOKE_MS) + b"data"


def test_a_first_packet_byte_for_byte() -> None:
    data = first_packet(CLIENT_DELEGATED, number=7, payload=b"GET").encode(CLIENT_DELEGATED.key.sign)
    assert CLIENT_DELEGATED.offline is not None
    options = CLIENT.destination.data + struct.pack(">H", 1730) + CLIENT_DELEGATED.offline.encode()
    head = struct.pack(">IIIIB", 0, 7, 0, 0, 8) + HASH + struct.pack(">BHH", 0, 0xCA9, len(options) + 64) + options
    assert data[: len(head)] == head
    assert data[len(head) + 64 :] == b"GET"
    verify(CLIENT_DELEGATED.key.public, data[len(head) : len(head) + 64], head + bytes(64) + b"GET")


def test_every_truncation_of_the_head_is_refused() -> None:
    data = replace(first_packet(CLIENT_DELEGATED), payload=b"").encode(CLIENT_DELEGATED.key.sign)
    for end in range(len(data)):
        with pytest.raises(PacketError):
            Packet.parse(data[:end])


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        packet = Packet.parse(data)
    except PacketError:
        return
    assert packet.raw == data


def test_what_is_too_large_or_counts_too_far_is_refused() -> None:
    with pytest.raises(PacketError, match="larger than 4096"):
        Packet.parse(bytes(MAX_PACKET + 1))
    with pytest.raises(PacketError, match="sequence number 2147483648"):
        Packet.parse(Packet(1, 2, 2**31, 0).encode())


def test_options_that_end_inside_a_field_are_refused_and_longer_ones_are_passed_over() -> None:
    head = struct.pack(">IIIIB", 1, 2, 3, 4, 0)
    with pytest.raises(PacketError, match="end inside a field"):
        Packet.parse(head + struct.pack(">BHHH", 0, Flag.DELAY, 1, 500))
    parsed = Packet.parse(head + struct.pack(">BHHH", 0, Flag.DELAY, 5, 500) + b"newdata")
    assert (parsed.delay_ms, parsed.payload) == (500, b"data")


@given(st.data())
def test_a_bit_flipped_in_a_signed_packet_shows(data: st.DataObject) -> None:
    good = first_packet(payload=b"data").encode(CLIENT.key.sign)
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises(PacketError):
        signing_key(Packet.parse(bytes(bad)), NOW)


def test_a_transient_key_signs_until_its_end_and_only_for_its_master() -> None:
    packet = Packet.parse(first_packet(CLIENT_DELEGATED).encode(CLIENT_DELEGATED.key.sign))
    assert signing_key(packet, NOW) == CLIENT_DELEGATED.key.public
    with pytest.raises(PacketError, match="may not sign"):
        signing_key(packet, NOW + 86_400)
    other = DestinationKeys.generate(entropy(21))
    stolen = replace(first_packet(CLIENT_DELEGATED), source=other.destination)
    with pytest.raises(PacketError, match="may not sign"):
        signing_key(Packet.parse(stolen.encode(CLIENT_DELEGATED.key.sign)), NOW)
    unsigned = replace(first_packet(), flags=Flag.FROM | Flag.MAX_PAYLOAD)
    with pytest.raises(PacketError, match="must be signed"):
        signing_key(Packet.parse(unsigned.encode()), NOW)
    with pytest.raises(PacketError, match="does not name its sender"):
        signing_key(Packet(0, 1), NOW)


def test_a_first_packet_says_for_whom_it_is_or_nothing() -> None:
    assert meant_for(first_packet(), HASH)
    assert meant_for(first_packet(server=None), HASH)
    assert not meant_for(first_packet(server=CLIENT.destination.hash), HASH)
    assert not meant_for(replace(first_packet(), nacks=(1,)), HASH)
