"""The client's side of a login by keys, with a password for foreign peers as the last resort.

A user has one key as a rule. While a server's key is being replaced there are two. A foreign peer knows Digest only,
and refuses the keys; then the client tries the password, if its file has one. That makes no login weaker: a server that
has the public half of the user's key refuses the user's Digest (`digest.Authenticator`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gf_i2p.wire.digest import CNONCE_BYTES, Credentials, DigestClient
from gf_i2p.wire.http_head import path_of_target
from gf_i2p.wire.key_proof import ClientKey, Dialled, KeyAnswer, proof_text
from gf_i2p.wire.limits import MAX_NEWCOMER_BYTES
from gf_i2p.wire.names import check_name


class KeyCredentials(Credentials):
    """The credentials of a user with keys at one server; see `Credentials` for what is kept.

    Args:
        user: the user's name.
        server: the server's id.
        keys: the best first.
        password: for foreign peers, or for a user without a key. None: a peer that refuses the keys is not reached.

    Raises:
        ValueError: `user` is not a legal name, the password is empty, or there is neither a key nor a password.
    """

    def __init__(self, user: str, server: int, keys: Sequence[ClientKey], password: str | None = None) -> None:
        check_name("user name", user, most=MAX_NEWCOMER_BYTES)
        if not keys and password is None:
            raise ValueError(f"{user} has neither a key nor a password")
        if password is None:
            DigestClient.__init__(self, user, "", peer="the peer")
        else:
            super().__init__(user, password)
        self._server = server
        self._with_password = password is not None
        self._keys = tuple(keys)
        self._turn = 0
        self._refused = 0

    @property
    def kind(self) -> str:
        """See `Credentials`."""
        return "key" if self._keys else "password"

    @property
    def others(self) -> int:
        """See `Credentials`."""
        return len(self._keys) - 1 + self._with_password

    def replace(self, keys: Sequence[ClientKey]) -> None:
        """Use these keys from now on, the best first. The peer's challenge is kept.

        Raises:
            ValueError: there is neither a key nor a password.
        """
        if not keys and not self._with_password:
            raise ValueError(f"{self.user} has neither a key nor a password")
        self._keys = tuple(keys)
        self._turn = self._refused = 0

    def authorize_at(
        self, channel: str, method: str, uri: str, now: float, entropy: Callable[[int], bytes]
    ) -> str | None:
        """See `Credentials`."""
        if self._turn == len(self._keys):
            return self.authorize(method, uri, now, entropy)
        taken = self._next_count(now)
        if taken is None:
            return None
        challenge, count = taken
        cnonce = entropy(CNONCE_BYTES).hex()
        text = proof_text(
            Dialled(self._server, channel),
            realm=challenge.realm,
            method=method,
            path=path_of_target(uri),
            nonce=challenge.nonce,
            count=count,
            cnonce=cnonce,
            user=self.user,
        )
        return KeyAnswer(self.user, challenge.nonce, count, cnonce, self._keys[self._turn].sign(text)).header()

    @property
    def turn(self) -> int:
        """See `Credentials`."""
        return self._turn

    def next_proof(self, refused: int) -> bool:
        """See `Credentials`. After the last proof the first one has its turn again, at the next attempt."""
        if refused != self._turn:
            return True  # another connection to the same peer has come to the next proof already
        proofs = self.others + 1
        self._turn = (self._turn + 1) % proofs
        self._refused = (self._refused + 1) % proofs
        return self._refused != 0


@dataclass(frozen=True, slots=True)
class Login:
    """All that a user has to log in at the farm's servers. `repr` hides the secrets.

    Raises:
        ValueError: see `KeyCredentials`, or there is neither a key nor a password.
    """

    user: str
    password: str | None = field(default=None, repr=False)
    """For foreign peers, or for a user without a key."""
    keys: tuple[ClientKey, ...] = field(default=(), repr=False)
    """The best first."""

    def __post_init__(self) -> None:
        self.at(0)

    def at(self, server: int) -> KeyCredentials:
        """Make new credentials for the server of this id."""
        return KeyCredentials(self.user, server, self.keys, self.password)
