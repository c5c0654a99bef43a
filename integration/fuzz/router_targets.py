"""Targets of the router's protocols: I2CP, streaming, SAM, i2pcontrol."""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from bridges.errors import RouterError
from bridges.i2cp.messages import Decoder, MalformedError, RouterMessage, SetDate, read_message
from bridges.i2cp.session import read_config
from bridges.i2pcontrol.extension import (
    CallParameters,
    ParameterError,
    PublicationState,
    decode_publication_state,
    encode_publication,
    encode_status,
)
from bridges.i2pcontrol.router_answers import CheckedAnswer, RouterProgram, kind, reachability, server_tunnels
from bridges.i2pcontrol.strict_json import JsonError, parse_object
from bridges.router_protocol import Publication
from bridges.sam.reply import destination_of, keys_of, message_of, parse_reply, printable, result_of, value_of
from bridges.serving.jsonrpc_server import CallError, error_reply, read_call, reply
from bridges.streaming.envelope import pack_packet, unpack
from bridges.streaming.errors import PacketError
from bridges.streaming.packet import Flag, Packet, meant_for, signing_key
from bridges.streaming.ping import ping, read_echo
from gf_i2p.netdb.session_config import session_config
from integration.fuzz import samples
from integration.fuzz.target import Target

_JSON_TOKENS: Final = (
    b'{"id":1,', b'"jsonrpc":"2.0"', b'"method":"PublishMetaLS"', b'"params":{', b'"result":{',
    b'"error":{"code":-32001}', b'"Token":"', b'"Entries":[{', b'"Hash":"', b'"Cost":', b'"Expires":', b'"Type":7',
    b'"State":"sent"', b'"I2PTunnel":{"server":{', b'"address":"', b'"i2p.router.net.status":',
    b'"i2p.router.version":"2.58.0"', b"1e400", b"NaN", b"\\ud800", b'"a":0,"a":0', b"[[", b"]]", b"}}",
)  # fmt: skip


# I2CP ----------------------------------------------------------------------------------------------------------------


def _frames(data: bytes) -> None:
    """Feed frames whole and in pieces: the messages must be the same."""
    whole = _messages([data])
    assert whole == _messages([data[:3], data[3:9], data[9:]])
    for message in whole[0]:
        if isinstance(message, SetDate):
            assert message.date_ms.to_bytes(6, "big"), "a date goes into a field of six bytes"


def _messages(pieces: list[bytes]) -> tuple[list[RouterMessage], bool]:
    decoder = Decoder()
    messages: list[RouterMessage] = []
    for piece in pieces:
        decoder.feed(piece)
        try:
            while (message := decoder.next()) is not None:
                messages.append(message)
        except MalformedError:
            return messages, True
    return messages, False


