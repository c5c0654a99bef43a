"""The client of SAM, against the recorded lines of a real SAM."""

import asyncio
import contextlib
import os
import socket
import struct
import traceback
from collections.abc import Awaitable, Callable, Mapping

import pytest

from bridges.errors import RouterError, RouterRefusedError, RouterUnreachableError
from bridges.sam import client as sam_module
from bridges.sam.client import MAX_LINE_BYTES, Sam
from gf_i2p.netdb.destination import Destination
from tests.bridges.sam.scripted_sam import (
    ENDLESS,
    HANG_UP,
    KEYS,
    PEER,
    REPLIES,
    REQUESTS,
    SILENCE,
    Answer,
    Instead,
    same,
    scripted,
    soon_tired,
)
from tests.transport.harness import soon, until

OPTIONS = {"inbound.length": "0", "outbound.length": "0", "inbound.quantity": "1", "outbound.quantity": "1"}


async def generate(sam: Sam) -> None:
    await sam.generate()


async def look_up(sam: Sam) -> None:
    await sam.lookup(PEER)


async def make_session(sam: Sam) -> None:
    (await sam.session(KEYS)).close()


async def forward(sam: Sam) -> None:
    session = await sam.session(KEYS)
    try:
        await session.forward("127.0.0.1", 4150)
    finally:
        session.close()


async def connect(sam: Sam) -> None:
    session = await sam.session(KEYS)
    try:
        _, writer = await session.connect(PEER)
        writer.close()
    finally:
        session.close()


async def connect_socket(sam: Sam) -> None:
    session = await sam.session(KEYS)
    try:
        (await session.connect_socket(PEER)).close()
    finally:
        session.close()


Call = Callable[[Sam], Awaitable[None]]
STEPS: Mapping[str, Call] = {
    "HELLO VERSION": generate,
    "DEST GENERATE": generate,
    "NAMING LOOKUP": look_up,
    "SESSION CREATE": make_session,
    "STREAM FORWARD": forward,
    "STREAM CONNECT": connect,
}
every_step = pytest.mark.parametrize("verb", STEPS)


async def failing(verb: str, answer: Answer, call: Call | None = None) -> RouterError:
    """Give the error of the call that sends this request and gets this answer."""
    async with scripted(**{verb: answer}) as there:
        with pytest.raises(RouterError) as caught:
            await soon((call or STEPS[verb])(there.sam))
        assert there.connections
        assert f"SAM at 127.0.0.1:{there.sam.port}" in str(caught.value) or "the router's SAM" in str(caught.value)
    return caught.value


# --- Calls that work --------------------------------------------------------------------------------------


async def test_it_says_what_i2pd_was_seen_to_understand() -> None:
    async with scripted() as there:
        await there.sam.generate()
        for name in ("ME", "a" * 52 + ".b32.i2p", "nobody.i2p"):
            await there.sam.lookup(name)
        session = await there.sam.session(KEYS, OPTIONS)
        await session.forward("127.0.0.1", 4150)
        _, writer = await session.connect("a" * 52 + ".b32.i2p")
        writer.close()
        session.close()
    names = ["generate", "lookup", "lookup of nobody", "lookup of a name", "session", "forward", "connect to nobody"]
    assert [same(line) for line in there.heard] == [same(REQUESTS[name]) for name in names]
    assert {connection.heard[0] for connection in there.connections} == {REQUESTS["hello"]}
    (id_,) = {line.split(" ID=")[1].split()[0] for line in there.heard if " ID=" in line}
    assert len(id_) == 18


async def test_a_router_that_answers_passes_the_probe() -> None:
    async with scripted() as there:
        await there.sam.probe()
        assert there.heard == []


async def test_a_router_makes_keys() -> None:
    async with scripted() as there:
        keys = await there.sam.generate()
    assert REPLIES["generate"] == f"DEST REPLY PUB={keys.destination.base64} PRIV={keys.base64}\n".encode()


async def test_a_name_that_the_router_knows_has_a_destination() -> None:
    async with scripted() as there:
        found = await there.sam.lookup(PEER)
    assert found == Destination.from_base64(REPLIES["lookup"].split(b"VALUE=")[1].decode())


