"""Join codes: one text that brings a new server into a farm, in place of files.

A code carries a ticket (`gf_i2p.farm.admission`), the ticket's private key, and the servers that the newcomer may ask,
each with its address inside I2P or with the fingerprint of its certificate. So a newcomer asks no wrong server. A code
is a secret as long as it is good: its reader could join in the newcomer's place.

The text is "gf" and base64url of a checksum and of the parts, each with its length (2 bytes, big-endian).
"""

import hashlib
import secrets as randomness
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from gf_i2p.farm.admission import INSIDE, Admission, Ticket
from gf_i2p.netdb.encoding import from_base64url, to_base64url
from gf_i2p.netdb.signing import PRIVATE_KEY_BYTES
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files import templates
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets, TimingTable
from gf_i2p.node.files.farm_setup import NewServer, check_absent
from gf_i2p.node.files.server_tables import RemovedTable, ServerTable, check_name_of_user
from gf_i2p.node.files.transaction import all_or_nothing
from gf_i2p.node.membership.invitation import table_of_new, write_joining
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_proof import PublicKey

GOOD_SECONDS: Final = 3600
"""Seconds for which a code is good."""
MAX_CODE: Final = 4096
"""Most characters of a code."""
_MOST_SERVERS: Final = 3
"""Most servers in a code: with more, the code gets longer, and no more likely to work."""
_CHECK_BYTES: Final = 4
_VERSION: Final = b"gf1"
_PREFIX: Final = "gf"
"""The beginning of each code. Else one code of 64 would begin with "-", and be taken for an option of a command."""


class JoinCodeError(Exception):
    """The text is no join code, or the code cannot be made; the error says what to do."""


