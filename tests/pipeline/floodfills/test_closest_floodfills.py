"""The closest floodfills, compared with a search through all floodfills."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.netdb.encoding import HASH_BYTES
from gf_i2p.pipeline.floodfills.closest_floodfills import SortedHashes, to_bytes, to_words
from tests.pipeline.floodfills.routing_keys import distance, routing_key


def test_the_routing_key_is_another_one_every_day() -> None:
    hash_ = bytes(range(32))
    # printf '\x00\x01…\x1f20260101' | sha256sum
    assert routing_key(hash_, "20260101").hex() == "18726465865d2c21f2e1f9fd7571292e044970b39c1f851502c3cc2ac3a89cee"
    assert routing_key(hash_, "20260102") != routing_key(hash_, "20260101")


def test_the_distance_is_a_big_endian_number() -> None:
    low, high = bytes(31) + b"\x03", b"\x80" + bytes(31)
    assert distance(low, bytes(32)) == 3
    assert distance(high, low) == 2**255 + 3
    assert distance(high, high) == 0


def looked_at(floodfills: list[bytes], key: bytes, most: int) -> list[int]:
    return sorted(distance(key, each) for each in set(floodfills))[:most]


def check(floodfills: list[bytes], keys: list[bytes], most: int) -> None:
    hashes = SortedHashes(to_words(b"".join(floodfills)))
    places, distances = hashes.closest(to_words(b"".join(keys)), most)
    columns = min(most, len(set(floodfills)))
    assert places.shape == (len(keys), columns)
    assert distances.shape == (len(keys), columns, 4)
    for row, key in enumerate(keys):
        far = [int.from_bytes(to_bytes(distances[row, column])) for column in range(columns)]
        assert far == looked_at(floodfills, key, most)
        closest_hashes = [to_bytes(hashes.words[place]) for place in places[row]]
        assert [distance(key, each) for each in closest_hashes] == far, "who is named is as far as it says"


def tiny(places: tuple[int, ...], values: bytes) -> st.SearchStrategy[bytes]:
    """Draw 256-bit hashes that differ in a few bytes only, so that many share long prefixes or are equal."""

    def make(chosen: list[int]) -> bytes:
        hash_ = bytearray(HASH_BYTES)
        for place, value in zip(places, chosen, strict=True):
            hash_[place] = value
        return bytes(hash_)

    return st.lists(st.sampled_from(list(values)), min_size=len(places), max_size=len(places)).map(make)


@pytest.mark.parametrize(
    ("places", "values"),
    [
        ((0,), bytes(range(256))),
        ((31,), bytes(range(256))),
        ((31,), b"\x00\x01\x02\x03"),
        ((7, 8), b"\x00\x01\x80\xff"),
        ((15, 16, 31), b"\x00\x01\x80"),
        ((0, 23, 24, 31), b"\x00\xff"),
        (tuple(range(32)), b"\x00\x01\xff"),
    ],
)
@given(data=st.data())
def test_they_are_those_of_looking_at_all(places: tuple[int, ...], values: bytes, data: st.DataObject) -> None:
    numbers = tiny(places, values)
    floodfills = data.draw(st.lists(numbers, max_size=40))
    check(floodfills, data.draw(st.lists(numbers, max_size=6)), data.draw(st.sampled_from([1, 2, 8, 50])))


def test_of_thousands_by_chance() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    near = chance.randbytes(6)  # some floodfills that have made themselves neighbours
    floodfills = [chance.randbytes(32) for _ in range(2000)] + [near + chance.randbytes(26) for _ in range(300)]
    keys = [chance.randbytes(32) for _ in range(40)] + [near + chance.randbytes(26), floodfills[0], bytes(32)]
    check(floodfills, keys, 8)


def test_fewer_than_are_asked_for() -> None:
    one, other = bytes(31) + b"\x01", b"\xff" * 32
    check([], [one], 8)
    check([one], [one, other], 8)
    check([one, other, one], [one, bytes(32)], 8)
    check([one, other], [], 8)


def test_all_that_share_all_but_the_last_bits() -> None:
    floodfills = [b"\xaa" * 31 + bytes([value]) for value in range(256)]
    check(floodfills, [b"\xaa" * 31 + b"\x55", b"\x55" * 32, b"\xaa" * 32], 8)


def test_words_are_written_as_they_were_read() -> None:
    data = bytes(range(64))
    assert to_bytes(to_words(data)) == data
    assert to_words(data)[0, 0] == np.uint64(0x0001020304050607)
