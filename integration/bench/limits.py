"""The limits of the machine, and the speed of our parts alone: what no farm on this machine can beat."""

import asyncio
import os
import ssl
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.transport.client.server_queries import fetch_configuration
from gf_i2p.transport.tls.certificates import make_certificate
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.messages import MessageType, Request, decode_request, encode_request
from integration.bench.pinger import Pinger
from integration.bench.workloads import PATIENCE, VALUE_BYTES
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import Processes, free_ports, listens

_SECONDS: Final = 2.0
_HANDSHAKES_AT_ONCE: Final = 8
_PAGE: Final = 4096
_ENTRIES: Final = 100


async def measure(directory: Path) -> dict[str, float]:
    """Return the figures by titles with their units. `directory`: on the disk where the nodes' data goes."""
    found = {"fsync of 4 KiB, ms": fsync_ms(directory)}
    encode, decode = _codec()
    found["AppendEntries of 100 entries encoded, MB/s"] = encode
    found["AppendEntries of 100 entries decoded, MB/s"] = decode
    found["TLS echo of 1 KiB, p50 in ms"] = await _tls_echo_ms(directory)
    found["new connections with TLS and login, 1/s"] = await _handshakes(directory)
    return found


def fsync_ms(directory: Path) -> float:
    """Return the median time in milliseconds to write 4 KiB and to sync the file."""
    times = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(500):
            began = time.perf_counter()
            file.write(bytes(_PAGE))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def _codec() -> tuple[float, float]:
    values = [os.urandom(VALUE_BYTES) for _ in range(_ENTRIES)]
    entries = tuple(Entry(1, ValueType.APPLICATION, value) for value in values)
    request = Request(MessageType.APPEND_ENTRIES_REQUEST, 1, 2, 1, 1, 1, 1, entries)
    data = encode_request(request)
    return _rate(lambda: encode_request(request), len(data)), _rate(lambda: decode_request(data), len(data))


def _rate(work: Callable[[], object], size: int) -> float:
    """Return MB/s of work on `size` bytes."""
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < _SECONDS / 2:
        work()
        count += 1
    return count * size / (time.perf_counter() - began) / 1e6


async def _tls_echo_ms(directory: Path) -> float:
    """Return the median round trip of 1 KiB to another Python process, with the nodes' event loop and buffers."""
    certificate, key = directory / "cert.pem", directory / "key.pem"
    for path, content in zip((certificate, key), make_certificate("echo"), strict=True):
        path.write_bytes(content)
    (port,) = free_ports(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certificate)
    with Processes() as processes:
        command = [sys.executable, "-m", "integration.bench.tls_echo", str(certificate), str(key), str(port)]
        processes.start("echo", command, directory / "echo.log")
        await until("the echo server", 20, partial(listens, "127.0.0.1", port))
        loop = asyncio.get_running_loop()
        transport, pinger = await loop.create_connection(
            lambda: Pinger(seconds=_SECONDS), "127.0.0.1", port, ssl=context
        )
        times = await asyncio.wait_for(pinger.done, PATIENCE)
        transport.abort()
    return statistics.median(times) * 1e3


async def _handshakes(directory: Path) -> float:
    """Return how many new connections a second one node takes; each asks for the Configuration."""
    with LocalFarm(directory / "farm") as farm:
        farm.start_all()
        leader = await farm.leader()
        file = ClientFile.load(farm.client_file)
        server = next(each for each in file.servers if each.id == leader)
        endpoint = Endpoint.parse(server.endpoint)
        transport = TlsTransport(TlsSettings(fingerprints={endpoint: [str(server.fingerprint)]}))
        count, began = 0, time.perf_counter()

        async def connect() -> None:
            nonlocal count
            credentials = file.login.at(leader)
            while time.perf_counter() - began < _SECONDS:
                await fetch_configuration(transport, endpoint, file.cluster, credentials)
                count += 1

        await asyncio.gather(*(connect() for _ in range(_HANDSHAKES_AT_ONCE)))
        return count / (time.perf_counter() - began)
