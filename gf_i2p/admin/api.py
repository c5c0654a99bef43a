"""The administration API of one node: requests and answers, over whatever connection they come.

    GET  /v1/status                     the node's status, on any server
    GET  /v1/explain                    the choice of the publisher, with reasons (node/status/node_status.py)
    GET  /v1/record?server=N&samples=N  the newest record of a server or leaf member, and its numbers over the last day
    GET  /v1/openapi                    this API as an OpenAPI document (admin/openapi.py)
    GET  /v1/administration             the administrators' settings, and their effect (node/status/admin_status.py)
    POST /v1/entries?timeout=SECONDS    {"values": [TEXT, ...]} -> {"index": INDEX OF THE LAST}, when committed
    GET  /v1/entries?first=N&limit=N    committed entries from this index on; without `first` the newest;
                                        "newest" says whether nothing newer was committed: only the leader knows.
                                        `stale=0` refuses elsewhere; `stale=1` does not ask the others; `wait=SECONDS`
                                        waits until the first of them is committed, and answers with none when the time
                                        is over
    GET  /v1/events?after=N             events of the farm after event N, as sentences (farm/events.py); with another
                                        "began" than before, the node has restarted, and the numbers begin anew
    POST /v1/servers                    {"add": {"id": N, "endpoint": TEXT}} or {"remove": N}
                                        -> {"begun": true, "leader": LEADER THAT HAS BEGUN, "term": ITS TERM}
    POST /v1/stepdown                   {} -> {"leader": THE NEW LEADER, OR NULL}
    POST /v1/admission                  what a newcomer says of itself -> what it must know of the farm; for a newcomer
                                        only (node/membership/admission.py)
    POST /v1/reload                     {} -> the result, like "reload" of the status; same as SIGHUP
    GET  /v1/snapshot                   the bytes that `gf-i2p snapshot save` keeps (storage/snapshot_file.py)
    GET  /readyz                        whether the farm takes posts through this node, as at `[monitoring] listen`

An application's entry that is valid UTF-8 has its text as "value"; any other entry has its bytes as "base64". An error
is {"error": SENTENCE, "outcome": "no" | "unknown"}, with a 4xx or 5xx status. With "leader": ID in an error, only that
server takes the request, and the asker must ask there: a server never speaks in an administrator's name.

The operator on the node's machine asks by a Unix socket (`local_interface`), and an administrator or a viewer from
another machine by the farm's port (`remote_interface`). `ASKER` is the key of that user in a request.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex
from typing import Any, Final

import structlog
from aiohttp import web

from gf_i2p.admin import openapi
from gf_i2p.admin.descriptions import Describe, Descriptions
from gf_i2p.admin.local_socket import (
    DEFAULT_TIMEOUT,
    LAST_SERVER,
    MAX_PAGE,
    MAX_PAGE_BYTES,
    MAX_POST_BYTES,
    MAX_REMOTE_PAGE_BYTES,
    MAX_TIMEOUT,
    MAX_WAIT,
    NO_LEADER,
)
from gf_i2p.admin.monitoring.health import HealthState, readiness
from gf_i2p.farm.admission import Admission
from gf_i2p.farm.events import Event
from gf_i2p.farm.record_series import MOST
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.node.access.roles import User, concerned
from gf_i2p.node.consensus.driver import Driver, NotLeaderError
from gf_i2p.node.membership.admission import AdmissionRefusedError
from gf_i2p.raft.log import size_of
from gf_i2p.storage.errors import StorageError
from gf_i2p.storage.snapshot_file import SavedSnapshot
from gf_i2p.wire.entries import Entry, ValueType
from gf_i2p.wire.errors import LocalProtocolError, NotCommittedError, OutcomeUnknownError
from gf_i2p.wire.limits import MAX_ENTRIES, MAX_ID, MAX_INTEGER, MAX_VALUE_BYTES
from gf_i2p.wire.log_values import ClusterServer, encode_server_id
from gf_i2p.wire.messages import NOBODY, MessageType, Request, Response

logger = structlog.get_logger()

CHANGE_SECONDS: Final = 30.0
"""Most seconds to wait for the leader's answer to a change of the servers, or for a new leader after a step-down."""
STEP_POLL_SECONDS: Final = 0.05
"""Seconds between two looks for the new leader after a step-down."""
BARRIER_SECONDS: Final = 5.0
"""Most seconds in which a leader may see that a majority follows it, before it answers with what it knows."""
SNAPSHOT_SECONDS: Final = 30.0
"""Most seconds to wait until the node has applied all committed entries and made the snapshot."""
DEFAULT_SAMPLES: Final = 300
"""Samples of a record's numbers in an answer, unless the asker wants another number."""
NEWCOMERS_PATH: Final = "/v1/admission"
ASKER: Final = "asker"
"""Key of the user who asks, in a request from another machine."""


