"""HTTP Digest authentication, both sides (RFC 2617 for MD5, RFC 7616 for SHA-256), `qop=auth`.

The server offers SHA-256 first and MD5 second, in two headers. Both have the same nonce, because the library `requests`
joins the two headers to one. Not supported: Basic, `auth-int`, the `-sess` algorithms, and `userhash`. The character
set is UTF-8 and passwords are normalised to NFC (RFC 7616, 4); user names are plain ASCII.

RFC 2069 has no `qop` and no nonce count. The client never answers that way. The server accepts such an answer only
where the operator has allowed it (`Authenticator.without_qop`), with MD5, and only once for each nonce.

A client without a password learns little from the server and costs the server little:

- An unknown user and a wrong password get the same bytes after the same computations.
- A refused request costs one digest over at most one head (16 KiB), two HMACs for a new nonce, and no memory.
- A request with a right digest and a bad nonce, or a used nonce count, gets `stale=true`. So a client whose connections
  overtook each other can log in with a new nonce. An attacker who repeats a recorded request cannot, because the
  attacker knows no password.

A user of this program has a key in place of a password (`key_proof`). The user's proof spends the same nonces. The
server refuses the Digest of such a user, so nobody can make a login weaker than the user's own.

Nonces live two hours by default and never less than one, because the proposal ("Caching") wants credentials cached for
one hour. The client also keeps a challenge for two hours.

Header values are `str` in which each character stands for one byte (Latin-1), see `http_auth`.
"""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_auth import Scheme, names_of, offered_schemes, only_scheme, quote
from gf_i2p.wire.http_head import path_of_target
from gf_i2p.wire.key_proof import NOBODY, Dialled, KeyAnswer, PublicKey, Verify, proof_text
from gf_i2p.wire.names import check_name
from gf_i2p.wire.nonces import KEY_BYTES, MAX_COUNT, Nonces

MIN_NONCE_SECONDS: Final = 3600.0
NONCE_SECONDS: Final = 7200.0

_COUNT = re.compile(r"[0-9A-Fa-f]{8}", re.ASCII)
CNONCE_BYTES: Final = 16


class Algorithm(StrEnum):
    """The hash functions, by their names on the wire."""

    MD5 = "MD5"
    SHA_256 = "SHA-256"

    def hex(self, data: bytes) -> str:
        """Return the hash of `data` as lower-case hexadecimal."""
        if self is Algorithm.MD5:
            return hashlib.md5(data, usedforsecurity=False).hexdigest()
        return hashlib.sha256(data).hexdigest()


