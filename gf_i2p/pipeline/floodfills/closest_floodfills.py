"""The closest floodfills by XOR distance, for many keys at a time: array operations without a loop over pairs.

The floodfills' hashes are sorted once. Seen from a key, the hashes form a tree by their bits: below each node, the
hashes with the key's next bit are all closer than the hashes without that bit, whatever follows. So all keys of a batch
go down that tree together, one bit in each step. Each key has a block of the sorted hashes, [low, high), that holds its
closest hashes. If the half with the key's bit has as many hashes as the key still needs, the search drops the other
half. If that half has fewer, the search takes all of them, and looks for the rest in the other half. A key is done when
its block has no more hashes than the key needs. That is so at the 256th bit at the latest, for no two floodfills have
the same hash. Only the taken hashes are sorted by their whole distance.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gf_i2p.netdb.encoding import HASH_BYTES

BITS: Final = 8 * HASH_BYTES
WORDS: Final = BITS // 64

Words = NDArray[np.uint64]
"""Numbers of 256 bits, each as a row of four words, the highest first."""
Places = NDArray[np.int64]


def to_words(data: bytes | memoryview) -> Words:
    """Return concatenated 32-byte numbers (big-endian) as rows of four 64-bit words (see `Words`)."""
    return np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, WORDS)


def to_bytes(words: Words) -> bytes:
    """Return rows of four words as concatenated 32-byte numbers (big-endian): the inverse of `to_words`."""
    return words.astype(">u8").tobytes()


class SortedHashes:
    """The hashes of all floodfills, sorted, each once."""

    def __init__(self, words: Words) -> None:
        """`words`: the hashes, in any order, repetitions allowed."""
        self.words: Words = np.unique(words, axis=0)

    def __len__(self) -> int:
        return len(self.words)

    def closest(self, keys: Words, most: int) -> tuple[Places, Words]:
        """Return for each key the closest floodfills, the closest first.

        `most`: the number of floodfills for each key, if so many exist. Returns the floodfills' row numbers in
        `self.words`, shape (keys, floodfills), and their distances, shape (keys, floodfills, 4).
        """
        columns = min(most, len(self))
        places: Places = np.empty((len(keys), columns), dtype=np.int64)
        if columns:
            self._descend(keys, places)
        distances = self.words[places] ^ keys[:, np.newaxis, :]
        rows = np.repeat(np.arange(len(keys)), columns)
        flat = distances.reshape(-1, WORDS)
        order = np.lexsort((*(flat[:, word] for word in reversed(range(WORDS))), rows))
        return places.reshape(-1)[order].reshape(places.shape), flat[order].reshape(distances.shape)

    def _descend(self, keys: Words, places: Places) -> None:
        """Write the places of each key's closest hashes into the key's row of `places`, in no particular order."""
        count, columns = places.shape
        rows = np.arange(count)  # the keys that are not done yet; low, high and need belong to these keys
        low, high = np.zeros(count, dtype=np.int64), np.full(count, len(self), dtype=np.int64)
        need = np.full(count, columns, dtype=np.int64)
        for bit in range(BITS + 1):
            done = high - low == need
            _fill(places, rows[done], columns - need[done], low[done], need[done])
            pending = ~done
            rows, low, high, need = rows[pending], low[pending], high[pending], need[pending]
            if not len(rows):
                return
            middle = self._split(low, high, bit)
            is_one = (keys[rows, bit // 64] >> np.uint64(63 - bit % 64)) & np.uint64(1) == 1
            near_low, near_high = np.where(is_one, middle, low), np.where(is_one, high, middle)
            near = near_high - near_low
            enough = near >= need
            scarce = ~enough
            _fill(places, rows[scarce], columns - need[scarce], near_low[scarce], near[scarce])
            need = np.where(enough, need, need - near)
            low, high = (
                np.where(enough, near_low, np.where(is_one, low, middle)),
                np.where(enough, near_high, np.where(is_one, middle, high)),
            )
        raise AssertionError("two floodfills have the same hash")

    def _split(self, low: Places, high: Places, bit: int) -> Places:
        """Return each block's first place with bit 1, or the block's end. A block's hashes share all earlier bits."""
        column, mask = self.words[:, bit // 64], np.uint64(1 << (63 - bit % 64))
        low, high = low.copy(), high.copy()
        for _ in range(int((high - low).max()).bit_length()):
            middle = (low + high) // 2
            open_ = low < high
            is_one = (column[np.minimum(middle, len(self) - 1)] & mask) != 0
            high = np.where(open_ & is_one, middle, high)
            low = np.where(open_ & ~is_one, middle + 1, low)
        return low


def _fill(places: Places, rows: Places, columns: Places, first: Places, sizes: Places) -> None:
    """Write `first`, `first` + 1, … into each row of `places`, from the row's column on.

    `sizes`: how many numbers each row gets.
    """
    steps = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places[np.repeat(rows, sizes), np.repeat(columns, sizes) + steps] = np.repeat(first, sizes) + steps
