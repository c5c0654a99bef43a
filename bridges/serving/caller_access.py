"""Access of callers: one password, tokens for the password, and slow answers after many wrong passwords.

The right password always gets in, and at once: otherwise any process on this machine could lock the right caller out.
The length of the password protects against guesses. The slow answers only make guesses expensive and visible.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

from bridges.i2pcontrol.extension import Code
from bridges.i2pcontrol.strict_json import Json
from bridges.serving.jsonrpc_server import CallError

TOKEN_SECONDS: Final = 86_400.0
"""Life of a token in seconds: a day, as with Java."""
MAX_TOKENS: Final = 256
"""Most tokens at once. The oldest token is dropped, and its owner authenticates again."""
MAX_TEXT: Final = 1024
"""Most characters of a password or token that are checked."""
FREE_TRIES: Final = 10
"""Wrong passwords of a source in a row that are answered at once."""
TRY_SECONDS: Final = 6.0
"""Seconds after which one wrong password is forgiven: ten a minute."""
PAUSE_SECONDS: Final = 2.0
"""Seconds until the answer to a wrong password, after `FREE_TRIES` others."""
MAX_SOURCES: Final = 1024
"""Most sources with counts of their own; all further sources share one count."""

_OTHERS: Final = ""
_WRONG: Final = "the password is wrong: give bridge_password from secrets.toml of the node's directory"


class Throttle:
    """Counts wrong passwords by source. After too many, the answers to wrong passwords are slow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._debts: dict[str, tuple[float, float]] = {}  # unforgiven wrong passwords, and the time of that count

    def wrong(self, source: str) -> float:
        """Count a wrong password; return the seconds until its answer."""
        key, debt = self._debt(source)
        self._debts[key] = min(debt, FREE_TRIES) + 1, self._clock()
        return PAUSE_SECONDS if debt > FREE_TRIES - 1 else 0.0

    def _debt(self, source: str) -> tuple[str, float]:
        now = self._clock()
        if source not in self._debts and len(self._debts) >= MAX_SOURCES:
            self._debts = {key: each for key, each in self._debts.items() if _remaining(each, now) > 0}
            if len(self._debts) >= MAX_SOURCES:
                source = _OTHERS
        return source, _remaining(self._debts.get(source, (0.0, now)), now)


def _remaining(debt: tuple[float, float], now: float) -> float:
    count, since = debt
    return max(0.0, count - (now - since) / TRY_SECONDS)


class CallerAccess:
    """Lets in callers that know the password. Raises `CallError` with a text that tells no secrets."""

    def __init__(self, password: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._password = _digest(password)
        self._clock = clock
        self._throttle = Throttle(clock)
        self._tokens: dict[bytes, float] = {}  # digest of the token -> when the token ends; the oldest first

    async def authenticate(self, password: Json, source: str) -> str:
        """Return a token for the right password. Raises `CallError` for a wrong one, perhaps after `PAUSE_SECONDS`."""
        guess = password if isinstance(password, str) else ""
        if not hmac.compare_digest(_digest(guess), self._password):
            await asyncio.sleep(self._throttle.wrong(source))
            raise CallError(Code.PASSWORD, _WRONG)
        while len(self._tokens) >= MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(32)
        self._tokens[_digest(token)] = self._clock() + TOKEN_SECONDS
        return token

    def check(self, token: Json) -> None:
        """Check a caller's token. Raises `CallError` for a missing, unknown or expired token."""
        if token is None:
            raise CallError(Code.NO_TOKEN, "no token: call Authenticate, and give its Token with every call")
        # The look-up is by digest, so the duration of a look-up tells nothing about the valid tokens.
        key = _digest(token if isinstance(token, str) else "")
        end = self._tokens.get(key)
        if end is None:
            raise CallError(Code.UNKNOWN_TOKEN, "unknown token: call Authenticate again")
        if self._clock() >= end:
            del self._tokens[key]
            raise CallError(Code.EXPIRED_TOKEN, "the token has expired: call Authenticate again")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text[:MAX_TEXT].encode("utf-8", "surrogatepass")).digest()
