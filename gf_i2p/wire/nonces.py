"""The server's side of Digest nonces. The server remembers a nonce only after the first right answer.

A nonce carries its own time of issue, so unauthenticated clients cost no memory. A nonce is 56 characters of base64url:

    salt, 16 bytes | time of issue, 8 bytes, under a mask made from salt and key | tag, 18 bytes

The time is the monotonic clock, which on most systems is the machine's uptime. The time is masked: with plain
times, anybody could find out that two I2P services run on one machine.

After the first success, a nonce's counts are remembered as IPsec remembers sequence numbers (RFC 4303, 3.4.3): the
highest count, and a bit for each of the 256 counts up to and with the highest. Each count is accepted once, in any
order within that window. The server remembers at most 4,096 nonces. Beyond that, it forgets the oldest nonce. From then
on, every nonce that is as old or older, and not remembered, is stale. So no count of a forgotten nonce can be used
again.
"""

import base64
import hashlib
import heapq
import hmac
import re
import struct
from collections.abc import Callable
from typing import Final

from gf_i2p.wire.limits import MAX_NONCES, NONCE_COUNT_WINDOW

KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_TIME = struct.Struct(">d")
_TAG_BYTES: Final = 18
_NONCE = re.compile(r"[A-Za-z0-9_-]{56}", re.ASCII)
_WINDOW_MASK: Final = (1 << NONCE_COUNT_WINDOW) - 1
MAX_COUNT: Final = 0xFFFF_FFFF
"""The highest nonce count: eight hexadecimal digits (RFC 7616, 3.4)."""


class Nonces:
    """The nonces of one realm.

    Args:
        realm: the cluster's name. A nonce of another realm is refused, even under the same key.
        key: 32 random bytes, new in each process, because a restart forgets the used counts.
        seconds: life of a nonce in seconds.
    """

    def __init__(self, realm: str, *, key: bytes, seconds: float) -> None:
        self._realm = realm.encode()
        self._key = key
        self._seconds = seconds
        # For each remembered nonce: the highest count, and a bit for each count of the window up to that count.
        self._used: dict[str, tuple[int, int]] = {}
        self._by_age: list[tuple[float, str]] = []
        self._forgotten = float("-inf")

    def issue(self, now: float, entropy: Callable[[int], bytes]) -> str:
        """Return a new nonce without remembering it. `now`: monotonic seconds."""
        salt = entropy(_SALT_BYTES)
        body = salt + _xor(_TIME.pack(now), self._mac(b"time", salt))
        return base64.urlsafe_b64encode(body + self._tag(body)).decode("ascii")

    def spend(self, nonce: str, count: int, now: float) -> bool:
        """Use up one count of a nonce, and return whether the count was good. `now`: monotonic seconds.

        The caller calls this only for a correct digest. A count is bad if the count was used before or lies below the
        window. Every count is bad if the nonce comes from another process, has expired, or was forgotten.
        """
        issued = self._issued(nonce, now)
        if issued is None:
            return False
        if nonce not in self._used:
            self._remember(nonce, issued, (count, 1), now)
            return True
        highest, window = self._used[nonce]
        ahead = count - highest
        if ahead > 0:
            # The peer chooses the count. A large step must not shift the window by 4 billion bits.
            window = ((window << ahead) | 1) & _WINDOW_MASK if ahead < NONCE_COUNT_WINDOW else 1
            self._used[nonce] = (count, window)
            return True
        if -ahead >= NONCE_COUNT_WINDOW or window >> -ahead & 1:
            return False
        self._used[nonce] = (highest, window | 1 << -ahead)
        return True

    def spend_whole(self, nonce: str, now: float) -> bool:
        """Use up a nonce with all its counts, and return whether the nonce was good. `now`: monotonic seconds.

        For a client that sends no count (RFC 2069). The caller calls this only for a correct digest. Without a count, a
        replay of the digest looks like the first use. So a nonce that was used before is not good.
        """
        issued = self._issued(nonce, now)
        if issued is None or nonce in self._used:
            return False
        self._remember(nonce, issued, (MAX_COUNT, _WINDOW_MASK), now)
        return True

    def _remember(self, nonce: str, issued: float, used: tuple[int, int], now: float) -> None:
        heapq.heappush(self._by_age, (issued, nonce))
        self._used[nonce] = used
        self._forget(now)

    def _issued(self, nonce: str, now: float) -> float | None:
        if _NONCE.fullmatch(nonce) is None:
            return None
        raw = base64.urlsafe_b64decode(nonce)
        body, tag = raw[:-_TAG_BYTES], raw[-_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(body)):
            return None
        salt, masked = body[:_SALT_BYTES], body[_SALT_BYTES:]
        (issued,) = _TIME.unpack(_xor(masked, self._mac(b"time", salt)))
        assert isinstance(issued, float)
        if now - issued > self._seconds or (issued <= self._forgotten and nonce not in self._used):
            return None
        return issued

    def _forget(self, now: float) -> None:
        # The newest nonce has not expired, so these loops leave at least one.
        while now - self._by_age[0][0] > self._seconds:
            del self._used[heapq.heappop(self._by_age)[1]]
        while len(self._used) > MAX_NONCES:
            self._forgotten, nonce = heapq.heappop(self._by_age)
            del self._used[nonce]

    def _tag(self, body: bytes) -> bytes:
        return self._mac(b"nonce", self._realm + b"\0" + body)[:_TAG_BYTES]

    def _mac(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b"\0" + data, hashlib.sha256)


def _xor(data: bytes, mask: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(data, mask, strict=False))