_STRONGEST_FIRST: Final = (Algorithm.SHA_256, Algorithm.MD5)
_HEX = {
    Algorithm.MD5: re.compile(r"[0-9A-Fa-f]{32}", re.ASCII),
    Algorithm.SHA_256: re.compile(r"[0-9A-Fa-f]{64}", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class Secret:
    """The values by which a server verifies one user of one realm: HA1 (RFC 7616, 3.4.2) with MD5 and with SHA-256.

    Both values are hexadecimal. HA1 is enough to log in to the realm, so HA1 must stay as secret as the password.
    `repr` hides the values.

    Raises:
        ValueError: a value has the wrong length or is not hexadecimal.
    """

    md5: str = field(repr=False)
    sha256: str = field(repr=False)

    def __post_init__(self) -> None:
        for algorithm in Algorithm:
            if _HEX[algorithm].fullmatch(self.of(algorithm)) is None:
                raise ValueError(f"a stored {algorithm} secret is damaged: set this user's password anew")

    @classmethod
    def derive(cls, user: str, realm: str, password: str) -> Self:
        """Compute the secret of a password.

        Raises:
            ValueError: `user` is not a legal name (see `names`), or the password is empty or not encodable as UTF-8.
        """
        check_name("user name", user)
        if not password:
            raise ValueError(f"the password of {user} is empty: set one")
        return cls(
            md5=_ha1(Algorithm.MD5, user, realm, password), sha256=_ha1(Algorithm.SHA_256, user, realm, password)
        )

    def of(self, algorithm: Algorithm) -> str:
        """Return HA1 as computed with this hash."""
        return self.md5 if algorithm is Algorithm.MD5 else self.sha256


def _ha1(algorithm: Algorithm, user: str, realm: str, password: str) -> str:
    """Compute HA1 (RFC 7616, 3.4.2). Raises `ValueError` when a text is not encodable as UTF-8."""
    return algorithm.hex(f"{user}:{realm}:{unicodedata.normalize('NFC', password)}".encode())


def digest_response(
    algorithm: Algorithm, ha1: str, *, nonce: str, count: str, cnonce: str, method: str, uri: str
) -> str:
    """Compute the `response` parameter for `qop=auth` (RFC 7616, 3.4.1), in lower-case hexadecimal.

    `count`: the nonce count as on the wire, eight hexadecimal digits. In every text, each character stands for one byte
    (Latin-1).

    Raises:
        UnicodeEncodeError: `method` or another text has a character above U+00FF.
    """
    ha2 = algorithm.hex(f"{method}:{uri}".encode("latin-1"))
    return algorithm.hex(f"{ha1}:{nonce}:{count}:{cnonce}:auth:{ha2}".encode("latin-1"))


def digest_response_without_qop(ha1: str, *, nonce: str, method: str, uri: str) -> str:
    """Compute the `response` parameter of RFC 2069 (2.1.2) and of RFC 2617 (3.2.2.1) without `qop`, by MD5.

    In every text, each character stands for one byte (Latin-1).

    Raises:
        UnicodeEncodeError: a text has a character above U+00FF.
    """
    ha2 = Algorithm.MD5.hex(f"{method}:{uri}".encode("latin-1"))
    return Algorithm.MD5.hex(f"{ha1}:{nonce}:{ha2}".encode("latin-1"))


@dataclass(frozen=True, slots=True)
class Verified:
    """The sender of the request knows this user's password, or has this user's key."""

    user: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The request gets a 401. `stale`: whether the digest was right, and only the nonce or its count was bad."""

    stale: bool


_REFUSED: Final = Refused(stale=False)

Verifier = Secret | PublicKey
"""The value by which a server verifies one user, by Digest or by a key."""


class Authenticator:
    """The server's side of Digest, one object for each cluster: makes challenges and verifies Authorization headers.

    Args:
        realm: the cluster's name.
        verifiers: the verifiers of the users that may log in, by user name.
        key: 32 random bytes, new in each process (see `nonces`).
        nonce_seconds: life of a nonce in seconds, at least 3,600.
        without_qop: see the attribute.
        dialled: see the attribute.
        verify_signature: see `Verify`. None: nobody logs in by a key here.
        newcomer: returns the key of a user that is not among `verifiers`, or None. For a server that is about to join.

    Raises:
        ValueError: the realm, the key's length or `nonce_seconds` is not legal.
    """

    def __init__(
        self,
        realm: str,
        verifiers: Mapping[str, Verifier],
        *,
        key: bytes,
        nonce_seconds: float = NONCE_SECONDS,
        without_qop: bool = False,
        dialled: Dialled | None = None,
        verify_signature: Verify | None = None,
        newcomer: Callable[[str], PublicKey | None] = lambda _: None,
    ) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the nonce key must be {KEY_BYTES} random bytes, not {len(key)}")
        if nonce_seconds < MIN_NONCE_SECONDS:
            raise ValueError(
                f"nonces must live at least {MIN_NONCE_SECONDS:.0f} seconds (proposal 150, Caching), not "
                f"{nonce_seconds:g}"
            )
        self.without_qop = without_qop
        """Whether an answer of RFC 2069 is accepted: MD5, no `qop`, no count. Each nonce is good for one such answer,
        because without a count a replay looks like the answer itself. May change at any time."""
        self.dialled = dialled
        """This server, as its clients dial it. May change at any time. None: nobody logs in by a key here."""
        self._verify_signature = verify_signature
        self._newcomer = newcomer
        self._realm = check_name("cluster name", realm)
        self._verifiers = dict(verifiers)
        self._nonces = Nonces(realm, key=key, seconds=nonce_seconds)
        # Stands in for an unknown user's secret, so that every check takes the same time. No password has this secret.
        self._nobody = Secret(
            md5=hmac.digest(key, b"nobody", "sha256")[:16].hex(),
            sha256=hmac.digest(key, b"nobody", "sha256").hex(),
        )

    def replace(self, verifiers: Mapping[str, Verifier]) -> None:
        """Replace the users that may log in. Issued nonces stay valid, so clients need no second request."""
        self._verifiers = dict(verifiers)

    def challenge(self, now: float, entropy: Callable[[int], bytes], *, stale: bool = False) -> list[str]:
        """Return the values of a 401's WWW-Authenticate headers, the strongest hash first (RFC 7616, 3.3).

        `now`: monotonic seconds. `entropy(n)`: returns n random bytes. `stale`: see `Refused`.
        """
        nonce = self._nonces.issue(now, entropy)
        tail = ", stale=true" if stale else ""
        return [
            f'Digest realm={quote(self._realm)}, qop="auth", algorithm={algorithm}, nonce="{nonce}", '
            f"charset=UTF-8{tail}"
            for algorithm in _STRONGEST_FIRST
        ]

    def verify(self, header: str, method: str, uri: str, now: float) -> Verified | Refused:
        """Check an Authorization header's value.

        Args:
            header: the value; any content is legal.
            method: the request's method.
            uri: the request target, in the path or the absolute form. The header may have the other form.
            now: monotonic seconds.
        """
        if KeyAnswer.is_one(header):
            return self._verify_key(header, method, uri, now)
        answer = _Answer.parse(header)
        if answer is None or answer.realm != self._realm or path_of_target(answer.uri) != path_of_target(uri):
            return _REFUSED
        if answer.counted is None and not self.without_qop:
            return _REFUSED
        verifier = self._verifiers.get(answer.user)
        secret = verifier if isinstance(verifier, Secret) else None
        matches = hmac.compare_digest(
            answer.expected((secret or self._nobody).of(answer.algorithm), method), answer.response
        )
        if not matches or secret is None:
            return _REFUSED
        if answer.counted is None:
            fresh = self._nonces.spend_whole(answer.nonce, now)
        else:
            fresh = self._nonces.spend(answer.nonce, int(answer.counted.count, 16), now)
        return Verified(answer.user) if fresh else Refused(stale=True)

    def _verify_key(self, header: str, method: str, uri: str, now: float) -> Verified | Refused:
        answer, at, verify_signature = KeyAnswer.parse(header), self.dialled, self._verify_signature
        if answer is None or at is None or verify_signature is None:
            return _REFUSED
        verifier = self._verifiers.get(answer.user)
        known = verifier if isinstance(verifier, PublicKey) else self._newcomer(answer.user)
        text = proof_text(
            at,
            realm=self._realm,
            method=method,
            path=path_of_target(uri),
            nonce=answer.nonce,
            count=answer.count,
            cnonce=answer.cnonce,
            user=answer.user,
        )
        if not verify_signature((known or NOBODY).raw, answer.signature, text) or known is None:
            return _REFUSED
        fresh = self._nonces.spend(answer.nonce, int(answer.count, 16), now)
        return Verified(answer.user) if fresh else Refused(stale=True)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The parameters that come with `qop=auth`."""

    count: str
    cnonce: str

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> Self | None:
        """Read these parameters; return None for an answer of RFC 2069, which has none of them.

        Raises `KeyError` when one is missing, and `ValueError` when one is illegal.
        """
        if not parameters.keys() & {"qop", "nc", "cnonce"}:
            return None
        counted = cls(parameters["nc"], parameters["cnonce"])
        if parameters["qop"].lower() != "auth" or _COUNT.fullmatch(counted.count) is None or int(counted.count, 16) < 1:
            raise ValueError("not the parameters of qop=auth")
        return counted


@dataclass(frozen=True, slots=True)
class _Answer:
    """The parameters of an Authorization header in the two forms that a server can accept (RFC 7616, 3.4; RFC 2069)."""

    user: str
    realm: str
    nonce: str
    uri: str
    algorithm: Algorithm
    response: str
    counted: _Counted | None
    """None: the form of RFC 2069."""

    @classmethod
    def parse(cls, header: str) -> Self | None:
        try:
            scheme = only_scheme(header)
            parameters = scheme.parameters
            if scheme.name != "digest" or parameters.get("userhash", "false").lower() != "false":
                return None
            answer = cls(
                user=parameters["username"],
                realm=parameters["realm"],
                nonce=parameters["nonce"],
                uri=parameters["uri"],
                algorithm=Algorithm(parameters.get("algorithm", "MD5").upper()),
                response=parameters["response"].lower(),
                counted=_Counted.read(parameters),
            )
        except (RemoteProtocolError, KeyError, ValueError):
            return None
        if answer.counted is None and answer.algorithm is not Algorithm.MD5:
            return None  # SHA-256 is younger than qop
        return answer if _HEX[answer.algorithm].fullmatch(answer.response) else None

    def expected(self, ha1: str, method: str) -> str:
        """Return the `response` parameter that a user with this HA1 would send with these parameters."""
        if self.counted is None:
            return digest_response_without_qop(ha1, nonce=self.nonce, method=method, uri=self.uri)
        return digest_response(
            self.algorithm,
            ha1,
            nonce=self.nonce,
            count=self.counted.count,
            cnonce=self.counted.cnonce,
            method=method,
            uri=self.uri,
        )


@dataclass(frozen=True, slots=True)
class _Challenge:
    """A WWW-Authenticate challenge that the client can answer (RFC 7616, 3.3)."""

    realm: str
    nonce: str
    algorithm: Algorithm
    opaque: str | None
    stale: bool

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> Self | None:
        offered = {word.strip().lower() for word in parameters.get("qop", "").split(",")}
        try:
            parameters["realm"].encode("latin-1").decode("utf-8")
            challenge = cls(
                realm=parameters["realm"],
                nonce=parameters["nonce"],
                algorithm=Algorithm(parameters.get("algorithm", "MD5").upper()),
                opaque=parameters.get("opaque"),
                stale=parameters.get("stale", "").lower() == "true",
            )
        except (KeyError, ValueError):
            return None
        return challenge if "auth" in offered and challenge.nonce else None


class DigestClient:
    """The client's side of Digest, one object for each peer, kept as long as the process lives.

    The object keeps the peer's last challenge for two hours, so that a reconnect needs one request. It also keeps the
    best algorithm that the peer ever offered, so that an attacker on the way cannot enforce a weaker one.

    Args:
        user: the user's name, without a colon and without control characters.
        password: not empty.
        peer: the words for the peer in errors, such as "the peer" or "the proxy".
    """

    def __init__(self, user: str, password: str, *, peer: str) -> None:
        self.user: Final = user
        self._password = password
        self._peer = peer
        self._challenge: _Challenge | None = None
        self._received = 0.0
        self._count = 0
        self._untried = False
        self._strong = False

    @property
    def untried(self) -> bool:
        """Whether the newest challenge has not been used for a request yet.

        A refusal of the first request with a challenge means that the password is wrong. A refusal of a later request
        means that the nonce has expired.
        """
        return self._untried

    @property
    def has_challenge(self) -> bool:
        """Whether the peer has ever sent a challenge, and so supports Digest."""
        return self._challenge is not None

    def authorize(self, method: str, uri: str, now: float, entropy: Callable[[int], bytes]) -> str | None:
        """Return the value of an Authorization or Proxy-Authorization header with the next nonce count.

        None: there is no challenge, or the newest is older than two hours or has no counts left. Then make a request
        without credentials, and take the challenge of its answer. `uri`: the request target that the peer sees.
        `now`: monotonic seconds.
        """
        taken = self._next_count(now)
        if taken is None:
            return None
        challenge, count = taken
        cnonce = entropy(CNONCE_BYTES).hex()
        realm = challenge.realm.encode("latin-1").decode("utf-8")
        response = digest_response(
            challenge.algorithm,
            _ha1(challenge.algorithm, self.user, realm, self._password),
            nonce=challenge.nonce,
            count=count,
            cnonce=cnonce,
            method=method,
            uri=uri,
        )
        opaque = "" if challenge.opaque is None else f", opaque={quote(challenge.opaque)}"
        return (
            f"Digest username={quote(self.user)}, realm={quote(challenge.realm)}, "
            f"nonce={quote(challenge.nonce)}, uri={quote(uri)}, algorithm={challenge.algorithm}, "
            f'response="{response}", qop=auth, nc={count}, cnonce="{cnonce}"{opaque}'
        )

    def _next_count(self, now: float) -> tuple["_Challenge", str] | None:
        """Return the challenge and its next nonce count, which is used up now; None: see `authorize`."""
        challenge = self._challenge
        if challenge is None or now - self._received > NONCE_SECONDS or self._count == MAX_COUNT:
            return None
        self._untried = False
        self._count += 1
        return challenge, f"{self._count:08x}"

    def take(self, schemes: Sequence[Scheme], now: float) -> bool | None:
        """Remember the strongest challenge that this client can answer.

        Returns:
            Whether the challenge says `stale=true`: the password was right, but the nonce was not. None: this client
            can answer none of the challenges, and the stored challenge stays.

        Raises:
            RemoteProtocolError: the peer offered SHA-256 before and offers only MD5 now. The stored challenge stays.
        """
        usable: dict[Algorithm, _Challenge] = {}
        for scheme in schemes:
            challenge = _Challenge.read(scheme.parameters) if scheme.name == "digest" else None
            if challenge is not None:
                usable.setdefault(challenge.algorithm, challenge)
        chosen = next((usable[algorithm] for algorithm in _STRONGEST_FIRST if algorithm in usable), None)
        if chosen is None:
            return None
        if self._strong and chosen.algorithm is not Algorithm.SHA_256:
            raise RemoteProtocolError(
                f"{self._peer} offered SHA-256 earlier and now only MD5, as if an attacker on the way had removed "
                f"SHA-256: if {self._peer} was replaced by a program that supports only MD5, restart this node"
            )
        if self._challenge is None or self._challenge.nonce != chosen.nonce:
            self._count = 0  # only for a new nonce: each count of a nonce can be used once
        self._challenge = chosen
        self._received = now
        self._untried = True
        self._strong = chosen.algorithm is Algorithm.SHA_256
        return chosen.stale


class Credentials(DigestClient):
    """The credentials of a user of a farm at one of the farm's nodes.

    Raises:
        ValueError: see `Secret.derive`.
    """

    def __init__(self, user: str, password: str) -> None:
        Secret.derive(user, "", password)  # raises at once when user or password is bad
        super().__init__(user, password, peer="the peer")

    @property
    def kind(self) -> str:
        """The name of the user's secret, in an error's sentence."""
        return "password"

    @property
    def others(self) -> int:
        """The number of further proofs that the user has, beside the one in use."""
        return 0

    def authorize_at(
        self,
        channel: str,  # noqa: ARG002 -- Digest is bound to no channel
        method: str,
        uri: str,
        now: float,
        entropy: Callable[[int], bytes],
    ) -> str | None:
        """Return the header's value for a request on this channel (see `Dialled`); None: see `authorize`."""
        return self.authorize(method, uri, now, entropy)

    @property
    def turn(self) -> int:
        """The number of the proof in use, from 0 on."""
        return 0

    def next_proof(self, refused: int) -> bool:  # noqa: ARG002 -- a password is the only proof
        """Note that the peer has refused the proof of this number; return whether another proof is worth a request."""
        return False

    def challenged(self, header_values: Sequence[str], now: float) -> bool:
        """Remember the strongest challenge among the WWW-Authenticate headers of a 401.

        Returns:
            Whether the peer says `stale=true`: the password was right, but the nonce was not.

        Raises:
            RemoteProtocolError: this client supports none of the challenges, or see `DigestClient.take`. The stored
                challenge stays.
        """
        schemes = offered_schemes(header_values)
        stale = self.take(schemes, now)
        if stale is None:
            raise RemoteProtocolError(
                f"the peer offers {names_of(schemes)}, but not Digest with qop=auth and SHA-256 or MD5: check that the "
                "endpoint is a farm node's, not another web server's"
            )
        return stale
