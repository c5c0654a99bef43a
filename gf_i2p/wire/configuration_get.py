"""Asking a farm node for the Configuration: who belongs to the farm, and where each is reached.

    GET /GarlicFarm/CLUSTER/1/config  ------->
                                      <-------  200, application/octet-stream: the Configuration value; both close

The proposal leaves open how one finds the servers ("Issues"); this is our answer. A node without it says 404, and then
what was known before has to do. Limits: the value is `MAX_CONFIGURATION_BYTES` long at most, refused by its announced
length before a byte of it is read. It must have a Content-Length, which no router's proxy takes away: of an answer
that ends when the connection does, nobody could tell whether it is whole.

What the Configuration says may be older than what others know, and the newest entry of a log is not always committed:
who gets several takes the one with the greatest `log_index`.
"""

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import AnyResponse, ClientGet, HandshakeRefused, Resource, values_of
from gf_i2p.wire.limits import MAX_CONFIGURATION_BYTES
from gf_i2p.wire.log_values import Configuration


class ConfigurationGet(ClientGet[Configuration]):
    """The client's side of one connection. `receive` raises `NotFound` for a peer that does not tell."""

    resource = Resource.CONFIG
    success = 200
    _length: int
    _body: bytearray

    def _headers(self) -> list[tuple[str, str]]:
        return [("Connection", "close")]

    def _begin(self, response: AnyResponse) -> None:
        kinds = values_of(response, b"content-type")
        if any(kind.partition(";")[0].strip().lower() != "application/octet-stream" for kind in kinds):
            shown = "".join(letter for letter in kinds[0] if letter.isprintable())[:60]
            raise _unusable(f"is of the type {shown}")
        if values_of(response, b"transfer-encoding"):
            raise _unusable("comes in chunks, which no farm node sends")
        if any(coding.strip().lower() != "identity" for coding in values_of(response, b"content-encoding")):
            raise _unusable("is compressed")
        lengths = values_of(response, b"content-length")
        if not lengths:
            raise _unusable("does not say how long it is")
        # h11 has seen to it that there is one, of at most 20 digits.
        self._length = int(lengths[0])
        if self._length > MAX_CONFIGURATION_BYTES:
            raise _unusable(f"has {self._length} bytes, and {MAX_CONFIGURATION_BYTES} are the most")
        self._body = bytearray()

    def _take(self, data: bytes) -> Configuration | None:
        self._body += data[: self._length - len(self._body)]
        if len(self._body) < self._length:
            return None
        try:
            return Configuration.decode(bytes(self._body))
        except RemoteProtocolError as error:
            raise _unusable(f"is no Configuration ({error})") from error


def _unusable(what: str) -> HandshakeRefused:
    return HandshakeRefused(
        f"the answer 200 {what}: check that the endpoint is a farm node's, and what a proxy on the way does to answers"
    )
