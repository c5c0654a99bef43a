"""The API's OpenAPI document, against the handlers, and against the answers of a real node."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import pytest
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gf_i2p.admin.api import NEWCOMERS_PATH, Api, errors_as_json
from gf_i2p.admin.openapi import document
from gf_i2p.node.recovery.snapshot_copy import of_running
from gf_i2p.node.status.node_status import status
from gf_i2p.node.status.record_status import record
from tests.node.farm import NodeFarm

CHECKS: Final = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
schema = schemathesis.openapi.from_dict(document())


class ServedNode:
    """A farm of one server in a thread of its own, and its API on a port of loopback."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self.url = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with NodeFarm(self._directory, servers=1) as farm:
            node = await farm.leader()
            api = Api(
                node.driver,
                lambda: status(node, 0.0),
                partial(of_running, node),
                lacking=node.lacking,
                farm=lambda: node.removal_check.farm,
                events=node.farm_tasks.view.events.after,
                record=partial(record, node),
            )
            app = web.Application(middlewares=[errors_as_json])
            app.add_routes(api.remote_routes)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._end.wait()
            await runner.cleanup()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedNode]:
    with ServedNode(tmp_path_factory.mktemp("farm")) as served:
        yield served


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=False)
def test_a_real_node_answers_as_the_document_says(case: Any, node: ServedNode) -> None:
    for name in ("wait", "timeout"):  # no test waits for minutes
        value = case.query.get(name) if isinstance(case.query, dict) else None
        if isinstance(value, int | float) and value > 1:
            case.query[name] = 1
    response = case.call(base_url=node.url, timeout=60)
    assert response.status_code != 500, response.text
    case.validate_response(response, checks=CHECKS)


def test_the_document_has_each_request_and_no_other() -> None:
    class Driver:
        pass

    api = Api(Driver(), dict, None)  # type: ignore[arg-type]
    handled = {(route.method.lower(), route.path) for route in api.remote_routes}
    described = {(method, path) for path, methods in document()["paths"].items() for method in methods}
    assert described == handled
    assert ("post", NEWCOMERS_PATH) not in described, "a newcomer's request is not for other programs"
