"""A file of a user, or of a server, with a key that nobody knows."""

import re

from gf_i2p.node.access.login_keys import LoginKey


def with_another_key(text: str) -> str:
    """Return the text of a file with another private key in the place of its own."""
    changed, count = re.subn(r'"ed25519-private:[0-9a-f]{64}"', f'"{LoginKey.generate().text}"', text, count=1)
    assert count == 1, "the file has no private key"
    return changed
