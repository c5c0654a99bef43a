"""etcd asked by a client in C: h2load, nghttp2's load generator, when it is installed (Debian: nghttp2-client).

A gRPC call is an HTTP/2 POST, so h2load sends etcd's Put unchanged. The figures show what etcd does without the cost of
a Python client. h2load sends the same key and value each time, which changes nothing for etcd: each put is a revision.
"""

import asyncio
import os
import shutil
import subprocess

from integration.bench.systems import etcd, etcd_messages
from integration.bench.systems.etcd import EtcdCluster
from integration.bench.systems.node_cluster import factory
from integration.bench.systems.system import BenchError, System, not_installed
from integration.bench.workloads import CONCURRENT, PATIENCE, VALUE_BYTES, Sample
from integration.harness.processes import said_within


def check() -> None:
    """Raise BenchError with the command to run when etcd or h2load is missing."""
    etcd.check()
    if shutil.which("h2load") is None:
        raise not_installed("h2load", "nghttp2-client")


def version() -> str:
    """Return h2load's name and version."""
    answer = subprocess.run(["h2load", "--version"], capture_output=True, text=True, check=True, timeout=10)
    return answer.stdout.strip()


def parse_log(text: str) -> list[float]:
    """Return the latencies in seconds from h2load's log: lines of start time, HTTP status, microseconds."""
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    return [int(micros) / 1e6 for _, status, micros in rows if status == "200"]


class H2loadCluster(EtcdCluster):
    """An etcd cluster that h2load loads."""

    async def load(self, batch: int, writers: int, *, warmup: float, seconds: float) -> Sample:
        """Put values of 1 KiB at the leader, by `writers` writers with a connection each; `batch` is 1."""
        assert batch == 1, "h2load sends one put in a request"
        leader = await self.leader()
        witness = await self.connect(leader)
        before = await witness.post([b"before"])
        body, log = self.directory / "put.bin", self.directory / "h2load.log"
        request = etcd_messages.put_request(b"bench/h2load", os.urandom(VALUE_BYTES))
        body.write_bytes(etcd_messages.grpc_frame(request))
        log.unlink(missing_ok=True)  # h2load appends
        process = await asyncio.create_subprocess_exec(
            *("h2load", f"--clients={writers}", "--max-concurrent-streams=1", f"--data={body}"),
            *(f"--duration={seconds * 1000:.0f}ms", f"--warm-up-time={warmup * 1000:.0f}ms", f"--log-file={log}"),
            *("--header=content-type: application/grpc", "--header=te: trailers"),
            f"http://{self.address(leader)}{etcd_messages.PUT}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, errors = await said_within(process, warmup + seconds + PATIENCE)
        except TimeoutError:
            raise BenchError(
                f"h2load did not end within {warmup + seconds + PATIENCE:.0f} s. Is the machine overloaded?"
            ) from None
        latencies = parse_log(log.read_text()) if log.exists() else []
        if process.returncode or not latencies:
            raise BenchError(f"h2load measured nothing: {errors.decode(errors='replace').strip() or 'no reason given'}")
        # A call that gRPC refuses has HTTP status 200, too: only the store itself tells that all calls were puts.
        if await witness.post([b"after"]) - before <= len(latencies):
            raise BenchError("etcd stored fewer values than h2load counted: its requests were refused.")
        return Sample(seconds, len(latencies), latencies)


ETCD_C_CLIENT = System(
    name="etcd-c",
    title="etcd (C client)",
    bulk_writers=1,
    check=check,
    version=version,
    cluster=factory(H2loadCluster),
    workloads=(CONCURRENT,),
    has_measures=False,
)
