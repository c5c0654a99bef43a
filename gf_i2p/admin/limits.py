"""What one request of the local interface may ask for."""

from typing import Final

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds for a post."""
MAX_TIMEOUT: Final = 3600.0
MAX_PAGE: Final = 1000
"""Entries in one answer."""
MAX_PAGE_BYTES: Final = 4 << 20
"""Bytes of entries in one answer, as on the wire; one larger entry comes alone."""
