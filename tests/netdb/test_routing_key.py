"""Routing keys: the place of a hash in the netDb on each day."""

from gf_i2p.netdb.routing_key import distance, routing_key


def test_the_key_is_another_one_every_day() -> None:
    hash_ = bytes(range(32))
    # printf '\x00\x01…\x1f20260101' | sha256sum
    assert routing_key(hash_, "20260101").hex() == "18726465865d2c21f2e1f9fd7571292e044970b39c1f851502c3cc2ac3a89cee"
    assert routing_key(hash_, "20260102") != routing_key(hash_, "20260101")


def test_the_distance_is_a_big_endian_number() -> None:
    low, high = bytes(31) + b"\x03", b"\x80" + bytes(31)
    assert distance(low, bytes(32)) == 3
    assert distance(high, low) == 2**255 + 3
    assert distance(high, high) == 0
