"""The keys with which a node publishes: the master's own, or delegated ones with configs that the master has signed.

A node's key file has one of two formats. The first is a router's private key file (`DestinationKeys`), with the
master's own key or, for Java routers only, a delegated one. The second is the program's own format, which `gf-i2p keys
delegate` writes: ASCII, at most 16 KiB, mode 0600,

    gf-i2p publishing keys 1
    # a comment
    server: 2
    keys: BASE64
    meta: BASE64
    service: BASE64

with each name once, in any order, and the values in I2P's base64. `server`, which may be missing, is the id of the
node for which the file was made. `keys` has the transient key and its authorisation, in the routers' own format. `meta`
and `service` are SessionConfigs with `META_OPTIONS` and `SERVICE_OPTIONS`, signed by the master's own key. i2pd opens
no session for a transient key, but accepts such a config for ever. A thief of such a config can hold the destination at
a router, but can publish nothing once the transient key has expired.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import from_base64, to_base64
from gf_i2p.netdb.errors import NetDbError, SignatureError, StructureError
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import META_OPTIONS, SERVICE_OPTIONS, SessionConfig, session_config
from gf_i2p.node.files.checked_read import ConfigError, check_mode, read_regular
from gf_i2p.wire.limits import MAX_ID

MAX_FILE_BYTES: Final = 16 * 1024
"""Most bytes of a key file: two configs and the keys have some 3,500 characters of base64."""
ENDING_SECONDS: Final = 14 * 86_400
"""Seconds before the keys' end at which the operator is warned, in time to fetch keys from the master's machine."""
ENDING_PART: Final = 4
"""For keys with a short life, the warning comes in the last quarter of that life."""
HANDOVER_SECONDS: Final = 600
"""Seconds before their end at which keys stop publishing, so that the farm chooses another server in time."""

_MAGIC: Final = b"gf-i2p publishing keys "
_FORMAT: Final = b"1"
_MAX_VALUE_BYTES: Final = 8 * 1024
_HEADING: Final = """\
# Secret: anybody with this file can publish for the master below, and serve in its place, until the date below.
# The master's own key is not in this file.
"""


class Purpose(StrEnum):
    """The purpose of a session at a router."""

    META = "meta"
    """A session that publishes the Meta lease set, and carries no traffic."""
    SERVICE = "service"
    """A session that serves as the master itself."""

    @property
    def options(self) -> Mapping[str, str]:
        """I2CP options of a session with this purpose."""
        return META_OPTIONS if self is Purpose.META else SERVICE_OPTIONS


class Stage(StrEnum):
    """The stage in the life of keys."""

    LASTING = "lasting"
    """The master's own keys, which do not end."""
    GOOD = "good"
    ENDING = "ending"
    """The operator should make new keys."""
    ENDED = "ended"
    """The keys have ended, or end within `HANDOVER_SECONDS`. The node publishes nothing with these keys."""


