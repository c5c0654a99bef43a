"""The request for a farm's Configuration: the members of the farm, and their endpoints.

    GET /GarlicFarm/CLUSTER/1/config  ------->
                                      <-------  200, application/octet-stream: the Configuration value; both close

The proposal leaves open how a client finds the servers ("Issues"); this project adds this request. A node without the
resource answers 404, and the client keeps the servers that it knows. The value is at most `MAX_CONFIGURATION_BYTES`
long; the client refuses a longer announced length before it reads the value. The answer must have a Content-Length,
which no router's proxy removes. Without the length, a client could not tell a whole answer from a cut one.

The Configuration may be older than another server's, and the newest entry of a log is not always committed. A client
with several answers takes the one with the greatest `log_index`.
"""

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import AnyResponse, ClientGet, HandshakeRefused, Resource, values_of
from gf_i2p.wire.limits import MAX_CONFIGURATION_BYTES
from gf_i2p.wire.log_values import Configuration


class ConfigurationGet(ClientGet[Configuration]):
    """The client's side of one such request. `receive` raises `NotFound` for a peer that serves no Configuration."""

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
            raise _unusable("has no Content-Length")
        # h11 has reduced Content-Length to one number of at most 20 digits.
        self._length = int(lengths[0])
        if self._length > MAX_CONFIGURATION_BYTES:
            raise _unusable(f"has {self._length} bytes; the limit is {MAX_CONFIGURATION_BYTES}")
        self._body = bytearray()

    def _take(self, data: bytes) -> Configuration | None:
        self._body += data[: self._length - len(self._body)]
        if len(self._body) < self._length:
            return None
        try:
            return Configuration.decode(bytes(self._body))
        except RemoteProtocolError as error:
            raise _unusable(f"is not a Configuration ({error})") from error


def _unusable(fault: str) -> HandshakeRefused:
    return HandshakeRefused(
        f"the answer 200 {fault}: check that the endpoint is a farm node's, and how proxies on the way change answers"
    )
