"""A server that sends back all bytes, by TLS: `python -m integration.bench.tls_echo CERTIFICATE KEY PORT`."""

import asyncio
import ssl
import sys
from typing import cast

from gf_i2p.transport.event_loop import loop_factory
from gf_i2p.transport.stream_protocol import StreamProtocol


class Echo(StreamProtocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is no subclass

    def data_received(self, data: bytes) -> None:
        """Send the bytes back."""
        self._transport.write(data)


async def serve(certificate: str, key: str, port: int) -> None:
    """Serve for ever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
