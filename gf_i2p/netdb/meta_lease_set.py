"""Meta lease sets: a signed list of other destinations' lease sets (common structures, "MetaLeaseSet"; proposal 123).

Routers re-serialise a set before they verify its signature. Java uses its own order, and its own values in some fields.
So a router may refuse a set with a valid signature. This module makes no such set, and accepts no such set.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.errors import LimitError, StructureError
from gf_i2p.netdb.lease_set_header import LeaseSet2Header, SignedSet, begin_set, end_set, sign_set
from gf_i2p.netdb.limits import MAX_META_ENTRIES
from gf_i2p.netdb.mapping import encode_mapping
from gf_i2p.netdb.private_keys import DestinationKeys

STORE_TYPE: Final = 7
"""Type in a DatabaseStore message and in CreateLeaseSet2; also the first byte of the signed bytes."""
MAX_AGE_SECONDS: Final = 600
"""Java refuses a set that was published this long ago, or with an entry that ended this long ago."""
MAX_AHEAD_SECONDS: Final = 60
"""How far `published` may be ahead of a Java router's clock."""
_ENTRY: Final = struct.Struct(">32sHBBI")


class LeaseType(IntEnum):
    """Kind of structure that an entry leads to (proposal 123)."""

    UNKNOWN = 0
    LEASE_SET = 1
    LEASE_SET2 = 3
    ENCRYPTED = 5
    META = 7
    """Common structures say 5 for this kind; proposal 123 and the routers say 7."""


@dataclass(frozen=True, slots=True)
class MetaLease:
    """One entry: another destination, which serves instead of the set's own destination."""

    hash: bytes
    """SHA-256 of the destination that the entry leads to, 32 bytes."""
    end: int
    """End of the entry, in seconds since the epoch."""
    cost: int = 0
    """0 to 255; lower is preferred."""
    type: LeaseType = LeaseType.LEASE_SET2

    def encode(self) -> bytes:
        """Return the entry's 40 bytes. Raises `LimitError`."""
        if len(self.hash) != 32 or not 0 <= self.cost <= 255 or not 0 <= self.end < 2**32:
            raise LimitError(f"{self} has a field that does not fit: 32 bytes of hash, cost up to 255, end of 4 bytes")
        return _ENTRY.pack(self.hash, 0, self.type, self.cost, self.end)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read one entry. Raises `StructureError`."""
        hash_, flags, kind, cost, end = _ENTRY.unpack(reader.take(_ENTRY.size))
        if flags:
            raise StructureError(f"an entry has the flags {flags:#06x}, which Java drops before verifying")
        try:
            return cls(hash_, end, cost, LeaseType(kind))
        except ValueError:
            raise StructureError(f"an entry has the type {kind}, which is not defined") from None


@dataclass(frozen=True, slots=True)
class MetaLeaseSet(SignedSet):
    """A Meta lease set with a valid signature. Use `build` or `parse`."""

    entries: tuple[MetaLease, ...]

    @classmethod
    def build(
        cls,
        keys: DestinationKeys,
        *,
        published: int,
        entries: Sequence[MetaLease],
        options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make and sign a set that both routers accept. The set expires with its last entry.

        Args:
            keys: the signing keys of the destination.
            published: seconds since the epoch; greater than in every earlier set, or routers keep the earlier set.
            entries: 1 to 16, in this order, each for another destination. Each ends after `published`, and at most 18.2
                hours later.
            options: see `encode_mapping`.

        Raises:
            LimitError: a router would refuse the set; the message gives the reason.
        """
        if not entries or len(entries) > MAX_META_ENTRIES:
            raise LimitError(f"a Meta lease set has 1 to {MAX_META_ENTRIES} entries, not {len(entries)}")
        if len({entry.hash for entry in entries}) != len(entries):
            raise LimitError("two entries are for the same destination")
        if any(entry.hash == keys.destination.hash for entry in entries):
            raise LimitError(f"{keys.destination.b32} cannot be an entry of its own set: resolvers would go in circles")
        # Java computes `expires` from the entries before verifying, so every other value would fail.
        header = LeaseSet2Header.of_set(keys, published, (entry.end for entry in entries), "an entry")
        options = dict(sorted((options or {}).items()))
        body = b"".join(
            [header.encode(), encode_mapping(options), bytes([len(entries)]), *(e.encode() for e in entries)]
        )
        body += bytes(1)  # no revocations: Java drops revocations before verifying
        return cls(sign_set(keys, STORE_TYPE, body), header, options, tuple(entries))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a set and verify its signature.

        Raises `StructureError` or `SignatureError`, also for a set that a router would refuse at any time. `objection`
        tells the reasons for refusals that depend on the time.
        """
        reader, header, options = begin_set(data, "a Meta lease set")
        count = reader.number(1)
        if not 1 <= count <= MAX_META_ENTRIES:
            raise StructureError(f"a Meta lease set has 1 to {MAX_META_ENTRIES} entries, not {count}")
        entries = tuple(MetaLease.read(reader) for _ in range(count))
        revocations = reader.number(1)
        if revocations:
            raise StructureError(f"the set has {revocations} revocations, which Java drops before verifying")
        end_set(reader, header, STORE_TYPE)
        last = max(entry.end for entry in entries)
        if last != header.expires_at:
            raise StructureError(
                f"the set expires at {header.expires_at}; Java expects the end of the last entry, {last}"
            )
        return cls(data, header, options, entries)

    def objection(self, now: int) -> str | None:
        """Return why a router would refuse the set at `now` (seconds since the epoch); None: routers accept the set."""
        if now >= self.expires_at:
            return f"the set has expired, {now - self.expires_at} s ago"
        oldest = min(self.published, *(entry.end for entry in self.entries))
        if oldest <= now - MAX_AGE_SECONDS:
            return f"the set or an entry is {now - oldest} s old, and Java refuses a set from {MAX_AGE_SECONDS} s on"
        if self.published > now + MAX_AHEAD_SECONDS:
            return f"the set is published {self.published - now} s in the future: check the clocks"
        if self.offline is not None and now >= self.offline.expires:
            return f"the key that signed the set was good until {now - self.offline.expires} s ago"
        return None
