"""The page of the limits, from the constants of the code and their comments."""

from typing import Final

from integration.reference.docstrings import Constant, constants
from integration.reference.markdown import cell, code, number, table

_CHAPTERS: Final = {
    "The wire": (
        "Limits on a peer's input, checked before memory is allocated for the input.",
        ("gf_i2p.wire.limits",),
    ),
    "Rights of a leaf member": (
        "Limits for the records that leaf members post.",
        ("gf_i2p.node.access.rights",),
    ),
    "The administration API": (
        "Limits for requests to the [administration API](api.md) and for their answers.",
        ("gf_i2p.admin.local_socket", "gf_i2p.admin.remote_interface", "gf_i2p.admin.api", "gf_i2p.admin.client"),
    ),
    "Connections to peers": (
        "Times and numbers of a server's connections to the other servers.",
        (
            "gf_i2p.transport.backoff",
            "gf_i2p.transport.peer_link",
            "gf_i2p.transport.request_slices",
            "gf_i2p.transport.inbound_connection",
            "gf_i2p.transport.i2p.i2p_listener",
            "gf_i2p.transport.i2p.i2p_transport",
            "gf_i2p.transport.i2p.session_dialler",
        ),
    ),
    "The service in mode `failover`": (
        "Limits for the streams of clients.",
        ("bridges.hosting_protocol",),
    ),
}


def page() -> str:
    """Return the page."""
    parts = [
        """# Limits as numbers

These are the limits that a peer, a client or an administrator meets. A peer that exceeds a size on the wire is
disconnected, and no message is ever shortened. Limits that an operator may set are [settings](settings.md#limits).
"""
    ]
    for heading, (about, modules) in _CHAPTERS.items():
        rows = [_row(each) for module in modules for each in constants(module) if _is_limit(each)]
        parts.append(f"## {heading}\n\n{about}\n\n{table(('limit', 'value', 'reason'), rows)}")
    return "\n".join(parts)


def _is_limit(constant: Constant) -> bool:
    return isinstance(constant.value, int | float) and not isinstance(constant.value, bool)


def _row(limit: Constant) -> tuple[str, str, str]:
    if not limit.text:
        raise ValueError(f"{limit.name} has no description: write a docstring below it")
    return code(limit.name.lower()), _value(limit.name, limit.value), cell(limit.text)


def _value(name: str, value: float) -> str:
    if name.endswith("_PER_SECOND"):
        return f"{_value(name.removesuffix('_PER_SECOND'), value)} a second"
    if name.endswith("_BYTES") or name.startswith("MAX_BYTES"):
        for power, unit in ((20, "MiB"), (10, "KiB")):
            if value % (1 << power) == 0 and value:
                return f"{number(int(value) >> power)} {unit}"
        return f"{number(value)} bytes"
    if name.endswith(("_SECONDS", "_TIMEOUT", "MAX_WAIT")):
        return f"{number(value)} s"
    for power in (63, 32):
        if value == 2**power - 1:
            return f"2^{power} - 1"
    return number(value)
