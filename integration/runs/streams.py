"""Streams of many clients through the code that serves the master's address, on loopback and without a router.

    python -m integration.runs.streams [--seconds 60] [--rate 50]

Clients, forwarder and web server share this process, and packets need no time on their way. So the CPU time is that of
all three. The exit code is 0 when every honest request was answered, else 1.
"""

import argparse
import asyncio
import logging
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from bridges.streaming.envelope import pack_packet, unpack
from bridges.streaming.packet import Packet
from bridges.streaming.stream import StreamPeer
from bridges.streaming.tcp_forward import Forwarder
from gf_i2p.netdb.private_keys import DestinationKeys
from tests.bridges.streaming.streaming_client import Client, first_packet
from tests.netdb.strategies import KEYS

_REQUEST: Final = b"GET /%d HTTP/1.1\r\nHost: farm.i2p\r\n\r\n"
_PATIENCE: Final = 30.0
"""Seconds after which a request counts as refused."""
_SMALL, _PAGE = 2_000, 200_000


class Loopback:
    """A forwarder with a web server behind, and any number of clients before."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clients: dict[tuple[bytes, int], tuple[Client, asyncio.Event]] = {}
        self._number = 0
        self.forwarder = Forwarder(KEYS, target, self._to_client, http=True)

    async def get(self, keys: DestinationKeys, size: int) -> float | None:
        """Ask for a page of so many bytes. Return the seconds until the page was whole; None: it never came."""
        self._number += 1
        client, changed = Client(_REQUEST % size, keys, self._number), asyncio.Event()
        place = keys.destination.hash, client.number
        self._clients[place] = client, changed
        began = self._loop.time()
        client.start(began)
        try:
            async with asyncio.timeout(_PATIENCE):
                while not client.done and not client.reset:
                    self._flush(client)
                    changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1.0):
                            await changed.wait()
                    client.tick(self._loop.time())
        except TimeoutError:
            return None
        finally:
            self._flush(client)
            del self._clients[place]
        return self._loop.time() - began if len(client.received) >= size else None

    def knock(self, keys: DestinationKeys, payload: bytes = b"") -> None:
        """Send a first packet, and nothing more."""
        self._number += 1
        raw = first_packet(keys, self._number, payload).encode(keys.key.sign)
        self.forwarder.receive(pack_packet(raw, 0, 0))

    def _to_client(self, peer: StreamPeer, payload: bytes) -> None:
        self._loop.call_soon(self._deliver, peer.destination.hash, unpack(payload).payload)

    def _deliver(self, hash_: bytes, raw: bytes) -> None:
        found = self._clients.get((hash_, Packet.parse(raw).to))
        if found is not None:
            client, changed = found
            client.receive(raw, self._loop.time())
            self._flush(client)
            changed.set()

    def _flush(self, client: Client) -> None:
        outgoing, client.outgoing = client.outgoing, []
        for raw in outgoing:
            self.forwarder.receive(pack_packet(raw, 0, 0))


async def serve_pages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with as many bytes as its path says."""
    with suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.split()[1][1:])
        writer.write(b"HTTP/1.1 200 OK\r\nServer: web\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        await writer.drain()
    writer.close()


def _show(name: str, times: list[float | None], seconds: float, cpu: float) -> bool:
    answered = sorted(each for each in times if each is not None)
    figures = f"{len(answered)} of {len(times)} answered in {seconds:.1f} s, CPU {cpu:.1f} s"
    if answered:
        late = answered[int(len(answered) * 0.99)]
        figures += f"; median {statistics.median(answered) * 1000:.0f} ms, p99 {late * 1000:.0f} ms"
    print(f"{name:<52} {figures}", flush=True)
    return len(answered) == len(times)


async def _measured(name: str, requests: list[asyncio.Task[float | None]], began: float, cpu: float) -> bool:
    times = await asyncio.gather(*requests)
    return _show(name, list(times), time.monotonic() - began, time.process_time() - cpu)


async def _requests(line: Loopback, name: str, keys: list[DestinationKeys], size: int, rate: float | None) -> bool:
    """Ask with each of the keys in turn, so many times a second; None: with all at once."""
    began, cpu = time.monotonic(), time.process_time()
    requests = []
    for number, each in enumerate(keys):
        requests.append(asyncio.create_task(line.get(each, size)))
        if rate is not None:
            await asyncio.sleep(max(began + (number + 1) / rate - time.monotonic(), 0))
    return await _measured(name, requests, began, cpu)


async def _with_line(work: Callable[[Loopback], "asyncio.Future[bool] | object"]) -> bool:
    server = await asyncio.start_server(serve_pages, "127.0.0.1", 0)
    line = Loopback(server.sockets[0].getsockname()[:2])
    try:
        return bool(await work(line))  # type: ignore[misc]
    finally:
        await line.forwarder.close()
        server.close()


async def _flood(line: Loopback, payload: bytes, name: str) -> bool:
    """Have eight destinations send 512 first packets, and ask with ten honest ones."""
    for attacker in [DestinationKeys.generate() for _ in range(8)]:
        for _ in range(64):
            line.knock(attacker, payload)
    honest = [DestinationKeys.generate() for _ in range(10)]
    return await _requests(line, f"10 clients after 512 first packets {name}", honest, _SMALL, None)


async def _memory(line: Loopback, payload: bytes, name: str) -> bool:
    """Show the memory of a stream that a first packet opens."""
    attackers = [DestinationKeys.generate() for _ in range(8)]
    line.knock(attackers[0], payload)
    await asyncio.sleep(0.2)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for attacker in attackers:
        for _ in range(32):
            line.knock(attacker, payload)
    await asyncio.sleep(0.5)
    each = (tracemalloc.get_traced_memory()[0] - before) / 256
    tracemalloc.stop()
    print(f"{'memory of a stream after a first packet ' + name:<52} {each:.0f} bytes", flush=True)
    return True


async def _main(seconds: float, rate: float) -> bool:
    one = DestinationKeys.generate()
    many = [DestinationKeys.generate() for _ in range(100)]
    count = int(seconds * rate)
    partial = b"GET / HT"
    return all(
        [
            await _with_line(
                lambda line: _requests(line, f"1 destination, {rate:g} requests a second", [one] * count, _SMALL, rate)
            ),
            await _with_line(
                lambda line: _requests(line, "1 destination, 60 pages of 200 KB", [one] * 60, _PAGE, None)
            ),
            await _with_line(lambda line: _requests(line, "100 destinations at once, 200 KB", many, _PAGE, None)),
            await _with_line(lambda line: _flood(line, b"", "without data")),
            await _with_line(lambda line: _flood(line, partial, "with half a request")),
            await _with_line(lambda line: _memory(line, b"", "without data")),
            await _with_line(lambda line: _memory(line, partial, "with half a request")),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the steady load")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second of the steady load")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    sys.exit(0 if asyncio.run(_main(chosen.seconds, chosen.rate)) else 1)