@pytest.mark.parametrize(
    "reply",
    [
        REPLIES["lookup of nobody"],
        b"NAMING REPLY RESULT=KEY_NOT_FOUND NAME=nobody.i2p\n",  # Java
        b"NAMING REPLY RESULT=LEASESET_NOT_FOUND NAME=nobody.i2p\n",  # API 0.9.66
    ],
)
async def test_a_name_that_nobody_knows_has_none(reply: bytes) -> None:
    async with scripted(NAMING_LOOKUP=reply) as there:
        assert await there.sam.lookup(PEER) is None


async def test_no_two_sessions_have_the_same_id() -> None:
    # A Java router that gets an id twice ends the session with that id.
    async with scripted() as there:
        for _ in range(20):
            (await there.sam.session(KEYS)).close()
    assert len({line.split()[3] for line in there.heard}) == 20


async def test_a_session_has_the_options_that_it_is_given() -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS, {"i2cp.leaseSetEncType": "4", "inbound.nickname": "farm-1"})
        session.close()
    assert there.heard[0].split()[5:] == ["SIGNATURE_TYPE=7", "i2cp.leaseSetEncType=4", "inbound.nickname=farm-1"]
    assert session.destination == KEYS.destination


async def test_streams_are_asked_for_from_the_address_that_they_are_to_come_to() -> None:
    # i2pd connects to where the request came from, whatever HOST says.
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        await session.forward("127.0.0.2", 4151)
        assert there.connection("STREAM FORWARD").address == "127.0.0.2"
        assert " PORT=4151 HOST=127.0.0.2 SILENT=false" in there.heard[-1]
        assert there.connection("SESSION CREATE").address == "127.0.0.1"
        session.close()


async def test_a_stream_is_what_follows_the_answer() -> None:
    async with scripted(STREAM_CONNECT=REPLIES["forward"] + b"\nthe peer speaks first") as there:
        session = await there.sam.session(KEYS)
        reader, writer = await session.connect(KEYS.destination.base64)
        assert await soon(reader.readexactly(22)) == b"\nthe peer speaks first"
        there.connection("STREAM CONNECT").writer.write(b"x" * 100_000)
        assert await soon(reader.readexactly(100_000)) == b"x" * 100_000
        session.close()
        # The router ends the stream with the session.
        there.connection("STREAM CONNECT").writer.close()
        assert await soon(reader.read()) == b""
        writer.close()


async def test_a_streams_socket_has_all_of_the_stream_still_to_be_read() -> None:
    async with scripted(STREAM_CONNECT=REPLIES["forward"] + b"\nthe peer speaks first") as there:
        session = await there.sam.session(KEYS)
        sock = await session.connect_socket(PEER)
        assert not sock.getblocking()
        reader, writer = await asyncio.open_connection(sock=sock)
        assert await soon(reader.readexactly(22)) == b"\nthe peer speaks first"
        writer.close()
        session.close()


# --- Refusals of the router -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "reply", "expected"),
    [
        ("HELLO VERSION", "another version", "said NOVERSION to HELLO VERSION: the router speaks no SAM 3.1"),
        ("SESSION CREATE", "id that is taken", "said DUPLICATED_ID to SESSION CREATE"),
        ("SESSION CREATE", "id with a mark", "said INVALID_ID to SESSION CREATE"),
        ("SESSION CREATE", "key that is none", "said INVALID_KEY to SESSION CREATE: check the keys"),
        ("SESSION CREATE", "style that is none", "said I2P_ERROR (Unknown STYLE) to SESSION CREATE"),
        ("STREAM FORWARD", "forward without session", "said INVALID_ID to STREAM FORWARD: the session has ended"),
        ("STREAM FORWARD", "forward twice", "said I2P_ERROR (Already accepting) to STREAM FORWARD"),
        ("STREAM CONNECT", "connect without session", "said INVALID_ID to STREAM CONNECT: the session has ended"),
        ("STREAM CONNECT", "connect to nobody", "said CANT_REACH_PEER to STREAM CONNECT: check the address"),
        ("STREAM CONNECT", "connect to rubbish", "said INVALID_KEY to STREAM CONNECT: check the keys or the address"),
    ],
)
async def test_a_refusal_of_i2pd_is_told_in_its_words(verb: str, reply: str, expected: str) -> None:
    error = await failing(verb, REPLIES[reply])
    assert isinstance(error, RouterRefusedError)
    assert expected in str(error)