@dataclass(frozen=True, slots=True)
class JoinCode:
    """A join code. `repr` hides the private key."""

    cluster: str
    ticket: Ticket
    private: bytes = field(repr=False)
    """Private half of the ticket's key, 32 bytes."""
    servers: tuple[ServerTable, ...]

    @classmethod
    def make(cls, admin: ClientFile, server_id: int, endpoint: Endpoint | None, now_ms: int) -> Self:
        """Make a code for one new server, signed by this administrator. Without an endpoint, it makes its own in I2P.

        Raises `JoinCodeError`.
        """
        if not admin.login.keys:
            raise JoinCodeError(
                f"{admin.user} has a password and no key, so {admin.user} cannot sign a code: use the file of an "
                "administrator with a key, or `members invite --into`"
            )
        servers = [each for each in admin.servers if each.fingerprint or Endpoint.parse(each.endpoint).is_i2p]
        if not servers:
            raise JoinCodeError(
                "the file has no server with a fingerprint or inside I2P: add the fingerprint of one server to its "
                "[[servers]] table, as in any server's gf-i2p.toml"
            )
        known = next((each for each in admin.servers if each.id == server_id), None)
        if known is not None:
            raise JoinCodeError(f"server {server_id} exists already, at {known.endpoint}: choose another id")
        private = randomness.token_bytes(PRIVATE_KEY_BYTES)
        ticket = Ticket(
            server_id,
            INSIDE if endpoint is None else str(endpoint),
            now_ms + GOOD_SECONDS * 1000,
            admin.user,
            LoginKey(private).public.raw,
        )
        signed = replace(ticket, signature=admin.login.keys[0].sign(ticket.signed_text(admin.cluster)))
        return cls(admin.cluster, signed, private, tuple(servers[:_MOST_SERVERS]))

    @property
    def text(self) -> str:
        """The code, as it is pasted."""
        parts = [_VERSION, self.cluster.encode(), self.ticket.encode(), self.private]
        for server in self.servers:
            pin = b"" if server.fingerprint is None else bytes.fromhex(server.fingerprint.rpartition(":")[2])
            parts += [str(server.id).encode(), server.endpoint.encode(), pin]
        data = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
        return _PREFIX + to_base64url(_checksum(data) + data)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a code; spaces and line ends do not count, nor what stands below an empty line.

        Raises `JoinCodeError`, which does not show the text.
        """
        text = "".join(text.strip().partition("\n\n")[0].split())
        if not 0 < len(text) <= MAX_CODE:
            raise JoinCodeError("this is no join code: paste what `gf-i2p members invite --code` has printed")
        try:
            parts = _parts(text)
            servers = [
                ServerTable(
                    id=int(parts[at]),
                    endpoint=parts[at + 1].decode(),
                    fingerprint=f"sha256:{parts[at + 2].hex()}" if parts[at + 2] else None,
                )
                for at in range(4, len(parts), 3)
            ]
            return cls(parts[1].decode(), Ticket.decode(parts[2]), parts[3], tuple(servers))
        except ValueError as error:
            raise JoinCodeError("the code is incomplete or damaged: copy the whole of it, and nothing else") from error

    def admission(self, server: NewServer) -> Admission:
        """Return the admission of the new server of this code."""
        assert server.login.key is not None
        table = table_of_new(server)
        admission = Admission(self.ticket, table.endpoint, table.fingerprint, server.login.key.public.raw)
        return replace(admission, signature=LoginKey(self.private).sign(admission.signed_text(self.cluster)))

    def access(self, proxy: str, way: str) -> ClientFile:
        """Return the newcomer's access to the farm. `proxy` and `way`: of the router on this machine, as in files."""
        inside = any(Endpoint.parse(server.endpoint).is_i2p for server in self.servers)
        file = ClientFile.model_validate(
            {
                "cluster": self.cluster,
                "user": "newcomer",
                "key": LoginKey(self.private).text,
                "servers": [server.model_dump() for server in self.servers],
                **({"i2p": {"proxy": proxy, "way": way}} if inside else {}),
            }
        )
        return file.model_copy(update={"user": self.ticket.user})  # longer than the names of users in files


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a newcomer: see `gf_i2p.node.membership.admission.description`."""

    profile: str
    servers: Sequence[ServerTable]
    removed: Sequence[int]
    users: dict[str, PublicKey]
    left_out: Sequence[str]

    @classmethod
    def parse(cls, answer: Any) -> Self:
        """Read a server's answer, decoded JSON of any kind. Raises `JoinCodeError`."""
        try:
            return cls(
                TimingTable(profile=answer["profile"]).profile,
                [ServerTable.model_validate(each) for each in answer["servers"]],
                [RemovedTable(id=each).id for each in answer["removed"]],
                {check_name_of_user(name): PublicKey.parse(key) for name, key in answer["users"].items()},
                [check_name_of_user(name) for name in answer["left_out"]],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JoinCodeError(
                "the server's answer is not one that this version knows: use the same version of gf-i2p on all servers"
            ) from error


def write(directory: Path, code: JoinCode, server: NewServer, joined: Joined) -> None:
    """Write the new server's directory; all or nothing.

    Raises `ConfigError` when the directory exists, or when a node could not run with the farm's answer.
    """
    with all_or_nothing(directory.parent) as new_paths:
        check_absent(directory)
        directory.mkdir(mode=0o700)
        new_paths.append(directory)
        listed = [*joined.servers, table_of_new(server)]
        write_joining(directory, server, listed, joined.removed, joined.users, code.cluster, joined.profile)
        Config.load(directory)
        Secrets.load(directory)
        (directory / ".gitignore").write_text(templates.GITIGNORE_OF_SERVER, encoding="utf-8")


def _parts(text: str) -> list[bytes]:
    """Return the parts of a code's text. Raises `ValueError`, and `JoinCodeError` for another version's code."""
    if not text.startswith(_PREFIX):
        raise ValueError("its beginning is missing")
    data = from_base64url(text[len(_PREFIX) :])
    check, data = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    if check != _checksum(data):
        raise ValueError("the checksum is wrong")
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        part = data[at + 2 : at + 2 + size]
        if len(part) != size:
            raise ValueError("a part is missing")
        parts.append(part)
        at += 2 + size
    if parts[:1] != [_VERSION]:
        raise JoinCodeError("another version of gf-i2p made the code: use the same version of gf-i2p on all servers")
    if len(parts) < 7 or len(parts) % 3 != 1 or len(parts[3]) != PRIVATE_KEY_BYTES:
        raise ValueError("the parts are others")
    return parts


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECK_BYTES]
