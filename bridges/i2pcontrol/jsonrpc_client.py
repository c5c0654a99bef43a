"""JSON-RPC 2 as in i2pcontrol: one HTTPS request for each call, a token for the password, and a certificate.

The two routers need the following (i2pcontrol, API 1; found by running i2pd 2.45.1 and Java 2.8.0):

- i2pd reads once, into 1024 bytes; so a request is small and leaves in one piece. i2pd prints invalid JSON when the
  first parameter is unknown; so the token is the last. i2pd echoes ids unquoted; so our id is a number, always the
  same one, since a connection carries one call.
- i2pd answers a wrong password with an empty result and does not check tokens (newer versions may). Java answers a
  wrong password with an error, and checks tokens.
- The router makes its own certificate. Its fingerprint is compared before anything is sent, unless the operator
  allows any certificate.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

import aiohttp

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.strict_json import Json, JsonError, clip, parse_object

CALL_SECONDS: Final = 20.0
"""Time for one call with connecting, a new token and a second try. A router answers in milliseconds."""
MAX_REQUEST_BYTES: Final = 1024
"""Most bytes of a request with its HTTP head: i2pd's buffer."""
MAX_REPLY_BYTES: Final = 64 * 1024
"""Most bytes of a reply without its HTTP head. i2pd's replies have under 1 KiB; Java's longest has about 10 KiB."""
MAX_TOKEN_CHARACTERS: Final = 128
"""Java's tokens have 44 characters, i2pd's ten."""

_HEAD_BYTES: Final = 160
"""Most bytes of a request's HTTP head, without host and path."""
_ID: Final = 1

_WRONG_PASSWORD: Final = -32001
_TOKEN_ERRORS: Final = frozenset({-32002, -32003, -32004})
"""No token, an unknown token, an expired token."""
_UNKNOWN_METHOD: Final = -32601

_HOW_TO_COMPARE: Final = (
    "Compare it with the router's own file. i2pd: openssl x509 -noout -fingerprint -sha256 -in i2pcontrol.crt.pem, in "
    "its data directory. Java: the same for its certificates/console/*.crt; its plugin I2PControl: "
    "keytool -list -keystore i2pcontrol.ks, in the plugin's directory"
)


class RpcError(RouterRefusedError):
    """The router answered with an error object."""

    def __init__(self, message: str, code: int | None) -> None:
        super().__init__(message)
        self.code = code


class UnknownMethodError(RpcError):
    """The router has no such method."""


class PasswordError(RouterRefusedError):
    """The router refuses the configured password."""


class CertificateError(RouterError):
    """The router's certificate does not have the configured fingerprint, or none is configured. Nothing was sent."""

    def __init__(self, message: str, fingerprint: str) -> None:
        super().__init__(message)
        self.fingerprint = fingerprint
        """Fingerprint of the certificate, as OpenSSL prints it: SHA-256 in hexadecimal, with colons."""