@dataclass(frozen=True, slots=True)
class PublishingKeys:
    """The keys of a publishing node. `repr` shows no secret. Raises `StructureError` or `SignatureError`."""

    keys: DestinationKeys
    """The keys that sign the sets."""
    signed: Mapping[Purpose, bytes] = field(default_factory=dict, repr=False)
    """SessionConfigs signed once by the master's own key; all of `Purpose`, or none."""
    server: int | None = None
    """Id of the node for which the keys were made, where known."""

    def __post_init__(self) -> None:
        if self.signed and self.keys.offline is None:
            raise StructureError("it has the master's own key, which needs no signed session configs: leave them out")
        for purpose, data in self.signed.items():
            config = SessionConfig.parse(data)
            if config.destination != self.destination:
                raise SignatureError(
                    f"its session config '{purpose}' is for {config.destination.b32}, and its keys are for "
                    f"{self.destination.b32}"
                )
            config.verify()
            if config.delegated or config.options.get("i2cp.leaseSetType") != purpose.options["i2cp.leaseSetType"]:
                raise StructureError(f"its session config '{purpose}' has the options of another session")

    @classmethod
    def delegate(
        cls,
        master: DestinationKeys,
        expires: int,
        now: int,
        *,
        server: int | None = None,
        service: Mapping[str, str] | None = None,
    ) -> Self:
        """Make the keys with which a node publishes until `expires`; runs where the master's own key is.

        Both times in seconds since the epoch. `service`: I2CP options of the serving session, in place of the defaults.
        Raises `SignatureError` when `master` is delegated itself, `StructureError` for options that make another kind
        of session, and `LimitError` for a config that is too long.
        """
        keys = master.delegate(expires)
        options = {
            Purpose.META: Purpose.META.options,
            Purpose.SERVICE: {**Purpose.SERVICE.options, **(service or {})},
        }
        return cls(keys, {each: session_config(master, now * 1000, options[each]) for each in Purpose}, server)

    @property
    def destination(self) -> Destination:
        """The destination of the master."""
        return self.keys.destination

    @property
    def delegated(self) -> bool:
        """Whether these keys are delegated: a transient key signs lease sets in place of the master's own key."""
        return self.keys.offline is not None

    @property
    def delegated_at(self) -> int | None:
        """The time at which the master delegated the keys (seconds since the epoch); None: not known."""
        dates = [SessionConfig.parse(data).date_ms for data in self.signed.values()]
        return min(dates) // 1000 if dates else None

    # For a session ------------------------------------------------------------------------------------------------

    def fresh_session(self, purpose: Purpose, now_ms: int) -> bytes:
        """Sign a SessionConfig now with the key here. i2pd accepts the config only if the key is not transient."""
        return session_config(self.keys, now_ms, purpose.options)

    def signed_session(self, purpose: Purpose) -> bytes | None:
        """Return the SessionConfig that the master has signed once for i2pd.

        None when there is no such config, or when the master's own key is here, which needs none.
        """
        return self.signed.get(purpose)

    def signed_options(self, purpose: Purpose) -> Mapping[str, str] | None:
        """Return the I2CP options that the master has signed for i2pd; None where `signed_session` is None."""
        data = self.signed_session(purpose)
        return None if data is None else SessionConfig.parse(data).options

    def objection(self, router: str) -> str | None:
        """Say why a router ("i2pd", "java") opens no session with these keys; None: no known reason."""
        if router == "i2pd" and self.delegated and not self.signed:
            return (
                "the keys are delegated, and i2pd opens a session only for the master's own key, or with a file of "
                "`gf-i2p keys delegate`, which has a session config that the master has signed: make such a file"
            )
        return None

    # Their end ----------------------------------------------------------------------------------------------------

    @property
    def ends(self) -> int | None:
        """The end of the keys (seconds since the epoch); None: never."""
        return None if self.keys.offline is None else self.keys.offline.expires

    def stage(self, now: int) -> Stage:
        """Return the stage of the keys. `now`: seconds since the epoch."""
        if self.ends is None:
            return Stage.LASTING
        remaining = self.ends - now
        if remaining <= HANDOVER_SECONDS:
            return Stage.ENDED
        ending_seconds = (
            ENDING_SECONDS
            if self.delegated_at is None
            else min(ENDING_SECONDS, (self.ends - self.delegated_at) // ENDING_PART)
        )
        return Stage.ENDING if remaining < ending_seconds else Stage.GOOD

    def described(self, now: int) -> str:
        """Describe the keys and their end for the operator. `now`: seconds since the epoch."""
        if self.ends is None:
            return f"the own keys of {self.destination.b32}: they do not expire"
        if now >= self.ends:
            return f"delegated for {self.destination.b32}: expired on {date(self.ends)}"
        return f"delegated for {self.destination.b32}, until {date(self.ends)} ({_span(self.ends - now)} left)"

    # The file -----------------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a key file of either kind. Raises `StructureError` or `SignatureError`."""
        if len(data) > MAX_FILE_BYTES:
            raise StructureError(f"it is longer than the {MAX_FILE_BYTES} bytes that a key file may have")
        if not data.startswith(_MAGIC):
            return cls(DestinationKeys.parse(data))
        return cls._of_text(data.removeprefix(_MAGIC))

    @classmethod
    def _of_text(cls, data: bytes) -> Self:
        version, _, text = data.partition(b"\n")
        if version != _FORMAT:
            raise StructureError(
                f"it is of format {version[:20].decode('ascii', 'replace')}, and this program knows format 1: install "
                "a newer gf-i2p here"
            )
        values: dict[str, str] = {}
        for number, line in enumerate(text.decode("ascii", "replace").splitlines(), 2):
            if not line or line.startswith("#"):
                continue
            name, _, value = line.partition(": ")
            if name not in {"server", "keys", *Purpose} or name in values:
                raise StructureError(f"line {number} is unknown, or comes twice")  # a broken line may be a secret
            values[name] = value.strip()
        missing = [name for name in ("keys", *Purpose) if name not in values]
        if missing:
            raise StructureError(f"the line '{missing[0]}' is missing: was the file copied completely?")
        server = values.get("server")
        if server is not None and not (
            server.isascii() and server.isdigit() and len(server) <= 10 and int(server) < MAX_ID
        ):
            raise StructureError("its line 'server' does not hold a server's id")
        keys = DestinationKeys.from_base64(values["keys"])
        signed = {each: from_base64(values[each], _MAX_VALUE_BYTES) for each in Purpose}
        return cls(keys, signed, None if server is None else int(server))

    def encode(self) -> bytes:
        """Return the bytes of a key file: in the program's format if there are signed configs, else in a router's."""
        if not self.signed:
            return self.keys.encode()
        lines = [f"# {self.destination.b32}, until {'' if self.ends is None else date(self.ends)}"]
        lines += [] if self.server is None else [f"server: {self.server}"]
        lines += [f"keys: {self.keys.base64}", *(f"{each}: {to_base64(self.signed[each])}" for each in Purpose)]
        return _MAGIC + _FORMAT + b"\n" + _HEADING.encode("ascii") + "\n".join([*lines, ""]).encode("ascii")


def load_publishing_keys(path: Path) -> PublishingKeys:
    """Read the key file of a node. Raises `ConfigError`, also when other users could read the file."""
    data, status = read_regular(path, MAX_FILE_BYTES + 1)
    try:
        keys = PublishingKeys.parse(data)
    except NetDbError as error:
        raise ConfigError(
            f"{path} is neither a private key file of an I2P destination nor one of `gf-i2p keys delegate`: {error}."
        ) from error
    check_mode(path, status)  # only now is the file known to be a key file
    return keys


def date(seconds: int) -> str:
    """Format a time for the operator, as UTC; `seconds` since the epoch."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _span(seconds: int) -> str:
    """Return the time in words that change once an hour at most: a node logs each change."""
    days, hours = seconds // 86_400, seconds // 3600
    if days > 1:
        return f"{days} days"
    return f"{hours} hours" if hours > 1 else "1 hour" if hours else "less than an hour"
