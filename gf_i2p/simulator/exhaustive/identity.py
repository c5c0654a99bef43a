"""The identity of a server's or the checker's state: two states with the same identity behave in the same way.

The identity is read from the objects themselves, whatever fields these have. So a new field of the core makes more
states different, and never makes two different states equal. Three kinds of numbers count only beside others:

- A float is a time, and counts from the server's present time. Long ago is long ago.
- A `Tag` of a request counts as the slot of the request's exchange, or as 0 when nobody waits for the answer.
- A `WriteNumber` counts from the last durable write.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

_IGNORED: Final = {
    ("Core", "_term_allowance"),  # 2^20 terms: far above the terms of any scope
    ("Follower", "_index_allowance"),  # for snapshots, which no scope has
    ("ElectionTimeout", "unheard"),  # for servers that wait to be asked: in a scope each server is a voter
    ("Configurations", "changes"),  # only compared with an earlier value, by the driver
}


class Tag(int):
    """The tag of a request. A sum is a `Tag`, too."""

    def __add__(self, other: int) -> "Tag":
        return Tag(int(self) + other)


class WriteNumber(int):
    """The number of a write. A sum is a `WriteNumber`, too."""

    def __add__(self, other: int) -> "WriteNumber":
        return WriteNumber(int(self) + other)


class Identity:
    """Makes identities, each of 16 bytes."""

    def __init__(
        self, *, now: float = 0.0, long_ago: float = 0.0, slots: Mapping[int, int] | None = None, durable: int = 0
    ):
        """`now`: the present time. `long_ago`: seconds; all earlier times are the same.

        `slots`: by tag, the slot of the exchange. `durable`: the number of the last durable write.
        """
        self._now = now
        self._long_ago = long_ago
        self._slots = slots or {}
        self._durable = durable
        self._met: dict[int, int] = {}

    def of(self, value: Any) -> bytes:
        """Return the identity of a value and of everything that the value holds."""
        return hashlib.blake2b(repr(self._canonical(value)).encode(), digest_size=16).digest()

    def _canonical(self, value: Any) -> Any:
        kind = type(value)
        if kind is int or kind is bool or kind is bytes or kind is str or value is None or isinstance(value, Enum):
            return value
        if kind is float:
            return "time", round(max(value - self._now, -self._long_ago), 6)
        if kind is Tag:
            return "tag", self._slots.get(value, 0)
        if kind is WriteNumber:
            return "write", max(int(value) - self._durable, 0)
        if isinstance(value, tuple | list | deque):
            return [self._canonical(each) for each in value]
        if isinstance(value, dict):
            return "dict", sorted(((self._canonical(k), self._canonical(v)) for k, v in value.items()), key=repr)
        if isinstance(value, set | frozenset):
            return "set", sorted((self._canonical(each) for each in value), key=repr)
        if isinstance(value, FunctionType | BuiltinFunctionType | MethodType | type):
            return value.__qualname__
        if not _is_frozen(kind):
            if id(value) in self._met:
                return "met", self._met[id(value)]
            self._met[id(value)] = len(self._met)
        return kind.__name__, [
            (name, self._canonical(getattr(value, name)))
            for name in _fields(value)
            if (kind.__name__, name) not in _IGNORED
        ]


def _is_frozen(kind: type) -> bool:
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _fields(value: Any) -> Iterable[str]:
    slots = _slots(type(value))
    return sorted({*slots, *value.__dict__}) if hasattr(value, "__dict__") else slots


def _slots(kind: type) -> list[str]:
    if kind not in _SLOTS:
        names = {name for each in kind.__mro__ for name in each.__dict__.get("__slots__", ())}
        _SLOTS[kind] = sorted(names - {"__dict__", "__weakref__"})
    return _SLOTS[kind]


_SLOTS: Final[dict[type, list[str]]] = {}
"""The names of the slots of each class, as a cache."""