@pytest.mark.parametrize(
    ("verb", "reply", "expected"),
    [
        ("HELLO VERSION", b"HELLO REPLY RESULT=I2P_ERROR MESSAGE=starting\n", "said I2P_ERROR (starting) to HELLO"),
        ("DEST GENERATE", b'DEST REPLY RESULT=I2P_ERROR MESSAGE="no such type"\n', "said I2P_ERROR (no such type)"),
        ("NAMING LOOKUP", b'NAMING REPLY RESULT=I2P_ERROR NAME=x MESSAGE="wait"\n', "(wait) to NAMING LOOKUP"),
        ("NAMING LOOKUP", b"NAMING REPLY NAME=x VALUE=AAAA\n", "said nothing to NAMING LOOKUP"),
        (
            "SESSION CREATE",
            b"SESSION STATUS RESULT=DUPLICATED_DEST\n",
            "no other node or tunnel may have the same keys",
        ),
        ("STREAM CONNECT", b'STREAM STATUS RESULT=CANT_REACH_PEER MESSAGE="Meta lease set"\n', "(Meta lease set) to"),
        ("STREAM CONNECT", b"STREAM STATUS RESULT=TIMEOUT\n", "router is up and has tunnels"),
        ("STREAM CONNECT", b"STREAM STATUS RESULT=CONNECTION_REFUSED\n", "check that the peer's node runs"),
        ("STREAM CONNECT", b"STREAM STATUS RESULT=\x1b[31mRED MESSAGE=\x07\n", "said [31mRED to STREAM CONNECT"),
        ("STREAM CONNECT", b"STREAM STATUS RESULT\n", "said True to STREAM CONNECT"),
    ],
)
async def test_refusals_of_other_routers_are_told_too(verb: str, reply: bytes, expected: str) -> None:
    error = await failing(verb, reply)
    assert isinstance(error, RouterRefusedError)
    assert expected in str(error)


ANSWERS: list[tuple[str, Answer]] = [
    ("HELLO VERSION", REPLIES["another version"]),
    ("HELLO VERSION", HANG_UP),
    ("STREAM CONNECT", REPLIES["connect to nobody"]),
    ("STREAM CONNECT", b'SESSION STATUS RESULT=I2P_ERROR MESSAGE="wait \x1b[31m please"\n'),
    ("STREAM CONNECT", b"STREAM STATUS RESULT=TIMEOUT\n"),
    ("STREAM CONNECT", b"NAMING REPLY RESULT=OK\n"),
    ("STREAM CONNECT", b"half an ans\n"),
    ("STREAM CONNECT", ENDLESS),
    ("STREAM CONNECT", HANG_UP),
]


@pytest.mark.parametrize(("verb", "answer"), ANSWERS)
async def test_who_asks_for_a_socket_is_told_the_same(verb: str, answer: Answer) -> None:
    said = []
    for call in (connect, connect_socket):
        async with scripted() as there:
            session = await there.sam.session(KEYS)
            there.answers[verb] = answer
            with pytest.raises(RouterError) as caught:
                await soon(session.connect(PEER) if call is connect else session.connect_socket(PEER))
            session.close()
        said.append((caught.type, str(caught.value).replace(str(there.sam.port), "PORT")))
    assert said[0] == said[1]
    assert verb in said[1][1]


# --- Answers that make no sense ---------------------------------------------------------------------------


@every_step
async def test_a_router_that_hangs_up_is_named_with_the_step(verb: str) -> None:
    error = await failing(verb, HANG_UP)
    assert isinstance(error, RouterUnreachableError)
    assert f"hung up at {verb}: it may be starting or stopping" in str(error)


@every_step
async def test_half_an_answer_is_none(verb: str) -> None:
    async with scripted(**{verb: b"HALF AN ANS"}) as there:
        call = asyncio.ensure_future(STEPS[verb](there.sam))
        await until(lambda: any(connection.verb == verb for connection in there.connections))
        there.connection(verb).writer.close()
        with pytest.raises(RouterUnreachableError, match=f"hung up at {verb}"):
            await soon(call)


