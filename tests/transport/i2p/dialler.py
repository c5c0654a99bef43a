"""A child that has a link into I2P dial: `python -m tests.transport.i2p.dialler WAY PROXY_PORT LOOP HOST PORT`.

The child prints "up", or the reason why the link did not come up.
"""

import asyncio
import sys

from gf_i2p.transport.i2p.i2p_transport import I2pTransport, ProxyMethod, ProxySettings
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.wire.digest import Credentials
from gf_i2p.wire.endpoint import Endpoint
from tests.loops import LOOPS
from tests.transport.harness import CLUSTER, PASSWORD, PATIENCE, USER


async def main(way: str, proxy_port: str, host: str, port: str) -> None:
    over = asyncio.Event()
    link = PeerLink(
        I2pTransport(ProxySettings("127.0.0.1", int(proxy_port), ProxyMethod(way))),
        Endpoint(host, int(port)),
        CLUSTER,
        Credentials(USER, PASSWORD),
        on_up=over.set,
        on_down=over.set,
        request_seconds=PATIENCE,
    )
    link.start()
    await over.wait()
    print("up" if link.connected else link.last_error, flush=True)
    await link.stop()


if __name__ == "__main__":
    way, proxy_port, loop, host, port = sys.argv[1:]
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main(way, proxy_port, host, port))
