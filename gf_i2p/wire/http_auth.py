"""The grammar of WWW-Authenticate and Authorization (RFC 7235, 2.1): schemes with parameters.

Limits: 32 parameters and schemes in a header, 1,024 characters in a value. No pattern ever backtracks (all are
possessive), so the time is linear in the header's length.

Header values are `str` in which each character stands for one byte (Latin-1), as in WSGI. A peer may send any
bytes, and Digest hashes and returns exactly these bytes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.limits import MAX_AUTH_PARAMETERS, MAX_AUTH_VALUE_BYTES

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"  # noqa: S105 -- RFC 7230, 3.2.6; no secret
_END = r"[ \t]*+(?:,|\Z)"
_SEPARATORS = re.compile(r"[ \t,]*+")
_PARAMETER = re.compile(rf'({_TOKEN})[ \t]*+=[ \t]*+(?:"((?:[^"\\]++|\\.)*+)"|([^\s",=][^\s",]*+)){_END}')
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]++|(?=,)|\Z)")
_TOKEN68 = re.compile(rf"[A-Za-z0-9._~+/-]++=*+{_END}")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Scheme:
    """One challenge, or the credentials of a request. The scheme and parameter names are in lower case."""

    name: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_schemes(value: str) -> list[Scheme]:
    """Read one header's value: any number of schemes, each with parameters or a token68. The token68 is ignored.

    Raises:
        RemoteProtocolError: the value breaks the grammar, names a parameter twice, or exceeds a limit.
    """
    schemes: list[Scheme] = []
    position = 0
    parts = 0
    while True:
        match = _SEPARATORS.match(value, position)
        position = match.end() if match else position
        if position == len(value):
            return schemes
        parts += 1
        if parts > MAX_AUTH_PARAMETERS:
            raise RemoteProtocolError(f"an authentication header with more than {MAX_AUTH_PARAMETERS} parts")
        if schemes and (match := _PARAMETER.match(value, position)):
            _add(schemes[-1].parameters, *match.groups())
        elif match := _SCHEME.match(value, position):
            schemes.append(Scheme(match[1].lower()))
        elif not schemes or not (match := _TOKEN68.match(value, position)):
            raise RemoteProtocolError("an authentication header that does not follow RFC 7235")
        position = match.end()


def only_scheme(header: str) -> Scheme:
    """Read the value of an Authorization header, which has one scheme (RFC 7235, 4.2).

    Raises `RemoteProtocolError`, and `ValueError` for another number of schemes or a character above U+00FF.
    """
    header.encode("latin-1")
    (scheme,) = parse_schemes(header)
    return scheme


def offered_schemes(header_values: Sequence[str]) -> list[Scheme]:
    """Return all schemes of a response's challenge headers. A header that cannot be read counts for nothing."""
    schemes: list[Scheme] = []
    for value in header_values:
        try:
            schemes += parse_schemes(value)
        except RemoteProtocolError:
            continue  # perhaps a scheme unknown here; the other headers count
    return schemes


def names_of(schemes: Sequence[Scheme]) -> str:
    """Return the names of schemes for an error's sentence, at most 80 characters."""
    return ", ".join(sorted({scheme.name for scheme in schemes}))[:80] or "nothing readable"


def _add(parameters: dict[str, str], name: str, quoted: str | None, plain: str | None) -> None:
    name = name.lower()
    text = plain if plain is not None else _ESCAPED.sub(r"\1", quoted or "")
    if name in parameters:
        raise RemoteProtocolError("an authentication header that gives a parameter twice")
    if len(text) > MAX_AUTH_VALUE_BYTES:
        raise RemoteProtocolError(f"an authentication header with a value of more than {MAX_AUTH_VALUE_BYTES} bytes")
    parameters[name] = text


def quote(text: str) -> str:
    """Return `text` as a quoted string (RFC 7230, 3.2.6); `text` has no control characters."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