@every_step
async def test_a_connection_that_breaks_is_named_with_the_step(verb: str) -> None:
    async with scripted(**{verb: SILENCE}) as there:
        call = asyncio.ensure_future(STEPS[verb](there.sam))
        await until(lambda: any(connection.verb == verb for connection in there.connections))
        writer = there.connection(verb).writer
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        with pytest.raises(RouterUnreachableError, match=f"hung up at {verb}"):
            await soon(call)


@pytest.mark.parametrize(
    ("verb", "limit"),
    [
        ("HELLO VERSION", "ANSWER_SECONDS"),
        ("DEST GENERATE", "ANSWER_SECONDS"),
        ("NAMING LOOKUP", "LOOKUP_SECONDS"),
        ("SESSION CREATE", "SESSION_SECONDS"),
        ("STREAM FORWARD", "ANSWER_SECONDS"),
        ("STREAM CONNECT", "SESSION_SECONDS"),
    ],
)
async def test_a_router_that_does_not_answer_is_given_up(
    verb: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon_tired(monkeypatch, verb, getattr(sam_module, limit), 0.25)
    with pytest.raises(RouterUnreachableError, match=f"did not answer {verb} within 0.25 s"):
        raise await failing(verb, SILENCE)


def test_what_needs_tunnels_or_floodfills_has_more_time() -> None:
    # Seen on i2pd: 20 to 40 s for a session. A look-up has a limit of 40 s there.
    assert sam_module.SESSION_SECONDS >= 60
    assert sam_module.LOOKUP_SECONDS > 40


@every_step
async def test_an_endless_line_is_given_up(verb: str) -> None:
    assert f"answered {verb} with an endless line: is it SAM?" in str(await failing(verb, ENDLESS))


@every_step
async def test_a_line_beyond_the_limit_is_given_up(verb: str) -> None:
    line = b"A" * (MAX_LINE_BYTES + 1) + b"\n"
    assert f"answered {verb} with an endless line: is it SAM?" in str(await failing(verb, line))


KINDS = {
    "HELLO VERSION": b"HELLO REPLY",
    "DEST GENERATE": b"DEST REPLY",
    "NAMING LOOKUP": b"NAMING REPLY",
    "SESSION CREATE": b"SESSION STATUS",
    "STREAM FORWARD": b"STREAM STATUS",
    "STREAM CONNECT": b"STREAM STATUS",
}
OTHERS = [
    b"\n",
    b"HTTP/1.1 400 Bad Request\r\n",
    b"HELLO REPLY\n",
    b"\xff\xfe\xfd\n",
    b"PING 1 2\n",
    b"SESSION STATUS RESULT=OK DESTINATION=AAAA\n",
    b"NAMING REPLY RESULT=OK NAME=x VALUE=x\n",
    b"STREAM STATUS RESULT=OK\n",
]


@pytest.mark.parametrize(
    ("verb", "reply"),
    [(verb, reply) for verb, kind in KINDS.items() for reply in OTHERS if not reply.startswith(kind + b" ")],
)
async def test_something_else_than_the_answer_is_none(verb: str, reply: bytes) -> None:
    error = await failing(verb, reply)
    assert f"answered {verb} with something else: is it SAM?" in str(error)


@pytest.mark.parametrize(
    ("verb", "reply", "expected"),
    [
        ("DEST GENERATE", b"DEST REPLY PUB=AAAA\n", "answered without PRIV"),
        ("DEST GENERATE", b"DEST REPLY PUB=AAAA PRIV\n", "answered without PRIV"),
        ("DEST GENERATE", b"DEST REPLY PUB=AAAA PRIV=\n", "gave invalid keys"),
        ("DEST GENERATE", b"DEST REPLY PUB=AAAA PRIV=AAAA\n", "gave invalid keys"),
        ("DEST GENERATE", b"DEST REPLY PUB=AAAA PRIV=" + b"A" * 3000 + b"\n", "gave invalid keys"),
        ("NAMING LOOKUP", b"NAMING REPLY RESULT=OK NAME=x\n", "answered without VALUE"),
        ("NAMING LOOKUP", b"NAMING REPLY RESULT=OK NAME=x VALUE\n", "answered without VALUE"),
        ("NAMING LOOKUP", b"NAMING REPLY RESULT=OK NAME=x VALUE=*\n", "gave an unusable destination"),
    ],
)
async def test_values_that_are_missing_or_none_are_named(verb: str, reply: bytes, expected: str) -> None:
    assert expected in str(await failing(verb, reply))


# --- Nobody there -----------------------------------------------------------------------------------------


async def test_a_router_that_is_not_there_is_named() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sam = Sam("127.0.0.1", sock.getsockname()[1])
        with pytest.raises(RouterUnreachableError) as caught:
            await sam.generate()
    said = str(caught.value)
    assert said.startswith(f"SAM at 127.0.0.1:{sam.port} does not answer (Connection refused): check that the router")
    assert "[sam] enabled = true" in said


async def test_an_address_from_which_we_cannot_ask_is_named() -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        with pytest.raises(RouterUnreachableError, match=r"does not answer 192\.0\.2\.7 \("):
            await session.forward("192.0.2.7", 4150)
        session.close()


async def test_a_router_that_does_not_take_the_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sam_module, "ANSWER_SECONDS", 0.05)
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # the kernel takes a connection or two of its own accord, then no more
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        with pytest.raises(RouterUnreachableError, match=r"does not answer \(nothing within 0.05 s\)"):
            await Sam("127.0.0.1", full.getsockname()[1]).generate()


