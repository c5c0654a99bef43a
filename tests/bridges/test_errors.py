"""The texts of the system's errors."""

import errno
import socket

import pytest

from bridges.errors import system_text
from gf_i2p.transport.errors import error_text

REFUSED = OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 8080)")
UNKNOWN_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
"""The number of such an error is none of the system's."""


@pytest.mark.parametrize(
    ("error", "text"), [(REFUSED, "Connection refused"), (UNKNOWN_NAME, "Name or service not known")]
)
def test_the_system_says_why(error: OSError, text: str) -> None:
    assert system_text(error) == error_text(error) == text


def test_a_lapse_of_time_has_no_text_of_the_system() -> None:
    assert system_text(TimeoutError()) == ""