async def _no_objection(_: User | None, __: Sequence[bytes]) -> str | None:
    return None


class Api:
    """Answers the requests to one node through these callbacks.

    `status` describes the node. `snapshot` makes a snapshot of all committed entries, or returns None when no entry is
    committed. `lacking` returns why the node's files do not let the node speak with a joining server, or None when the
    files do. `farm` returns the members when this server was removed from the farm, otherwise None. `objection` returns
    why a user, or the operator of this server, may not post these values; None: the user may. `administration` returns
    the administrators' settings and their effect. `explain` returns the choice of the publisher, with reasons. `reload`
    takes over changed files. `events` returns the farm's events after the event of this number. `admit` has the farm
    admit a newcomer, and returns what the newcomer must know. `record` describes the records of the server of this id,
    with at most this number of samples.
    """

    def __init__(
        self,
        driver: Driver,
        status: Callable[[], dict[str, Any]],
        snapshot: Callable[[], Awaitable[SavedSnapshot | None]],
        *,
        lacking: Callable[[ClusterServer], str | None] = lambda _: None,
        objection: Callable[[User | None, Sequence[bytes]], Awaitable[str | None]] = _no_objection,
        administration: Describe = dict,
        farm: Callable[[], Sequence[ClusterServer] | None] = lambda: None,
        explain: Describe = dict,
        reload: Callable[[], None] = lambda: None,
        events: Callable[[int], Sequence[Event]] = lambda _: (),
        admit: Callable[[Admission], Awaitable[dict[str, Any]]] | None = None,
        record: Callable[[int, int], dict[str, Any]] = lambda server, _: {"server": server},
    ) -> None:
        self._driver = driver
        self._status = status
        self._snapshot = snapshot
        self._lacking = lacking
        self._objection_to = objection
        self._administration = administration
        self._farm = farm
        self._explain = explain
        self._reload = reload
        self._events = events
        self._admit = admit
        self._record = record
        self._descriptions = Descriptions()
        self._began = token_hex(8)  # the numbers of events begin anew with each start of the node
        self.remote_routes = (
            web.get("/v1/status", self._get_status),
            web.get("/v1/explain", self._get_explanation),
            web.get("/v1/administration", self._get_administration),
            web.post("/v1/entries", self._post_entries),
            web.get("/v1/entries", self._get_entries),
            web.get("/v1/events", self._get_events),
            web.get("/v1/record", self._get_record),
            web.get("/v1/openapi", self._get_document),
            web.post("/v1/servers", self._post_servers),
            web.post("/v1/stepdown", self._post_stepdown),
        )
        """The questions and changes that come from other machines, too."""
        self.newcomer_route = web.post(NEWCOMERS_PATH, self._post_admission)
        """The only request of a newcomer."""
        self.local_routes = (
            *self.remote_routes,
            web.post("/v1/reload", self._post_reload),
            web.get("/v1/snapshot", self._get_snapshot),
            web.get("/readyz", self._get_readiness),
        )

    async def _get_status(self, _request: web.Request) -> web.Response:
        return await self._described(self._status)

    async def _get_readiness(self, _request: web.Request) -> web.Response:
        document = readiness([self._status()], {})
        return web.json_response(document, status=503 if document["state"] == HealthState.UNAVAILABLE else 200)

    async def _get_explanation(self, _request: web.Request) -> web.Response:
        return await self._described(self._explain)

    async def _get_administration(self, _request: web.Request) -> web.Response:
        return await self._described(self._administration)

    async def _described(self, describe: Describe) -> web.Response:
        return web.Response(text=await self._descriptions.text(describe), content_type="application/json")

    async def _get_record(self, request: web.Request) -> web.Response:
        server = _whole_number(request, "server", 0, MAX_ID - 1, least=0)
        return web.json_response(self._record(server, _whole_number(request, "samples", DEFAULT_SAMPLES, MOST)))

    async def _get_document(self, _request: web.Request) -> web.Response:
        return web.json_response(openapi.document())

    async def _get_events(self, request: web.Request) -> web.Response:
        after = _whole_number(request, "after", 0, MAX_INTEGER, least=0)
        return web.json_response({"events": [event.encode() for event in self._events(after)], "began": self._began})

    async def _post_entries(self, request: web.Request) -> web.Response:
        timeout = _number(request, "timeout", DEFAULT_TIMEOUT, 0.001, MAX_TIMEOUT)
        values = _values(await _json(request))
        asker = request.get(ASKER)
        if asker is not None and not self._driver.core.is_leader:
            return self._only_the_leader()
        if (why_not := await self._objection_to(asker, values)) is not None:
            return error_answer(403, f"nothing was posted: {why_not}", outcome="no")
        if (farm := self._farm()) is not None:
            # The leader might still accept the values, but the operator must learn of the removal.
            servers = ", ".join(f"{server.id} ({server.endpoint})" for server in farm)
            return error_answer(
                409,
                f"this server was removed from the farm and takes no more posts: post on one of the farm's servers, "
                f"{servers}, or anywhere with a client-NAME.toml",
                outcome="no",
            )
        try:
            index = await self._driver.post(values, seconds=timeout)
        except NotCommittedError as error:
            return error_answer(503, str(error), outcome="no")
        except OutcomeUnknownError as error:
            return error_answer(504, str(error), outcome="unknown")
        return web.json_response({"index": index})

    async def _get_entries(self, request: web.Request) -> web.Response:
        requested = _whole_number(request, "first", 1, MAX_INTEGER) if "first" in request.query else None
        limit = _whole_number(request, "limit", 100, MAX_PAGE)
        wait = _number(request, "wait", 0.0, 0.0, MAX_WAIT)
        if requested is not None and wait:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._driver.applied(requested)
        stale, newest = request.query.get("stale"), False
        last = self._driver.core.applicable
        if stale != "1":
            try:
                async with asyncio.timeout(None if stale == "0" else BARRIER_SECONDS):
                    last, newest = await self._driver.read_barrier(), True
            except NotCommittedError as error:
                if stale == "0":
                    is_elsewhere = isinstance(error, NotLeaderError)
                    leader = {"leader": self._driver.core.leader} if is_elsewhere else {}
                    return error_answer(409 if is_elsewhere else 503, str(error), outcome="no", **leader)
            except TimeoutError:
                pass  # a leader that hears no majority: this server's own entries are the answer
        base = self._driver.core.log.base
        first = max(base + 1, last - limit + 1) if requested is None else requested
        if first <= base:
            return error_answer(
                410,
                f"the log begins at {base + 1} (--first {base + 1}): older entries are in the snapshot, and in the "
                "history directory",
                outcome="no",
            )
        room = MAX_PAGE_BYTES if request.get(ASKER) is None else MAX_REMOTE_PAGE_BYTES
        page = [_entry_fields(index, entry) for index, entry in enumerate(self._slice(first, last, limit, room), first)]
        return web.json_response({"entries": page, "commit": last, "newest": newest})

    def _slice(self, first: int, last: int, limit: int, room: int) -> list[Entry]:
        """Return entries up to both limits, `limit` entries and `room` bytes, but one entry at least.

        The log gives the entries on the disk and those in memory apart.
        """
        found: list[Entry] = []
        while len(found) < limit and first + len(found) <= last:
            piece = self._driver.core.log.slice(
                first + len(found), last, max_entries=limit - len(found), max_bytes=max(room, 1)
            )
            size = sum(map(size_of, piece))
            if found and size > room:
                break
            found += piece
            room -= size
        return found

    async def _get_snapshot(self, _request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(SNAPSHOT_SECONDS):
                saved = await self._snapshot()
        except TimeoutError:
            return error_answer(
                503, "the node has not applied all committed entries yet: try again in a moment", outcome="no"
            )
        if saved is None:
            return error_answer(
                503,
                "nothing is known to be committed yet: wait for a leader, or stop this node and save again",
                outcome="no",
            )
        # The checksum of a large snapshot takes longer than a heartbeat.
        return web.Response(body=await asyncio.to_thread(saved.encode), content_type="application/octet-stream")

    # Servers --------------------------------------------------------------------------------------------------------

    async def _post_servers(self, request: web.Request) -> web.Response:
        core = self._driver.core
        change = _change(await _json(request), core.id)
        if not core.is_leader and (request.get(ASKER) is not None or concerned(change) != core.id):
            return self._only_the_leader()
        if core.leader == NOBODY:
            return error_answer(503, NO_LEADER, outcome="no")
        if core.is_leader and (why_not := self._objection(change)) is not None:
            return error_answer(409, why_not, outcome="no")
        response = await self._driver.change_servers(change, seconds=CHANGE_SECONDS)
        if response is None:
            return error_answer(
                504,
                "no leader has answered: `gf-i2p members list` shows in a moment whether the change has begun",
                outcome="unknown",
            )
        if not response.accepted:
            return self._refused(change, response)
        return web.json_response({"begun": True, "leader": response.source, "term": response.term})

    def _objection(self, change: Request) -> str | None:
        """Return why a leader with this server's Configuration would refuse the change; None: no reason is known.

        When this server leads, the reason may also lie in this server's files, or in a change that is under way.
        """
        core, server_id = self._driver.core, concerned(change)
        assert server_id is not None  # `_change` has put an id into the request
        members = {server.id: server.endpoint for server in core.configuration.servers}
        if change.type is MessageType.ADD_SERVER_REQUEST:
            server = ClusterServer.decode(change.entries[0].value)
            endpoint = server.endpoint
            if members.get(server_id) == endpoint:
                return None  # the server is a member already: nothing needs to change
            if server_id in members:
                return (
                    f"the farm has a server {server_id} already, at {members[server_id]}: give another id. A server "
                    "that moves is removed first, and invited with a new id"
                )
            holder = next((member for member, other in members.items() if other == endpoint), None)
            if holder is not None:
                return f"{endpoint} is the endpoint of server {holder}: give the endpoint that server {server_id} has"
            if core.is_leader and (lacking := self._lacking(server)) is not None:
                return f"nothing was begun: {lacking}"
        elif server_id not in members:
            return f"the farm has no server {server_id}: its servers are {sorted(members)}"
        elif len(members) == 1:
            return LAST_SERVER
        if core.is_leader and core.change_obstacle is not None:
            return f"no change can begin now: {core.change_obstacle}"
        return None

    def _refused(self, change: Request, response: Response) -> web.Response:
        if response.destination == NOBODY:
            return error_answer(503, NO_LEADER, outcome="no")
        if response.destination != response.source:
            sentence = f"server {response.destination} leads now: try again there, or here in a moment"
            return error_answer(409, sentence, outcome="no")
        busy = (
            f"server {response.source}, the leader, refuses: another change is under way there, or is not "
            "committed yet. Try again in a moment; `gf-i2p members list` on that server shows more"
        )
        return error_answer(409, self._objection(change) or busy, outcome="no")

    def _only_the_leader(self) -> web.Response:
        """Answer that only the leader takes the request, which this server is not."""
        leader = self._driver.core.leader
        if leader == NOBODY:
            return error_answer(503, NO_LEADER, outcome="no")
        sentence = (
            f"only the leader takes this request, and server {leader} leads: run the command there, or on any machine "
            "with an admin-NAME.toml"
        )
        return error_answer(409, sentence, outcome="no", leader=leader)

    async def _post_stepdown(self, _request: web.Request) -> web.Response:
        core = self._driver.core
        if not core.is_leader:
            return self._only_the_leader()
        self._driver.step_down()
        end = asyncio.get_running_loop().time() + CHANGE_SECONDS
        while core.leader == NOBODY and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 -- no event says so
            await asyncio.sleep(STEP_POLL_SECONDS)
        return web.json_response({"leader": None if core.leader == NOBODY else core.leader})

    async def _post_admission(self, request: web.Request) -> web.Response:
        asker, body = request.get(ASKER), await _json(request)
        if self._admit is None or asker is None or asker.ticket is None or not isinstance(body, dict):
            raise web.HTTPNotFound
        try:
            return web.json_response(await self._admit(Admission.of_own_fields(asker.ticket, body)))
        except RecordError as error:
            raise _bad_request(str(error)) from error
        except AdmissionRefusedError as error:
            return error_answer(409, f"not admitted: {error}", outcome="no")
        except NotCommittedError as error:
            return error_answer(503, str(error), outcome="no")
        except OutcomeUnknownError as error:
            return error_answer(504, str(error), outcome="unknown")

    async def _post_reload(self, _request: web.Request) -> web.Response:
        self._reload()
        return web.json_response(self._status()["reload"])


def _change(body: Any, source: int) -> Request:
    """Make the request for a change of the servers. Raises `web.HTTPBadRequest`."""
    add, remove = (body.get("add"), body.get("remove")) if isinstance(body, dict) else (None, None)
    try:
        if isinstance(add, dict) and type(add.get("id")) is int and isinstance(add.get("endpoint"), str):
            value, kind = ClusterServer(add["id"], add["endpoint"]).encode(), MessageType.ADD_SERVER_REQUEST
        elif type(remove) is int:
            value, kind = encode_server_id(remove), MessageType.REMOVE_SERVER_REQUEST
        else:
            raise _bad_request('expected {"add": {"id": NUMBER, "endpoint": TEXT}} or {"remove": NUMBER}')
    except LocalProtocolError as error:
        raise _bad_request(str(error)) from error
    return Request(kind, source, NOBODY, 0, 0, 0, 0, (Entry(0, ValueType.CLUSTER_SERVER, value),))


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except (ValueError, LookupError, RecursionError) as error:  # no JSON, no such charset, too deep
        raise _bad_request(f"the body is not JSON: {error}") from error


def _number(request: web.Request, name: str, default: float, low: float, high: float) -> float:
    text = request.query.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise _bad_request(f"{name} must be a number from {low:g} to {high:g}")
    return value


def _whole_number(request: web.Request, name: str, default: int, high: int, *, least: int = 1) -> int:
    text = request.query.get(name, str(default))
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(high)) else -1
    if not least <= value <= high:
        raise _bad_request(f"{name} must be a whole number from {least} to {high}")
    return value