# --- Requests that are never sent -------------------------------------------------------------------------

UNSAYABLE = ["a b", "a\nSESSION CREATE", "", "é.i2p", "a\r", "a\0", "a" * 1025]


@pytest.mark.parametrize("name", UNSAYABLE)
async def test_a_name_that_is_no_word_is_not_looked_up(name: str) -> None:
    async with scripted() as there:
        with pytest.raises(RouterRefusedError, match="cannot be sent to SAM"):
            await there.sam.lookup(name)
        assert there.connections == []


@pytest.mark.parametrize("name", UNSAYABLE)
async def test_a_peer_that_is_no_word_is_not_connected_to(name: str) -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        for connects in (session.connect, session.connect_socket):
            with pytest.raises(RouterRefusedError, match="cannot be sent to SAM"):
                await connects(name)
        assert len(there.heard) == 1
        session.close()


@pytest.mark.parametrize("options", [{"inbound.nickname": "my farm"}, {"a\n": "b"}, {"a b": "c"}, {"x": "y\nQUIT"}])
async def test_an_option_that_is_no_word_makes_no_session(options: dict[str, str]) -> None:
    # i2pd splits at every space: a part would become a separate option.
    async with scripted() as there:
        with pytest.raises(RouterRefusedError, match="cannot be sent to SAM"):
            await there.sam.session(KEYS, options)
        assert there.connections == []


# --- Keys -------------------------------------------------------------------------------------------------

PRIVATE = KEYS.base64
SECRET = PRIVATE[len(PRIVATE) - 300 :]


def told(error: BaseException) -> str:
    """Give all text of an error that a log could have."""
    texts = traceback.format_exception(error)
    cause: BaseException | None = error
    while cause is not None:
        texts += [str(cause), repr(cause), *map(repr, cause.args)]
        cause = cause.__cause__ or cause.__context__
    return "\n".join(texts)


@every_step
@pytest.mark.parametrize(
    "answer",
    [
        HANG_UP,
        ENDLESS,
        f"SESSION STATUS RESULT=INVALID_KEY MESSAGE={PRIVATE}\n".encode(),
        f'SESSION STATUS RESULT=I2P_ERROR MESSAGE="the key {PRIVATE} is none"\n'.encode(),
        f"SESSION STATUS RESULT={PRIVATE}\n".encode(),
        f"SESSION STATUS {PRIVATE} {PRIVATE}\n".encode(),
        f"{PRIVATE} {PRIVATE} {PRIVATE}\n".encode(),
        f"DEST REPLY PUB={KEYS.destination.base64} PRIV={PRIVATE[:-4]}\n".encode(),
        f"DEST REPLY PUB={KEYS.destination.base64} PRIV={PRIVATE}=\n".encode(),
        f"DEST REPLY PUB={KEYS.destination.base64} PRIV={PRIVATE[:-8]}AAAA{PRIVATE[-4:]}\n".encode(),
        f"DEST REPLY RESULT=I2P_ERROR PRIV={PRIVATE}\n".encode(),
        f"NAMING REPLY RESULT=OK NAME=x VALUE={PRIVATE}\n".encode(),
    ],
)
async def test_no_error_tells_a_key(verb: str, answer: Answer) -> None:
    await tells_no_key(verb, answer, STEPS[verb])
    if verb == "STREAM CONNECT":
        await tells_no_key(verb, answer, connect_socket)


