"""A router whose proxies want a user and a password, as Java's do: Digest, Basic, or SOCKS5's own login."""

import asyncio
import base64
import hashlib
import itertools
import re
from dataclasses import dataclass, field

from tests.transport.i2p.i2p_harness import Router

USER, PASSWORD = "gf node", "open:sesame"
REALM = "I2P HTTP Proxy"
_LINE = re.compile(rb"(\S+) (\S+) HTTP/1\.1\r\n")
_HEADER = re.compile(rb"Proxy-Authorization: ([^\r]*)\r\n")
_PARAMETER = re.compile(r'(\w+)=(?:"([^"]*)"|([^",\s]+))')


@dataclass
class LockedRouter(Router):
    """Checks the login without the code under test, and takes the login's header off, as Java does."""

    schemes: tuple[str, ...] = ("MD5",)
    """The schemes that the proxy offers, in this order: "Basic", or the algorithm of a Digest."""
    password: str = PASSWORD
    nonces: dict[str, set[str]] = field(default_factory=dict)
    """The nonces, and the counts that were used with each."""
    stale: int = 0
    """Number of right answers that are still refused as stale."""
    asked: int = 0
    """Number of 407s."""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def admitted(self, head: bytes, writer: asyncio.StreamWriter) -> bytes | None:
        match = _HEADER.search(head)
        verdict = match is not None and self._is_right(head, match[1].decode("latin-1"))
        if verdict and self.stale == 0:
            return _HEADER.sub(b"", head)
        self.stale -= 1 if verdict else 0
        self.asked += 1
        writer.write(self._challenge(stale=verdict))
        return None

    def _challenge(self, *, stale: bool) -> bytes:
        nonce = f"nonce-{next(self._numbers)}="
        self.nonces[nonce] = set()
        lines = ""
        for scheme in self.schemes:
            value = (
                f'Basic realm="{REALM}"'
                if scheme == "Basic"
                else (
                    f'Digest realm="{REALM}", nonce="{nonce}", algorithm={scheme}, qop="auth"'
                    + (", stale=true" if stale else "")
                )
            )
            lines += f"Proxy-Authenticate: {value}\r\n"
        return (
            f"HTTP/1.1 407 Proxy Authentication Required\r\nConnection: close\r\n{lines}\r\n"
            '<link href="http://proxy.i2p/themes/console/default/console.css">'
        ).encode()

    def _is_right(self, head: bytes, value: str) -> bool:
        if value.startswith("Basic "):
            return value == "Basic " + base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        line = _LINE.match(head)
        assert line is not None
        method, target = line[1].decode(), line[2].decode()
        got = {name: quoted or plain for name, quoted, plain in _PARAMETER.findall(value)}
        name = {"MD5": "md5", "SHA-256": "sha256"}[got["algorithm"]]

        def hexadecimal(text: str) -> str:
            return hashlib.new(name, text.encode()).hexdigest()

        assert got["uri"] == target, "RFC 7616, 3.4: the target of the request line"
        a1, a2 = hexadecimal(f"{USER}:{REALM}:{self.password}"), hexadecimal(f"{method}:{target}")
        right = hexadecimal(f"{a1}:{got['nonce']}:{got['nc']}:{got['cnonce']}:auth:{a2}")
        used = self.nonces[got["nonce"]]
        fresh = got["nc"] not in used
        used.add(got["nc"])
        assert fresh, "a count is used once"
        return (got["username"], got["response"]) == (USER, right)

    async def socks_login(self, methods: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """As RFC 1929."""
        if 2 not in methods:
            writer.write(b"\x05\xff")
            self.asked += 1
            return False
        writer.write(b"\x05\x02")
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        password = await reader.readexactly((await reader.readexactly(1))[0])
        right = (user.decode(), password.decode()) == (USER, self.password)
        writer.write(b"\x01\x00" if right else b"\x01\x01")
        return right