def _frame(kind_: int, body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + bytes([kind_]) + body


def _bodies() -> Iterator[tuple[int, bytes]]:
    yield 33, samples.NOW_MS.to_bytes(8, "big") + b"\x060.9.57"
    yield 33, samples.NOW_MS.to_bytes(8, "big")
    yield 20, b"\0\1\1"
    yield 37, b"\0\1\2" + bytes(88)
    yield 31, b"\0\1" + bytes(4) + b"\0\0\0\3abc"
    yield 30, b"\x04gone"
    yield 30, b""
    yield 39, b"\xff\xff" + b"\0\0\0\1" + b"\0" + samples.keys().destination.data
    yield 39, b"\xff\xff" + b"\0\0\0\1" + b"\1"
    yield 99, b"x"


def _recorded_frames() -> Iterator[bytes]:
    for router in samples.recorded("bridges/i2cp/recorded_host_lookup.json")["routers"].values():
        for exchange in router["exchanges"].values():
            yield bytes.fromhex(exchange["reply"])
    yield b"".join(_frame(*each) for each in _bodies())


def _session_config(data: bytes) -> None:
    read_config(data, samples.keys().destination, subject="the set is", owner="the master")


# Streaming -----------------------------------------------------------------------------------------------------------


def _packet(data: bytes) -> None:
    packet = Packet.parse(data)
    meant_for(packet, bytes(32))
    _ = packet.plain_ack
    if packet.flags & Flag.SYNCHRONIZE:
        signing_key(packet, samples.NOW)


def _packets() -> Iterator[bytes]:
    keys = samples.keys("leaf")
    first = Flag.SYNCHRONIZE | Flag.SIGNATURE | Flag.FROM | Flag.MAX_PAYLOAD | Flag.DELAY
    yield Packet(
        0, 7, nacks=tuple(range(8)), flags=first, payload=b"GET", delay_ms=5, source=keys.destination, max_payload=1730
    ).encode(keys.key.sign)
    delegated = samples.delegated_keys()
    yield Packet(
        0,
        7,
        flags=Flag.SYNCHRONIZE | Flag.SIGNATURE | Flag.FROM | Flag.OFFLINE_SIGNATURE,
        source=delegated.destination,
        offline=delegated.offline,
    ).encode(delegated.key.sign)
    yield Packet(8, 7, 5, 4, (2, 3), payload=b"data").encode()
    for payload in _payloads():
        yield unpack(payload).payload


def _payloads() -> Iterator[bytes]:
    yield pack_packet(b"payload", 80, 443)
    yield ping(samples.keys(), 5, bytes(16))
    for text in samples.recorded("bridges/streaming/recorded_streaming.json")["payloads"]:
        yield bytes.fromhex(text)


def _envelope(data: bytes) -> None:
    envelope = unpack(data)
    assert len(envelope.payload) < 2**16


def _echo(data: bytes) -> None:
    read_echo(data)


def _echoes() -> Iterator[bytes]:
    yield pack_packet(Packet(0, 5, flags=Flag.ECHO, payload=bytes(16)).encode(), 0, 0)
    yield from _payloads()
    yield zlib.compress(bytes(1 << 20))
    yield gzip.compress(bytes(1 << 20), mtime=0)


# SAM -----------------------------------------------------------------------------------------------------------------

_PASSWORD: Final = "secret"


def _sam_reply(data: bytes) -> None:
    """Read one reply, as SAM gives it to each of the requests."""
    answer = parse_reply(data)
    if answer is None:
        return
    message = message_of(answer, secret=_PASSWORD)
    for text in (message, printable(result_of(answer))):
        assert text == "" or text.isprintable()
        assert len(text) <= 200
    assert _PASSWORD not in message
    for name, read in (("VALUE", destination_of), ("PRIV", keys_of)):
        with suppress(RouterError):
            read(value_of(answer, name))


def _sam_replies() -> Iterator[bytes]:
    for file in ("recorded_sam.json", "recorded_java_sam.json"):
        for exchange in samples.recorded(f"bridges/sam/{file}")["exchanges"].values():
            yield exchange["reply"].encode() + b"\n"
    yield b'HELLO REPLY RESULT=I2P_ERROR MESSAGE="Authorization failed for me secret"\n'


# i2pcontrol ----------------------------------------------------------------------------------------------------------


def _object(data: bytes) -> dict[str, Any]:
    return parse_object(data)


def _recorded_bodies(side: str) -> Iterator[bytes]:
    for file in ("i2pd-2.45.1.json", "java-2.8.0.json"):
        for exchange in samples.recorded(f"bridges/recorded/{file}")["exchanges"]:
            text: str = exchange[side]
            yield re.split(r"\r?\n\r?\n", text, maxsplit=1)[-1].encode()


def _objects() -> Iterator[bytes]:
    yield from _recorded_bodies("reply")
    yield b'{"%s":0}' % (b"u" * 1000)
    yield b'{"a1":0,"z":{"y":[1.5e3,"\\"",true,null]},"b2":0,"b2":0}'


_LONGEST_NAME: Final = 100
"""Most characters of a name that the target asks for. A note repeats the name; the program asks for short ones."""


def _router_answer(data: bytes) -> None:
    """Judge an answer as one of RouterInfo and as one of ClientServicesInfo."""
    values = parse_object(data)
    result = values.get("result")
    info = result if isinstance(result, dict) else values
    notes: list[str] = []
    for router in (kind(info), RouterProgram.I2PD, RouterProgram.JAVA, None):
        answer = CheckedAnswer(info, notes.append)
        reachability(router, answer, notes.append)
        for name in info:
            if len(name) <= _LONGEST_NAME and name.isprintable():  # the program asks for no other names
                answer.count(name)
                answer.text(name)
    for tunnel in server_tunnels(info):
        tunnel.hash()
    assert all(note.isprintable() and len(note) < 1000 for note in notes if "does not tell" not in note)


def _calls() -> Iterator[bytes]:
    yield from _recorded_bodies("request")
    session = session_config(samples.keys(), samples.NOW_MS)
    params = encode_publication(Publication(samples.meta_set(), session, session), 10.0)
    yield reply_of("PublishMetaLS", params)
    entries = [{"Hash": samples.keys("leaf").destination.b32, "Cost": 3, "Expires": samples.NOW, "Type": 7}]
    master = samples.keys().destination.b32
    yield reply_of("PublishMetaLS", {"MasterHash": master, "Entries": entries, "Token": "t"})
    yield reply_of("GetLocalLeafHash", {"MasterHash": master, "Place": 3, "Timeout": 5})


def reply_of(method: str, params: Any) -> bytes:
    """Encode a call."""
    text = reply(None, params).decode()
    params_text = text[text.index('"result":') + 9 : -1]
    return f'{{"id":"x","jsonrpc":"2.0","method":"{method}","params":{params_text}}}'.encode()


def _call(data: bytes) -> None:
    """Read a call, answer it, and take the parameters of each method."""
    call = read_call(data)
    reply(call.id, None)
    error_reply(call.id, -1, "no")
    for take in (_publication, _plain_entries, _leaf):
        try:
            take(CallParameters(call.params))
        except ParameterError as error:
            str(error).encode("utf-8")


def _publication(params: CallParameters) -> None:
    params.publication()
    params.timeout(1.0)
    params.finish()


def _plain_entries(params: CallParameters) -> None:
    if params.has_entries:
        params.entries()
    params.hash("MasterHash")
    params.finish()


def _leaf(params: CallParameters) -> None:
    params.place()
    params.timeout(1.0)
    params.hash("MasterHash")


def _publication_state(data: bytes) -> None:
    state = decode_publication_state(parse_object(data))
    assert decode_publication_state(encode_status(state)).state is state.state


def _publication_states() -> Iterator[bytes]:
    text = reply(None, encode_status(PublicationState(published=samples.NOW))).decode()
    yield text[text.index('"result":') + 9 : -1].encode()
    yield b'{"State":"lost","Reason":"gone \\u0000","Published":1,"Expires":4294967295}'


TARGETS: Final = (
    Target(
        "i2cp-stream",
        _frames,
        (),
        lambda: (*_recorded_frames(), *(_frame(*each) for each in _bodies())),
    ),
    Target(
        "i2cp-message",
        lambda data: read_message(data[0] if data else 0, data[1:]),
        (MalformedError,),
        lambda: (bytes([number]) + body for number, body in _bodies()),
    ),
    Target(
        "i2cp-session-config",
        _session_config,
        (RouterError,),
        lambda: (session_config(samples.keys(), samples.NOW_MS), session_config(samples.keys("other"), 1)),
    ),
    Target("streaming-packet", _packet, (PacketError,), _packets),
    Target("streaming-envelope", _envelope, (PacketError,), _payloads),
    Target("streaming-echo", _echo, (), _echoes),
    Target(
        "sam-reply",
        _sam_reply,
        (),
        _sam_replies,
        (b"RESULT=OK", b"RESULT=", b"MESSAGE=", b'MESSAGE="', b"VALUE=", b"PRIV=", b"HELLO REPLY ", b"DEST REPLY "),
    ),
    Target("bridge-json", _object, (JsonError,), _objects, _JSON_TOKENS),
    Target(
        "router-answer",
        _router_answer,
        (JsonError,),
        _objects,
        _JSON_TOKENS,
    ),
    Target(
        "json-rpc-call",
        _call,
        (CallError,),
        _calls,
        _JSON_TOKENS,
    ),
    Target(
        "publication-state",
        _publication_state,
        (JsonError, RouterError),
        _publication_states,
        _JSON_TOKENS,
    ),
)