async def tells_no_key(verb: str, answer: Answer, call: Call) -> None:
    async with scripted(**{verb: answer}) as there:
        try:
            await soon(call(there.sam))
        except RouterError as error:
            said = told(error)
            assert not any(SECRET[start : start + 16] in said for start in range(len(SECRET) - 16))
        else:
            assert isinstance(answer, bytes)
            assert b"PRIV" in answer or verb == "SESSION CREATE", "an answer that is good enough"


def test_neither_client_nor_session_shows_keys() -> None:
    assert SECRET[:16] not in repr(Sam("127.0.0.1")) + repr(KEYS)


# --- The end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["SESSION CREATE", "STREAM FORWARD"])
async def test_a_session_ends_when_the_router_ends_one_of_its_connections(verb: str) -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        await session.forward("127.0.0.1", 4150)
        ended = asyncio.ensure_future(session.ended())
        for connection in there.connections:
            connection.writer.write(b"PING 1\nSESSION STATUS RESULT=I2P_ERROR MESSAGE=x\n" * 100)
            await connection.writer.drain()
        assert not ended.done()
        there.connection(verb).writer.close()
        await soon(ended)
        session.close()


async def test_a_session_ends_when_the_connection_breaks() -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        ended = asyncio.ensure_future(session.ended())
        writer = there.connection("SESSION CREATE").writer
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await soon(ended)
        session.close()


async def test_waiting_for_the_end_can_be_given_up_and_begun_again() -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        await session.forward("127.0.0.1", 4150)
        for _ in range(3):
            waiting = asyncio.ensure_future(session.ended())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
        there.connection("SESSION CREATE").writer.close()
        await soon(session.ended())
        session.close()


async def test_closing_ends_the_session_and_its_forwards() -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        await session.forward("127.0.0.1", 4150)
        await session.forward("127.0.0.1", 4151)
        ended = asyncio.ensure_future(session.ended())
        await asyncio.sleep(0)
        session.close()
        await soon(ended)
        await until(lambda: all(connection.gone for connection in there.connections))
        assert len(there.connections) == 3
        session.close()  # again does no harm


@pytest.mark.parametrize("verb", ["HELLO VERSION", "SESSION CREATE"])
async def test_a_session_that_is_given_up_while_it_is_made_leaves_no_connection(verb: str) -> None:
    async with scripted(**{verb: SILENCE}) as there:
        making = asyncio.ensure_future(there.sam.session(KEYS))
        await until(lambda: there.connections and there.connections[0].verb == verb)
        making.cancel()
        await asyncio.wait([making])
        assert making.cancelled()
        await until(lambda: there.connections[0].gone)


@pytest.mark.parametrize("verb", ["HELLO VERSION", "STREAM CONNECT"])
async def test_a_stream_that_is_given_up_while_it_is_opened_leaves_no_connection(verb: str) -> None:
    async with scripted() as there:
        session = await there.sam.session(KEYS)
        there.answers[verb] = SILENCE
        opening = asyncio.ensure_future(session.connect_socket(PEER))
        await until(lambda: len(there.connections) == 2 and there.connections[1].verb == verb)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        await until(lambda: there.connections[1].gone)
        session.close()


def test_the_recording_is_of_a_real_router() -> None:
    assert len(REQUESTS) == len(REPLIES) == 18
    assert REPLIES["nonsense"] == b"\n", "i2pd hangs up at what it does not know"
    assert isinstance(HANG_UP, Instead)