class JsonRpc:
    """Calls methods of one router, one by one. May be made before an event loop runs; all calls run in one loop."""

    def __init__(self, access: I2pControlAccess) -> None:
        self._access = access
        pin = access.pin()
        self._ssl: aiohttp.Fingerprint | bool = False if pin is None else aiohttp.Fingerprint(pin)
        self._session: aiohttp.ClientSession | None = None
        self._token: str | None = None
        self._lock = asyncio.Lock()

    def __str__(self) -> str:
        return f"i2pcontrol at {self._access.url}"

    async def call(
        self,
        method: str,
        params: Mapping[str, Json] | None = None,
        *,
        seconds: float = CALL_SECONDS,
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> dict[str, Json]:
        """Call a method; return its result, unchecked. The call gets and renews a token when needed.

        `max_bytes`: limit of the request with its HTTP head; above the default only for an endpoint that is no i2pd.
        Raises `RouterUnreachableError` when the router is away: call again later. Raises `CertificateError`,
        `PasswordError`, `UnknownMethodError`, `RpcError` or another `RouterError` when the router is there.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(seconds):
                    return await self._with_token(method, params or {}, max_bytes)
            except TimeoutError as error:
                raise RouterUnreachableError(f"{self} did not answer {method} within {seconds:g} s") from error

    async def close(self) -> None:
        """End all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # Tokens ---------------------------------------------------------------------------------------------------------

    async def _with_token(self, method: str, params: Mapping[str, Json], max_bytes: int) -> dict[str, Json]:
        if self._token is None:
            self._token = await self._authenticate()
        try:
            return await self._exchange(method, params, self._token, max_bytes)
        except RpcError as error:
            if error.code not in _TOKEN_ERRORS:
                raise
        # The token has expired, or the router was restarted. Try once more only: a router that refuses a fresh token
        # refuses every token.
        self._token = None
        self._token = await self._authenticate()
        return await self._exchange(method, params, self._token, max_bytes)

    async def _authenticate(self) -> str:
        try:
            result = await self._exchange("Authenticate", {"API": 1, "Password": self._access.password}, None)
        except RpcError as error:
            if error.code != _WRONG_PASSWORD:
                raise
            result = {}  # i2pd's answer to a wrong password
        token = result.get("Token")
        if token is None:
            raise PasswordError(
                f"{self} refuses the password: give the router's password (i2pd: [i2pcontrol] password; Java: set on "
                "i2pcontrol's page /password)"
            )
        if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN_CHARACTERS:
            raise RouterError(f"{self} gave no usable token: is it i2pcontrol?")
        return token

    # One request, one reply -----------------------------------------------------------------------------------------

    async def _exchange(
        self, method: str, params: Mapping[str, Json], token: str | None, max_bytes: int = MAX_REQUEST_BYTES
    ) -> dict[str, Json]:
        ordered = {name: value for name, value in params.items() if name != "Token"}
        if token is not None:
            ordered["Token"] = token
        request = {"id": _ID, "jsonrpc": "2.0", "method": method, "params": ordered}
        data = await self._post(method, json.dumps(request, separators=(",", ":")).encode(), max_bytes)
        if not data:
            raise RouterError(f"{self} answered {method} with nothing: Java does so to a request that it cannot read")
        try:
            reply = parse_object(data)
        except JsonError as error:
            raise RouterError(
                f"{self} answered {method} unreadably, because {error}: is it i2pcontrol? (i2pd prints "
                "invalid JSON when it does not know a parameter)"
            ) from error
        if reply.get("error") is not None:
            raise self._refusal(method, reply["error"])
        result = reply.get("result")
        if not isinstance(result, dict):
            raise RouterError(f"{self} answered {method} without a result: is it i2pcontrol?")
        return result

    def _refusal(self, method: str, error: Json) -> RpcError:
        code = error.get("code") if isinstance(error, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        text = f"{self} refused {method}: {clip(str(message))} (error {clip(str(code), 20)})"
        if code == _UNKNOWN_METHOD:
            return UnknownMethodError(f"{text}; the router has no such method", _UNKNOWN_METHOD)
        return RpcError(text, code if isinstance(code, int) else None)

    async def _post(self, method: str, body: bytes, max_bytes: int) -> bytes:
        if len(body) + len(self._access.url) + _HEAD_BYTES > max_bytes:
            raise RouterError(
                f"the request {method} has {len(body)} bytes: with its head more than the {max_bytes} that the router "
                "reads; ask for less at once"
            )
        if self._session is None:
            self._session = _session()
        try:
            async with self._session.post(
                self._access.url, data=body, ssl=self._ssl, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise RouterRefusedError(self._status_text(response.status))
                return await self._body(method, response.content)
        except aiohttp.ServerFingerprintMismatch as error:
            raise self._certificate_error(error.got) from error
        except aiohttp.ClientSSLError as error:
            raise RouterError(
                f"{self} does not speak the same TLS ({error}): check that the port is i2pcontrol's, and speaks HTTPS"
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise RouterUnreachableError(
                f"{self} does not answer ({error}): check that the router runs, and that i2pcontrol is on (i2pd: "
                "[i2pcontrol] enabled = true, with address and port; Java: the web application jsonrpc, or the plugin "
                "I2PControl)"
            ) from error
        except aiohttp.ClientResponseError as error:
            raise RouterError(f"{self} answered {method} without HTTP: is it i2pcontrol?") from error
        except (aiohttp.ClientError, OSError) as error:
            raise RouterUnreachableError(f"{self} hung up at {method}: it may be starting or stopping") from error

    async def _body(self, method: str, stream: aiohttp.StreamReader) -> bytes:
        body = b""
        async for piece in stream.iter_any():
            body += piece
            if len(body) > MAX_REPLY_BYTES:
                raise RouterError(f"{self} answered {method} with more than {MAX_REPLY_BYTES} bytes: is it i2pcontrol?")
        return body

    def _status_text(self, status: int) -> str:
        if status == 403:
            return (
                f"{self} refuses the host name in its address: use an IP address, or have Java allow the name "
                "(i2pcontrol.allowedhosts in I2PControl.conf)"
            )
        return (
            f"{self} answered with HTTP status {status}: check the path (Java's console has /jsonrpc/, with the slash "
            "at the end, and only while its web application jsonrpc runs)"
        )

    def _certificate_error(self, digest: bytes) -> CertificateError:
        fingerprint = digest.hex(":").upper()
        if self._access.fingerprint is None:
            certificate, advice = (
                "a certificate, and no fingerprint is configured",
                "If both are the same, configure this fingerprint.",
            )
        else:
            certificate = "another certificate than the configured one, and another program may have answered"
            advice = "Configure the new fingerprint only if the router has made itself a new certificate."
        text = f"{self} shows {certificate}; its SHA-256 fingerprint is {fingerprint}. {_HOW_TO_COMPARE}. {advice}"
        return CertificateError(f"{text} Nothing was sent.", fingerprint)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        # One call a connection, as i2pd wants it, with a head as short as possible.
        connector=aiohttp.TCPConnector(force_close=True, use_dns_cache=False),
        headers={"Content-Type": "application/json"},
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
        timeout=aiohttp.ClientTimeout(),  # `call` has the deadline
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )
