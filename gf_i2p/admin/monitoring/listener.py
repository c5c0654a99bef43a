"""The monitoring interface: three pages without a login, on an address that only the operator's machines reach.

    GET /healthz    200 while all nodes of this process run, else 503: then a restart may help
    GET /readyz     200 when the farm takes posts through each node of this process, else 503
    GET /metrics    the figures, in Prometheus' text format

The answers of /healthz and /readyz are JSON: {"state": WORST STATE, "nodes": [{"cluster", "id", "state", "reasons"}],
"stopped": {DIRECTORY: REASON}}.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any

import structlog
from aiohttp import web

from gf_i2p.admin.monitoring.health import HealthState, readiness
from gf_i2p.admin.monitoring.loop_lag import measure_lag
from gf_i2p.admin.monitoring.metrics import CONTENT_TYPE, Metrics, NodeFigures
from gf_i2p.admin.quiet_answers import SILENT, without_banner
from gf_i2p.storage.durations import Durations

logger = structlog.get_logger()

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Monitoring:
    """Serves the monitoring pages of one process."""

    def __init__(
        self,
        address: tuple[str, int],
        nodes: Callable[[], Iterable[NodeFigures]],
        stopped: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Serve nothing yet.

        Args:
            address: IP address and port to listen on.
            nodes: returns the figures of the nodes that run now.
            stopped: returns the nodes that have stopped by themselves, by directory, each with the reason.
        """
        self._address = address
        self._nodes = nodes
        self._stopped = stopped
        self._lag = Durations()
        self._metrics = Metrics(nodes, self._lag)
        app = web.Application(middlewares=[_known_hosts, _defects_in_our_log])
        app.on_response_prepare.append(without_banner)
        app.add_routes(
            [
                web.get("/healthz", self._get_health),
                web.get("/readyz", self._get_readiness),
                web.get("/metrics", self._get_metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, logger=SILENT, shutdown_timeout=1.0)
        self._measuring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises `OSError`."""
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address).start()
        self._measuring = asyncio.get_running_loop().create_task(measure_lag(self._lag), name="the event loop's lag")

    async def stop(self) -> None:
        """Close."""
        await self._runner.cleanup()
        if self._measuring is not None:
            self._measuring.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._measuring

    async def _get_health(self, _: web.Request) -> web.Response:
        document = self._document()
        return web.json_response(document, status=503 if document["stopped"] else 200)

    async def _get_readiness(self, _: web.Request) -> web.Response:
        document = self._document()
        return web.json_response(document, status=503 if document["state"] == HealthState.UNAVAILABLE else 200)

    async def _get_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    def _document(self) -> dict[str, Any]:
        return readiness((node.status for node in self._nodes()), self._stopped())


@web.middleware
async def _known_hosts(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse names of other hosts: a web page on the operator's machine could else read the answers by DNS rebinding.

    Known are IP addresses, "localhost", and names without a dot, which a network of containers gives.
    """
    host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        if "." in host:
            return web.Response(status=404)
    return await handler(request)


@web.middleware
async def _defects_in_our_log(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Log a defect of a page by this program's logger, because aiohttp's own is silent here."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception:
        logger.exception("a defect: a monitoring page failed", path=request.path)
        return web.Response(status=500)
