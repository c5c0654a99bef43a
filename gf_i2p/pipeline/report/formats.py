"""Writes figures for readers: counts, shares, sizes, durations, moments."""

from datetime import UTC, datetime
from typing import Final

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.netdb.encoding import HASH_BYTES, from_base64, to_b32_address
from gf_i2p.netdb.errors import NetDbError

MAX_TEXT: Final = 240
"""Most characters of one text from the data."""
_LETTERS: Final = 8
_NO_SIGN: Final = "\ufffd"


def count(value: float) -> str:
    """Write a number without decimals, with commas between thousands."""
    return f"{value:,.0f}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """Write a number and its noun, such as "3 servers". `one`: the singular. `many`: the plural; None: `one` + "s"."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def size(value: float) -> str:
    """Write a number of bytes with its unit, B to TiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def percent(value: float | None) -> str:
    """Write a share (0 to 1) in percent; "–" for None. A share below 1 is never shown as 100 %."""
    if value is None:
        return "–"
    shown = f"{100 * value:.1f}"
    if value < 1 and shown == "100.0":
        shown = ">99.9"
    return shown.removesuffix(".0") + " %"


def lasting(value_ms: float) -> str:
    """Write a duration (in ms) by its two largest units, such as "3 h 20 min"."""
    seconds = int(abs(value_ms) // 1000)
    sign = "-" if value_ms <= -1000 else ""
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{sign}{count(days)} d" + (f" {hours} h" if hours else "")
    if hours:
        return f"{sign}{hours} h" + (f" {minutes} min" if minutes else "")
    if minutes:
        return f"{sign}{minutes} min" + (f" {seconds % 60} s" if seconds % 60 else "")
    return f"{value_ms:.0f} ms" if 0 < abs(value_ms) < 1000 else f"{sign}{seconds} s"


def moment(at_ms: float) -> str:
    """Write a time (ms since the epoch) as date, hour and minute, in UTC."""
    return _date(at_ms, "%Y-%m-%d %H:%M")


def day(at_ms: float) -> str:
    """Write the date of a time (ms since the epoch), in UTC."""
    return _date(at_ms, "%Y-%m-%d")


def _date(at_ms: float, form: str) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):{form}}"
    except (OverflowError, ValueError, OSError):
        return f"{at_ms:.0f} ms"


def server(id_: int) -> str:
    """Name a server or leaf member by the id: "server 3", "member 2147483650"."""
    return f"{'server' if id_ < FIRST_LEAF_MEMBER_ID else 'member'} {id_}"


def address(hash_: str) -> str:
    """Return the b32 address of a hash in I2P's base64; a text that is no hash stays as it is."""
    try:
        data = from_base64(hash_, HASH_BYTES)
    except NetDbError:
        return hash_
    return to_b32_address(data) if len(data) == HASH_BYTES else hash_


def short(address_: str) -> str:
    """Shorten an address to "qjwctoz2….b32.i2p"; a text that is no address to its first letters."""
    name, dot, _ = address_.partition(".b32.i2p")
    return f"{name[:_LETTERS]}…{dot}" if len(name) > _LETTERS else address_


def equal_bits(distance: str) -> int:
    """Return how many first bits a floodfill's hash shares with a routing key. `distance`: 64 hexadecimal digits."""
    return 256 - int(distance, 16).bit_length()


def clean(text: str, most: int = MAX_TEXT) -> str:
    """Cut a text to `most` characters, and replace unprintable characters.

    Control characters are unprintable, and so are characters that turn the writing direction.
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(each if each.isprintable() else _NO_SIGN for each in cut)


def figure(value: float | None) -> str:
    """Write a number; "–" for None. Whole numbers, and numbers from 1000 on, get no decimals.

    Other numbers get three significant digits.
    """
    if value is None:
        return "–"
    return count(value) if abs(value) >= 1000 or value == round(value) else f"{value:.3g}"
