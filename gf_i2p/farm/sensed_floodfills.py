"""Sensed floodfills: for each day, the floodfills closest to a hash of the farm, as a scan of the netDb found them.

Proposal 150, "Application Data Contents", remote sensing: "closest floodfills profile data for time periods yesterday,
today, and tomorrow". Administrators post such data, and the explanation of the choice shows the posts. No choice
depends on the posts.
"""

import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Self

from gf_i2p.farm.strict_json import MAX_DATE_MS, RecordError, a_hash, a_list, an_object, integer, text
from gf_i2p.netdb.encoding import HASH_BYTES, to_b32_address, to_base64

MAX_CLOSEST: Final = 8
"""Most floodfills in one post, so for one hash on one day."""
MAX_FIGURES: Final = 8
"""Most figures in one floodfill's profile."""
MAX_FIGURE_NAME: Final = 32
"""Most characters of a figure's name in a floodfill's profile."""
MAX_HASHES: Final = 64
MAX_DAYS: Final = 3
"""Most days of one hash: yesterday, today and tomorrow."""
_DAY: Final = re.compile(r"([2-9]\d{3})-(0[1-9]|1[0-2])-(\d\d)", re.ASCII)
_DISTANCE: Final = re.compile(rf"[0-9a-f]{{{2 * HASH_BYTES}}}")
_NAME: Final = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_FIGURE_NAME}}}")


@dataclass(frozen=True, slots=True)
class Floodfill:
    """A floodfill close to a hash's routing key."""

    hash: bytes
    """Hash of the router, 32 bytes."""
    distance: bytes
    """The router's hash XOR the routing key, 32 bytes, big endian."""
    profile: Mapping[str, int | float] = field(default_factory=dict)
    """A router's measurements of the floodfill, by the router's own names."""

    @property
    def equal_bits(self) -> int:
        """Number of leading bits that the floodfill's hash shares with the routing key, 0 to 256: more is closer."""
        return 8 * HASH_BYTES - int.from_bytes(self.distance).bit_length()

    def encode(self) -> dict[str, Any]:
        """Return the floodfill as a JSON object."""
        fields: dict[str, Any] = {"hash": to_base64(self.hash), "distance": self.distance.hex()}
        return fields | ({"profile": dict(self.profile)} if self.profile else {})

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a floodfill from its JSON object. Raises `RecordError`."""
        fields = an_object(value, "a floodfill")
        distance = text(fields, "distance")
        if _DISTANCE.fullmatch(distance) is None:
            raise RecordError(f"distance has {2 * HASH_BYTES} digits from 0 to f")
        profile = an_object(fields.get("profile", {}), "profile")
        if len(profile) > MAX_FIGURES or not all(_NAME.fullmatch(name) for name in profile):
            raise RecordError(
                f"profile has up to {MAX_FIGURES} figures; a name has up to {MAX_FIGURE_NAME} letters and digits"
            )
        for name, figure in profile.items():
            if type(figure) not in {int, float} or abs(figure) > MAX_DATE_MS:
                raise RecordError(f"{name} is a number up to 2^53")
        return cls(a_hash(fields.get("hash"), "the hash of a floodfill"), bytes.fromhex(distance), profile)


@dataclass(frozen=True, slots=True)
class Sensed:
    """The closest floodfills of one hash on one day (UTC), the closest first."""

    day: str
    """YYYY-MM-DD: routing keys change at midnight."""
    closest: tuple[Floodfill, ...]

    def encode(self) -> dict[str, Any]:
        """Return the day and the floodfills, as fields of a JSON object."""
        return {"day": self.day, "closest": [each.encode() for each in self.closest]}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Read the day and the floodfills from the fields of a JSON object. Raises `RecordError`."""
        day = text(fields, "day")
        parts = _DAY.fullmatch(day)
        if parts is None or not 1 <= int(parts[3]) <= monthrange(int(parts[1]), int(parts[2]))[1]:
            raise RecordError("day is a date, YYYY-MM-DD")
        closest = tuple(Floodfill.parse(each) for each in a_list(fields, "closest", MAX_CLOSEST))
        if not closest or any(one.distance > other.distance for one, other in pairwise(closest)):
            raise RecordError(f"closest has 1 to {MAX_CLOSEST} floodfills, the closest first")
        return cls(day, closest)

    @property
    def what(self) -> str:
        """A summary in words, for the operator."""
        count, bits = len(self.closest), self.closest[0].equal_bits
        return f"{count} floodfill{'s'[: count > 1]} on {self.day}, the closest shares {bits} bit{'s'[: bits != 1]}"


@dataclass(frozen=True, slots=True)
class SensedPost:
    """One post: the sensed floodfills of a hash on a day, and the poster."""

    hash: bytes
    """Hash of a master or a leaf, 32 bytes."""
    sensed: Sensed
    index: int
    """Index of the entry in the log."""
    date_ms: int
    """Date in ms since the epoch, by the poster's clock."""
    by: str

    def encode(self) -> dict[str, Any]:
        """Return the post as a JSON object, for a snapshot."""
        about = {"index": self.index, "date": self.date_ms, "by": self.by, "hash": to_base64(self.hash)}
        return about | self.sensed.encode()

    def described(self) -> dict[str, Any]:
        """Return the post as a JSON object for the operator, with the hash as a b32 address, and a summary in words."""
        return {"address": to_b32_address(self.hash), **self.encode(), "what": self.sensed.what}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a post of a snapshot. Raises `RecordError`."""
        fields = an_object(value, "a post of sensed floodfills")
        return cls(
            a_hash(fields.get("hash"), "the hash"),
            Sensed.parse(fields),
            integer(fields, "index", MAX_DATE_MS),
            integer(fields, "date", MAX_DATE_MS),
            text(fields, "by"),
        )


class ClosestFloodfills:
    """The newest posts of sensed floodfills, for up to `MAX_HASHES` hashes and up to `MAX_DAYS` days of each hash."""

    def __init__(self) -> None:
        self._posts: dict[tuple[bytes, str], SensedPost] = {}
        # The newest post is last. "Newest" means last in the log, not the latest day: a wrong day in the future would
        # stay for ever.

    def __bool__(self) -> bool:
        """Whether any post is kept."""
        return bool(self._posts)

    def take(self, post: SensedPost) -> None:
        """Keep a post, and drop the oldest posts beyond `MAX_DAYS` and `MAX_HASHES`."""
        self._posts.pop((post.hash, post.sensed.day), None)
        self._posts[post.hash, post.sensed.day] = post
        days = [key for key in self._posts if key[0] == post.hash]
        for key in days[:-MAX_DAYS]:
            del self._posts[key]
        hashes = dict.fromkeys(hash_ for hash_, _ in reversed(self._posts))
        for hash_ in list(hashes)[MAX_HASHES:]:
            for key in [key for key in self._posts if key[0] == hash_]:
                del self._posts[key]

    def all(self) -> list[SensedPost]:
        """Return all posts, sorted by hash and then by day."""
        return [self._posts[key] for key in sorted(self._posts)]

    def encode(self) -> list[dict[str, Any]]:
        """Return the posts for a snapshot, in the order of the log."""
        return [post.encode() for post in self._posts.values()]

    @classmethod
    def parse(cls, snapshot: object) -> Self:
        """Read the posts of a snapshot. Raises `RecordError`."""
        if not isinstance(snapshot, list):
            raise RecordError("the sensed floodfills are a list")
        floodfills = cls()
        for post in snapshot:
            floodfills.take(SensedPost.parse(post))
        return floodfills