def _values(body: Any) -> list[bytes]:
    if not isinstance(body, dict) or not isinstance(values := body.get("values"), list):
        raise _bad_request('expected {"values": [TEXT, ...]}')
    if not values or len(values) > MAX_ENTRIES or not all(isinstance(value, str) for value in values):
        raise _bad_request(
            f"{len(values)} values were given; one post takes 1 to {MAX_ENTRIES}, each a text: post in pieces"
        )
    encoded = [_encoded(number, value) for number, value in enumerate(values, 1)]
    if max(map(len, encoded)) > MAX_VALUE_BYTES or sum(map(len, encoded)) > MAX_POST_BYTES:
        raise _bad_request(
            f"a value may have {MAX_VALUE_BYTES} bytes (the largest has {max(map(len, encoded))}), and all of one post "
            f"{MAX_POST_BYTES} (these have {sum(map(len, encoded))}): post in pieces"
        )
    return encoded


def _encoded(number: int, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad_request(f"value {number} cannot be encoded as UTF-8 ({error.reason})") from error


def _entry_fields(index: int, entry: Entry) -> dict[str, Any]:
    fields = {"index": index, "term": entry.term, "type": entry.value_type.name.lower()}
    if entry.value_type is ValueType.APPLICATION:
        with contextlib.suppress(UnicodeDecodeError):
            return {**fields, "value": entry.value.decode("utf-8")}
    return {**fields, "base64": base64.b64encode(entry.value).decode("ascii")}


def error_answer(status: int, sentence: str, *, outcome: str, leader: int | None = None) -> web.Response:
    """Make the answer for an error. `outcome`: "no" or "unknown". `leader`: the only server that takes the request."""
    named = {} if leader is None else {"leader": leader}
    return web.json_response({"error": sentence, "outcome": outcome, **named}, status=status)


def _bad_request(sentence: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=sentence)


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn each error into the API's answer for an error."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return error_answer(error.status, error.text or error.reason, outcome="no")
    except StorageError as error:
        return error_answer(500, str(error), outcome="no")
    except Exception:
        logger.exception("a request to the administration API failed", method=request.method, path=request.path)
        return error_answer(500, "a defect of this program; the node's log shows the place", outcome="unknown")
